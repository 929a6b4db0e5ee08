#include "probes/inference/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "probes/inference/clock.h"
#include "tests/fake/paths.h"

namespace mixproof::inference {
namespace {

const std::vector<SchedulePhase> kPhases = {{"baseline", 0, 25 * kSecond},
                                            {"contention", 25 * kSecond, 50 * kSecond},
                                            {"after", 60 * kSecond, 70 * kSecond}};

const std::string kOwnTrace = std::string(kSourceDir) + "/tests/probes/inference/traces/own.jsonl";

Schedule draw(const ArrivalProcess& process, std::uint64_t seed = 1,
              std::vector<SchedulePhase> phases = kPhases) {
  return *draw_schedule(process, phases, seed, {});
}

TEST(Arrivals, OneSeedGivesOneScheduleAndAnotherGivesAnother) {
  const ArrivalProcess process{"poisson", 6};
  EXPECT_EQ(draw(process).hash, draw(process).hash);
  EXPECT_EQ(draw(process).hash.size(), 64u);
  EXPECT_NE(draw(process).hash, draw(process, 2).hash);
  EXPECT_NE(draw(process).hash, draw({"poisson", 6.001}).hash);
  EXPECT_NE(draw(process).hash, draw_schedule(process, kPhases, 1, {.prompt_words = 17})->hash);
}

TEST(Arrivals, TheHashIsTheSameOnEveryMachine) {  // a change here breaks the comparison of reports
                                                  // of two builds
  const Schedule schedule = draw({"constant", 1}, 1, {{"p", 0, 3 * kSecond}});
  EXPECT_EQ(schedule.arrivals[0].at_ns, 500'000'000);
  EXPECT_EQ(schedule.hash, "3aaf07bf4ea2a106812b852ed8c58e471be384c79a5bbd977721d891c9b7b9fc");
  EXPECT_EQ(
      prompt_text(schedule, schedule.arrivals[0]),
      "cf9d2085 bone bank bath dawn coal away dawn base band bear food exit boat cook ball fact");
  EXPECT_EQ(draw({"poisson", 6}).hash,
            "037c12fb995ef9b2392db7e93ddfd113417512af8d5216629a4c6947b467a12c");
  const Schedule drawn =
      *draw_schedule({.kind = "ramp", .process = "gamma", .form = "exponential"}, kPhases, 1,
                     {.prompt = {.kind = "lognormal"}, .answer = {.kind = "lognormal"}});
  EXPECT_EQ(drawn.hash, "f95eb94920928c0b85fd1a9b974f45709a54594a668af53502bef2155772b9df");
}

TEST(Arrivals, StayWithinTheirPhasesInOrder) {
  for (const char* kind : {"poisson", "constant"}) {
    const Schedule schedule = draw({kind, 6});
    for (std::size_t i = 0; i < schedule.arrivals.size(); ++i) {
      const Arrival& arrival = schedule.arrivals[i];
      EXPECT_GE(arrival.at_ns, kPhases[arrival.phase].begin_ns);
      EXPECT_LT(arrival.at_ns, kPhases[arrival.phase].end_ns);
      if (i > 0) {
        EXPECT_GE(arrival.at_ns, schedule.arrivals[i - 1].at_ns);
      }
    }
  }
}

TEST(Arrivals, AConstantRateTicksThroughBoundaries) {
  const Schedule schedule =
      draw({"constant", 3}, 1, {{"a", 0, 1'100'000'000}, {"b", 1'100'000'000, 10 * kSecond}});
  ASSERT_EQ(schedule.arrivals.size(), 30u);
  for (std::size_t i = 1; i < schedule.arrivals.size(); ++i)
    EXPECT_NEAR(static_cast<double>(schedule.arrivals[i].at_ns - schedule.arrivals[i - 1].at_ns),
                1e9 / 3, 1.0);
}

TEST(Arrivals, PoissonGapsHaveTheirRateAndTheirDistribution) {
  const double rate = 50;
  const Schedule schedule = draw({"poisson", rate}, 11, {{"p", 0, 400 * kSecond}});
  const double n = static_cast<double>(schedule.arrivals.size());
  EXPECT_NEAR(n, 20'000, 5 * std::sqrt(20'000));
  std::vector<double> gaps;
  for (std::size_t i = 1; i < schedule.arrivals.size(); ++i)
    gaps.push_back(
        1e-9 * static_cast<double>(schedule.arrivals[i].at_ns - schedule.arrivals[i - 1].at_ns));
  std::sort(gaps.begin(), gaps.end());
  double distance = 0;  // Kolmogorov-Smirnov
  for (std::size_t i = 0; i < gaps.size(); ++i)
    distance =
        std::max(distance, std::abs(1 - std::exp(-rate * gaps[i]) - static_cast<double>(i) / n));
  EXPECT_LT(distance, 1.95 / std::sqrt(n));   // alpha 0.001
  std::map<std::int64_t, double> per_second;  // dispersion: variance over mean of counts is 1
  for (std::int64_t s = 0; s < 400; ++s) per_second[s] = 0;
  for (const Arrival& arrival : schedule.arrivals) per_second[arrival.at_ns / kSecond] += 1;
  double variance = 0;
  for (const auto& [second, count] : per_second) variance += (count - rate) * (count - rate) / 400;
  EXPECT_NEAR(variance / rate, 1, 3.3 * std::sqrt(2.0 / 400));
}

TEST(Arrivals, AddingAPhaseDoesNotShiftTheOthers) {
  const Schedule all = draw({"poisson", 6});
  const Schedule two = draw({"poisson", 6}, 1, {kPhases[0], kPhases[1]});
  ASSERT_LT(two.arrivals.size(), all.arrivals.size());
  for (std::size_t i = 0; i < two.arrivals.size(); ++i)
    EXPECT_EQ(two.arrivals[i].at_ns, all.arrivals[i].at_ns);
}

TEST(Arrivals, PromptsHaveOneLengthTheSameWordsInEveryPhaseAndAFreshSalt) {
  const Schedule schedule = draw({"constant", 2});
  std::set<std::uint32_t> salts;
  std::map<std::uint32_t, std::string> words;
  for (const Arrival& arrival : schedule.arrivals) {
    const std::string prompt = prompt_text(schedule, arrival);
    EXPECT_EQ(prompt.size(), 8u + 16 * 5);
    EXPECT_TRUE(salts.insert(arrival.salt).second);
    const auto [known, fresh] = words.emplace(arrival.index, prompt.substr(8));
    EXPECT_EQ(known->second, prompt.substr(8));
  }
  EXPECT_NE(words[0], words[1]);
}

TEST(Arrivals, EveryShapeKeepsToItsPhasesAndItsSeed) {
  const ArrivalProcess shapes[] = {
      {.kind = "gamma", .rate_per_s = 6, .cv = 2},
      {.kind = "steps", .steps = {{2, 5}, {20, 5}}},
      {.kind = "ramp", .from_per_s = 1, .to_per_s = 20, .form = "exponential"},
      {.kind = "square", .rate_per_s = 4, .process = "gamma", .factors = {1, 3, 5}, .period_s = 9},
      {.kind = "bursts", .rate_per_s = 0, .process = "constant", .period_s = 10, .burst_per_s = 20},
      {.kind = "trace", .trace = {.path = kOwnTrace, .loop = true}}};
  for (const ArrivalProcess& shape : shapes) {
    const Schedule schedule = draw(shape), again = draw(shape), other = draw(shape, 2);
    EXPECT_EQ(schedule.hash, again.hash) << shape.kind;
    EXPECT_NE(schedule.hash, other.hash) << shape.kind;
    ASSERT_GT(schedule.arrivals.size(), 50u) << shape.kind;
    for (std::size_t i = 0; i < schedule.arrivals.size(); ++i) {
      const Arrival& arrival = schedule.arrivals[i];
      EXPECT_GE(arrival.at_ns, kPhases[arrival.phase].begin_ns);
      EXPECT_LT(arrival.at_ns, kPhases[arrival.phase].end_ns);
      if (i > 0) {
        EXPECT_GE(arrival.at_ns, schedule.arrivals[i - 1].at_ns);
      }
    }
    const Schedule two = draw(shape, 1, {kPhases[0], kPhases[1]});
    for (std::size_t i = 0; i < two.arrivals.size(); ++i)
      EXPECT_EQ(two.arrivals[i].at_ns, schedule.arrivals[i].at_ns) << shape.kind;
  }
}

// Mean and variance of the number of requests in the first 5 s of a phase, over seeds.
TEST(Arrivals, CountsHaveTheirMeanFromTheFirstMomentOnAndTheirSpread) {
  for (const double cv : {0.5, 1.0, 2.0}) {
    double sum = 0, squares = 0;
    constexpr int kRuns = 3000;
    for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
      const Schedule schedule =
          draw({.kind = "gamma", .rate_per_s = 10, .cv = cv}, seed, {{"p", 0, 5 * kSecond}});
      const auto count = static_cast<double>(schedule.arrivals.size());
      sum += count;
      squares += count * count;
    }
    const double mean = sum / kRuns, variance = squares / kRuns - mean * mean;
    EXPECT_NEAR(mean, 50, 4 * std::sqrt(50 * cv * cv / kRuns)) << cv;
    EXPECT_NEAR(variance / mean, cv * cv, 0.15 * cv * cv + 0.1) << cv;
  }
}

