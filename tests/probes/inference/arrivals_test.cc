#include "probes/inference/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "probes/inference/clock.h"

namespace mixproof::inference {
namespace {

const std::vector<SchedulePhase> kPhases = {{"baseline", 0, 25 * kSecond},
                                            {"contention", 25 * kSecond, 50 * kSecond},
                                            {"after", 60 * kSecond, 70 * kSecond}};

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
  EXPECT_EQ(schedule.hash, "dc940b67bf4d87272416b6f634bd85de2f1a40f4481fb696522be50bd7164fa2");
  EXPECT_EQ(
      prompt_text(schedule, schedule.arrivals[0]),
      "cf9d2085 bone bank bath dawn coal away dawn base band bear food exit boat cook ball fact");
  EXPECT_EQ(draw({"poisson", 6}).hash,
            "b601915163892466359f10f36d569c6c58dfcb8ff0519564f0cd225c22052727");
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

TEST(Arrivals, RefuseWhatCannotBeDrawn) {
  EXPECT_FALSE(draw_schedule({"poisson", 0}, kPhases, 1, {}).ok());
  EXPECT_FALSE(draw_schedule({"gamma", 1}, kPhases, 1, {}).ok());
  EXPECT_FALSE(draw_schedule({"poisson", 1e6}, kPhases, 1, {}).ok());
  const std::vector<SchedulePhase> overlap = {{"a", 0, 2}, {"b", 1, 3}};
  EXPECT_FALSE(draw_schedule({"poisson", 1}, overlap, 1, {}).ok());
}

}  // namespace
}  // namespace mixproof::inference
