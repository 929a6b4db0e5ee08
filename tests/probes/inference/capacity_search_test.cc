#include "probes/inference/capacity_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "harness/base/random.h"

namespace mixproof::inference {
namespace {

using End = CapacitySearch::End;

// A server that holds its target up to `capacity`.
CapacitySearch search_of(const CapacityBounds& bounds, double capacity) {
  CapacitySearch search(bounds);
  while (search.end() == End::kNone)
    search.report(search.next_rate() <= capacity ? TrialVerdict::kProved : TrialVerdict::kRefuted);
  return search;
}

TEST(CapacitySearch, BracketsTheCapacityWithinTheResolution) {
  const CapacityBounds bounds{
      .rate_low = 5, .rate_high = 1000, .resolution = 1.05, .max_trials = 20};
  for (const double capacity : {5.0, 7.3, 99.0, 333.0, 999.0}) {
    const CapacitySearch search = search_of(bounds, capacity);
    EXPECT_EQ(search.end(), End::kResolved) << capacity;
    EXPECT_LE(search.proved(), capacity);
    EXPECT_GT(search.not_proved(), capacity);
    EXPECT_LE(search.not_proved(), 1.05 * search.proved());
    EXPECT_LE(search.trials(), bounds.max_trials);
  }
}

TEST(CapacitySearch, SaysWhereItCouldNotSearch) {
  const CapacityBounds bounds{.rate_low = 5, .rate_high = 100};
  EXPECT_EQ(search_of(bounds, 4).end(), End::kBelowLow);
  EXPECT_EQ(search_of(bounds, 4).proved(), 0);
  EXPECT_EQ(search_of(bounds, 100).end(), End::kAtHigh);
  EXPECT_EQ(search_of(bounds, 100).proved(), 100);
  CapacitySearch undecided(bounds);
  undecided.report(TrialVerdict::kUndecided);
  EXPECT_EQ(undecided.end(), End::kUndecided);
  const CapacityBounds few{.rate_low = 1, .rate_high = 1000, .resolution = 1.01, .max_trials = 4};
  EXPECT_EQ(search_of(few, 6).end(), End::kOutOfTrials);
  EXPECT_EQ(search_of(few, 6).proved(), 4);
}

TEST(CapacitySearch, WhatStaysUndecidedIsNotProved) {
  CapacitySearch search({.rate_low = 10, .rate_high = 100, .resolution = 1.5});
  search.report(TrialVerdict::kProved);     // 10
  search.report(TrialVerdict::kUndecided);  // 20
  EXPECT_EQ(search.proved(), 10);
  EXPECT_EQ(search.not_proved(), 20);
  EXPECT_NEAR(search.next_rate(), std::sqrt(200), 1e-9);
  search.report(TrialVerdict::kProved);
  EXPECT_EQ(search.end(), End::kResolved);
}

TEST(JudgeTrial, ProvesRefutesOrLeavesOpen) {
  const CapacityBounds bounds{.target = 0.9, .confidence = 0.95, .max_trials = 1, .looks = 1};
  EXPECT_EQ(judge_trial(29, 29, bounds).verdict, TrialVerdict::kProved);  // least n of 0.9 at 0.95
  EXPECT_EQ(judge_trial(28, 28, bounds).verdict, TrialVerdict::kUndecided);
  EXPECT_EQ(judge_trial(0, 3, bounds).verdict, TrialVerdict::kRefuted);
  EXPECT_EQ(judge_trial(90, 100, bounds).verdict, TrialVerdict::kUndecided);
  EXPECT_EQ(judge_trial(0, 0, bounds).verdict, TrialVerdict::kUndecided);
  // The same counts prove less when the error is spent over many looks.
  const CapacityBounds many{.target = 0.9, .confidence = 0.95, .max_trials = 12, .looks = 3};
  EXPECT_NEAR(confidence_of_a_look(many), 1 - 0.05 / 36, 1e-12);
  EXPECT_EQ(judge_trial(29, 29, many).verdict, TrialVerdict::kUndecided);
  EXPECT_EQ(judge_trial(63, 63, many).verdict, TrialVerdict::kProved);
}

// A server that misses the target just so at every rate: a search must hardly ever name one.
TEST(CapacitySearch, NamesARateThatMissesTheTargetNoOftenerThanItsConfidenceSays) {
  const CapacityBounds bounds{.rate_low = 10, .rate_high = 100, .target = 0.9, .confidence = 0.95};
  Random random(11, "capacity");
  int wrong = 0;
  constexpr int kRuns = 2000, kRequests = 150;
  for (int run = 0; run < kRuns; ++run) {
    CapacitySearch search(bounds);
    while (search.end() == End::kNone) {
      std::int64_t good = 0, n = 0;
      TrialVerdict verdict = TrialVerdict::kUndecided;
      for (int look = 0; look < bounds.looks && verdict == TrialVerdict::kUndecided; ++look) {
        for (int i = 0; i < kRequests; ++i) good += random.unit() < 0.8999 ? 1 : 0;
        n += kRequests;
        verdict = judge_trial(good, n, bounds).verdict;
      }
      search.report(verdict);
    }
    wrong += search.proved() > 0 ? 1 : 0;
  }
  EXPECT_LE(wrong, kRuns * 0.05);
}

}  // namespace
}  // namespace mixproof::inference