TEST(Arrivals, ARateThatChangesIsFollowed) {
  const Schedule schedule =
      draw({.kind = "steps", .steps = {{2, 10}, {40, 10}, {2, 5}}}, 3, {{"p", 0, 25 * kSecond}});
  std::map<std::int64_t, double> counts;
  for (const Arrival& arrival : schedule.arrivals) counts[arrival.at_ns / (10 * kSecond)] += 1;
  EXPECT_NEAR(counts[0], 20, 5 * std::sqrt(20));
  EXPECT_NEAR(counts[1], 400, 5 * std::sqrt(400));
  EXPECT_NEAR(counts[2], 10, 5 * std::sqrt(10));
}

TEST(Arrivals, ATraceIsReplayedInEveryPhaseWithItsLengths) {
  const ArrivalProcess process{.kind = "trace", .trace = {.path = kOwnTrace}};
  const Lengths lengths{.prompt = {.kind = "trace"}, .answer = {.kind = "trace"}};
  const Schedule schedule = *draw_schedule(process, kPhases, 1, lengths);
  ASSERT_EQ(schedule.arrivals.size(), 12u);
  EXPECT_EQ(schedule.arrivals[5].at_ns, 25'250 * kMillisecond);
  EXPECT_EQ(schedule.arrivals[5].prompt_words, 30u);
  EXPECT_EQ(schedule.arrivals[5].answer_tokens, 8u);
  EXPECT_EQ(schedule.trace_sha256.size(), 64u);
  EXPECT_EQ(schedule.trace_requests, 4);
  EXPECT_NE(schedule.hash, draw(process).hash);  // other lengths
  ArrivalProcess looped = process;
  looped.trace.loop = true;  // a round is 1.5 s and a mean gap of 0.5 s
  EXPECT_EQ(draw(looped, 1, {{"p", 0, 4 * kSecond}}).arrivals.size(), 8u);
  EXPECT_EQ(draw(looped, 1, {{"p", 0, 4 * kSecond}}).arrivals[4].at_ns, 2 * kSecond);
  // Lengths of a trace need one.
  EXPECT_FALSE(draw_schedule({"poisson", 6}, kPhases, 1, lengths).ok());
}

TEST(Arrivals, LengthsAreTheSameInEveryPhase) {
  const Lengths lengths{.prompt = {.kind = "lognormal"}, .answer = {.kind = "uniform"}};
  const Schedule schedule = *draw_schedule({"poisson", 20}, kPhases, 1, lengths);
  std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> by_index;
  std::set<std::uint32_t> prompts;
  for (const Arrival& arrival : schedule.arrivals) {
    const std::pair drawn{arrival.prompt_words, arrival.answer_tokens};
    EXPECT_EQ(by_index.emplace(arrival.index, drawn).first->second, drawn);
    prompts.insert(arrival.prompt_words);
    EXPECT_EQ(prompt_text(schedule, arrival).size(), 8u + 5 * arrival.prompt_words);
  }
  EXPECT_GT(prompts.size(), 50u);
}

TEST(Arrivals, WarmUpsHaveTheLengthsOfTheFirstRequestsAndSaltsOfTheirOwn) {
  const Lengths lengths{.answer = {.kind = "uniform"}};
  const Schedule schedule = *draw_schedule({"poisson", 20}, kPhases, 1, lengths);
  const Schedule warm = warm_up_schedule(schedule, 4, lengths);
  ASSERT_EQ(warm.arrivals.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(warm.arrivals[i].answer_tokens, schedule.arrivals[i].answer_tokens);
    for (const Arrival& arrival : schedule.arrivals) EXPECT_NE(warm.arrivals[i].salt, arrival.salt);
  }
  const Schedule of_nothing = warm_up_schedule({}, 2, {.prompt_words = 3, .answer_tokens = 5});
  ASSERT_EQ(of_nothing.arrivals.size(), 2u);
  EXPECT_EQ(of_nothing.arrivals[1].answer_tokens, 5u);
}

TEST(Arrivals, RefuseWhatCannotBeDrawn) {
  EXPECT_FALSE(draw_schedule({"poisson", 0}, kPhases, 1, {}).ok());
  EXPECT_FALSE(draw_schedule({"gauss", 1}, kPhases, 1, {}).ok());
  EXPECT_FALSE(draw_schedule({"poisson", 1e6}, kPhases, 1, {}).ok());
  EXPECT_FALSE(draw_schedule({.kind = "trace"}, kPhases, 1, {}).ok());
  const std::vector<SchedulePhase> overlap = {{"a", 0, 2}, {"b", 1, 3}};
  EXPECT_FALSE(draw_schedule({"poisson", 1}, overlap, 1, {}).ok());
}

}  // namespace
}  // namespace mixproof::inference
