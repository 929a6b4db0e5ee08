#include "probes/inference/lengths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace mixproof::inference {
namespace {

std::vector<double> answers(const LengthRule& rule, std::uint32_t n, std::uint64_t seed = 1) {
  LengthDraws draws({.answer = rule}, seed);
  std::vector<double> out;
  for (std::uint32_t i = 0; i < n; ++i) out.push_back(draws.at(i, {}).answer_tokens);
  return out;
}

TEST(Lengths, FixedOnesAreFixed) {
  LengthDraws draws({.prompt_words = 7, .answer_tokens = 9}, 1);
  EXPECT_EQ(draws.at(3, {}).prompt_words, 7u);
  EXPECT_EQ(draws.at(0, {}).answer_tokens, 9u);
}

TEST(Lengths, UniformOnesReachBothEndsAndNothingBeyond) {
  std::map<double, int> seen;
  for (const double length : answers({.kind = "uniform", .min = 3, .max = 7}, 5000)) ++seen[length];
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_EQ(seen.begin()->first, 3);
  for (const auto& [length, count] : seen) EXPECT_NEAR(count, 1000, 5 * std::sqrt(800)) << length;
}

TEST(Lengths, LognormalOnesHaveTheirMedianAndSpreadAndAreCut) {
  std::vector<double> drawn =
      answers({.kind = "lognormal", .min = 1, .max = 100'000, .p50 = 200, .sigma = 0.8}, 20'000);
  std::sort(drawn.begin(), drawn.end());
  EXPECT_NEAR(drawn[10'000], 200, 200 * 0.8 * 1.25 * 4 / std::sqrt(20'000));
  EXPECT_NEAR(std::log(drawn[16'827] / drawn[10'000]), 0.8, 0.04);  // one deviation above
  drawn = answers({.kind = "lognormal", .min = 150, .max = 250, .p50 = 200, .sigma = 0.8}, 2000);
  EXPECT_EQ(*std::min_element(drawn.begin(), drawn.end()), 150);
  EXPECT_EQ(*std::max_element(drawn.begin(), drawn.end()), 250);
}

TEST(Lengths, ChoicesFollowTheirWeights) {
  std::map<double, int> seen;
  for (const double length :
       answers({.kind = "choice", .lengths = {8, 64, 512}, .weights = {1, 0, 3}}, 8000))
    ++seen[length];
  EXPECT_EQ(seen.count(64), 0u);
  EXPECT_NEAR(seen[512], 6000, 5 * std::sqrt(1500));
  seen.clear();
  for (const double length : answers({.kind = "choice", .lengths = {8, 64}}, 2000)) ++seen[length];
  EXPECT_NEAR(seen[8], 1000, 5 * std::sqrt(500));
}

TEST(Lengths, FollowFromSeedAndIndexInWhateverOrderTheyAreAsked) {
  const LengthRule rule{.kind = "lognormal", .max = 5000};
  EXPECT_EQ(answers(rule, 50), answers(rule, 50));
  EXPECT_NE(answers(rule, 50), answers(rule, 50, 2));
  LengthDraws backwards({.answer = rule}, 1);
  EXPECT_EQ(backwards.at(49, {}).answer_tokens, answers(rule, 50)[49]);
  EXPECT_EQ(backwards.at(0, {}).answer_tokens, answers(rule, 50)[0]);
  // One rule more does not shift the other.
  LengthDraws both({.prompt = {.kind = "uniform"}, .answer = rule}, 1);
  EXPECT_EQ(both.at(20, {}).answer_tokens, answers(rule, 50)[20]);
}

TEST(Lengths, ThoseOfATraceAreTakenFromIt) {
  LengthDraws draws({.prompt_words = 7, .answer = {.kind = "trace"}}, 1);
  const RequestLengths drawn = draws.at(0, {500, 60});
  EXPECT_EQ(drawn.prompt_words, 7u);
  EXPECT_EQ(drawn.answer_tokens, 60u);
}

TEST(Lengths, WhatCannotBeDrawnIsRefused) {
  EXPECT_FALSE(check_lengths({.prompt = {.kind = "trace"}}, false).ok());
  EXPECT_TRUE(check_lengths({.prompt = {.kind = "trace"}}, true).ok());
  const LengthRule wrong[] = {{.kind = "uniform", .min = 5, .max = 4},
                              {.kind = "uniform", .min = 0, .max = 4},
                              {.kind = "choice"},
                              {.kind = "choice", .lengths = {2.5}},
                              {.kind = "choice", .lengths = {1, 2}, .weights = {1}},
                              {.kind = "choice", .lengths = {1, 2}, .weights = {0, 0}}};
  for (const LengthRule& rule : wrong)
    EXPECT_FALSE(check_lengths({.answer = rule}, false).ok()) << rule.kind;
  EXPECT_TRUE(check_lengths({.prompt = {.kind = "uniform", .min = 0, .max = 4}}, false).ok());
}

TEST(Lengths, MeansAreThoseOfTheDistributions) {
  EXPECT_EQ(mean_length({}, 24), 24);
  EXPECT_EQ(mean_length({.kind = "uniform", .min = 2, .max = 4}, 0), 3);
  EXPECT_EQ(mean_length({.kind = "choice", .lengths = {8, 16}, .weights = {3, 1}}, 0), 10);
  EXPECT_NEAR(mean_length({.kind = "lognormal", .p50 = 100, .sigma = 1}, 0), 164.87, 0.01);
}

}  // namespace
}  // namespace mixproof::inference
