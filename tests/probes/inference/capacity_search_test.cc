#include "probes/inference/capacity_search.h"

#include <gtest/gtest.h>

#include <algorithm>
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

TEST(QueueGrows, TellsAWaitThatRisesFromOneThatOnlyVaries) {
  Random random(3, "waits");
  const auto waits = [&random](double rise_per_s) {  // 100 requests over 5 s
    std::vector<double> out;
    for (int i = 0; i < 100; ++i) out.push_back(0.02 + rise_per_s * i * 0.05 + 0.1 * random.unit());
    return out;
  };
  EXPECT_FALSE(queue_grows(waits(0), 5, 1.1));
  EXPECT_FALSE(queue_grows(waits(-0.2), 5, 1.1));
  EXPECT_TRUE(queue_grows(waits(0.1), 5, 1.1));
  EXPECT_FALSE(queue_grows(waits(0.1), 5, 1.5));  // within what was asked for
  EXPECT_TRUE(queue_grows({}, 5, 1.1));
  EXPECT_NEAR(requests_to_see_growth(1.2), 300, 1e-6);
}

// One server of 200 a second, asked for 240 in lumps: its wait is the queue before each request.
TEST(QueueGrows, SeesAnOverloadOfTheResolutionBehindTheLumps) {
  int unseen = 0;
  constexpr int kRuns = 1000;
  constexpr double kLength = 1.25;  // 300 requests
  for (int run = 0; run < kRuns; ++run) {
    Random random(static_cast<std::uint64_t>(run), "lumps");
    std::vector<double> at(300), waits;
    for (double& one : at) one = kLength * random.unit();
    std::sort(at.begin(), at.end());
    double free_at = 0;
    for (const double one : at) {
      free_at = std::max(free_at, one) + 1.0 / 200;
      waits.push_back(free_at - one);
    }
    unseen += queue_grows(waits, kLength, 1.2) ? 0 : 1;
  }
  EXPECT_LE(unseen, kRuns * 0.01);
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
