#include "probes/inference/arrival_tests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "probes/inference/clock.h"

namespace mixproof::inference {
namespace {

constexpr double kAlpha = 0.001;  // of the judge

const SchedulePhase kPhase{"p", 0, 30 * kSecond};

std::vector<std::int64_t> times_of(const ArrivalProcess& process, std::uint64_t seed,
                                   const SchedulePhase& phase = kPhase) {
  const std::vector<SchedulePhase> phases = {phase};
  std::vector<std::int64_t> out;
  const Schedule schedule = *draw_schedule(process, phases, seed, {});
  for (const Arrival& arrival : schedule.arrivals) out.push_back(arrival.at_ns - phase.begin_ns);
  return out;
}

bool rejected(const GapTest& test) { return *test.ks_p < kAlpha || *test.dispersion_p < kAlpha; }

TEST(ArrivalTests, AcceptEveryShapeAsItIsDrawn) {
  const ArrivalProcess shapes[] = {
      {.kind = "poisson", .rate_per_s = 10},
      {.kind = "gamma", .rate_per_s = 10, .cv = 2},
      {.kind = "gamma", .rate_per_s = 10, .cv = 0.3},
      {.kind = "steps", .steps = {{2, 10}, {30, 10}}},
      {.kind = "ramp", .from_per_s = 1, .to_per_s = 30},
      {.kind = "square", .rate_per_s = 5, .process = "gamma", .factors = {1, 3, 5}, .period_s = 9},
      {.kind = "bursts", .rate_per_s = 2, .period_s = 10, .burst_per_s = 40}};
  for (const ArrivalProcess& shape : shapes)
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const GapTest test = test_gaps(shape, kPhase, times_of(shape, seed), 0);
      EXPECT_FALSE(rejected(test)) << shape.kind << " " << *test.ks_p << " " << *test.dispersion_p;
    }
}

TEST(ArrivalTests, RejectTheTruthAboutAsOftenAsTheySay) {
  for (const ArrivalProcess& shape : {ArrivalProcess{.kind = "poisson", .rate_per_s = 5},
                                      ArrivalProcess{.kind = "gamma", .rate_per_s = 5, .cv = 2}}) {
    int by_distance = 0, by_dispersion = 0;
    constexpr int kRuns = 1000;
    for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
      const GapTest test = test_gaps(shape, kPhase, times_of(shape, seed), 0);
      by_distance += *test.ks_p < 0.05 ? 1 : 0;
      by_dispersion += *test.dispersion_p < 0.05 ? 1 : 0;
    }
    // 50 of 1000, give or take 7: four deviations, and what the end of a phase cuts off.
    EXPECT_NEAR(by_distance, 50, 30) << shape.kind;
    EXPECT_NEAR(by_dispersion, 50, 30) << shape.kind;
  }
}

TEST(ArrivalTests, AMetronomeIsNoPoissonProcess) {
  const ArrivalProcess declared{.kind = "poisson", .rate_per_s = 10};
  const GapTest test =
      test_gaps(declared, kPhase, times_of({.kind = "constant", .rate_per_s = 10}, 1), 0);
  EXPECT_LT(*test.ks_p, 1e-9);
  EXPECT_LT(*test.dispersion_p, 1e-9);
  EXPECT_LT(*test.dispersion, 0.1);
}

TEST(ArrivalTests, ClumpsAreNoPoissonProcessAndAPoissonProcessHasTooFew) {
  const ArrivalProcess poisson{.kind = "poisson", .rate_per_s = 10},
      clumps{.kind = "gamma", .rate_per_s = 10, .cv = 2};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_TRUE(rejected(test_gaps(poisson, kPhase, times_of(clumps, seed), 0))) << seed;
    EXPECT_TRUE(rejected(test_gaps(clumps, kPhase, times_of(poisson, seed), 0))) << seed;
  }
}

TEST(ArrivalTests, ARateThatDoesNotFollowItsShapeIsSeen) {
  const ArrivalProcess square{
      .kind = "square", .rate_per_s = 5, .factors = {1, 3, 5}, .period_s = 9},
      flat{.kind = "poisson", .rate_per_s = 15};
  EXPECT_TRUE(rejected(test_gaps(square, kPhase, times_of(flat, 1), 0)));
  EXPECT_TRUE(rejected(test_gaps(flat, kPhase, times_of(square, 1), 0)));
}

TEST(ArrivalTests, RescaledGapsAreSeen) {
  const ArrivalProcess declared{.kind = "poisson", .rate_per_s = 20};
  std::vector<std::int64_t> stretched = times_of(declared, 1);
  for (std::int64_t& time : stretched) time = time * 3 / 4;  // done early: every gap a quarter less
  EXPECT_LT(*test_gaps(declared, kPhase, stretched, kToleratedLatenessS).ks_p, kAlpha);
}

TEST(ArrivalTests, LateLumpsAreSeenAndAMicrosecondIsNot) {
  const ArrivalProcess declared{.kind = "poisson", .rate_per_s = 40};
  const std::vector<std::int64_t> due = times_of(declared, 1);
  std::vector<std::int64_t> lumps = due, late = due;
  for (std::int64_t& time : lumps)  // a client that wakes ten times a second
    time = (time / (100 * kMillisecond) + 1) * 100 * kMillisecond;
  EXPECT_TRUE(rejected(test_gaps(declared, kPhase, lumps, kToleratedLatenessS)));
  EXPECT_GT(moved_share(due, lumps), 0.5);
  Random random(1, "lateness");
  for (std::int64_t& time : late)
    time += static_cast<std::int64_t>(random.below(200)) * kMicrosecond;
  EXPECT_FALSE(rejected(test_gaps(declared, kPhase, late, kToleratedLatenessS)));
  EXPECT_EQ(moved_share(due, late), 0);
}

TEST(ArrivalTests, AFastClientIsNotAccusedOfWhatItsRuleOfLatenessAllows) {
  const ArrivalProcess declared{.kind = "poisson", .rate_per_s = 1000};
  std::vector<std::int64_t> late = times_of(declared, 1);
  for (std::int64_t& time : late)  // a timer of 0.3 ms
    time = (time / (300 * kMicrosecond) + 1) * 300 * kMicrosecond;
  const GapTest strict = test_gaps(declared, kPhase, late, 0);
  const GapTest fair = test_gaps(declared, kPhase, late, kToleratedLatenessS);
  EXPECT_LT(*strict.ks_p, kAlpha) << "30,000 gaps show that they are not exact";
  EXPECT_GT(*fair.ks_p, 0.5);
  EXPECT_GT(*fair.dispersion_p, kAlpha);
}

TEST(ArrivalTests, ASecondThatWasSleptThroughIsSeen) {
  const ArrivalProcess declared{.kind = "poisson", .rate_per_s = 20};
  const std::vector<std::int64_t> due = times_of(declared, 2);
  std::vector<std::int64_t> slept = due;
  for (std::int64_t& time : slept)
    if (time > 10 * kSecond && time < 13 * kSecond) time = 13 * kSecond;
  EXPECT_TRUE(rejected(test_gaps(declared, kPhase, slept, kToleratedLatenessS)));
}

TEST(ArrivalTests, OneOfSeveralWorkersIsTestedForItsPart) {
  const ArrivalProcess shapes[] = {{.kind = "poisson", .rate_per_s = 40},
                                   {.kind = "gamma", .rate_per_s = 40, .cv = 2}};
  for (const ArrivalProcess& shape : shapes) {
    const std::vector<std::int64_t> all = times_of(shape, 4);
    std::vector<std::int64_t> part;
    for (std::size_t i = 1; i < all.size(); i += 3) part.push_back(all[i]);
    EXPECT_FALSE(rejected(test_gaps(shape, kPhase, part, 0, 3))) << shape.kind;
    EXPECT_TRUE(rejected(test_gaps(shape, kPhase, part, 0, 1))) << shape.kind;
  }
}

TEST(ArrivalTests, TooFewSayNothing) {
  const ArrivalProcess declared{.kind = "poisson", .rate_per_s = 10};
  std::vector<std::int64_t> times = times_of(declared, 1);
  times.resize(20);
  EXPECT_FALSE(test_gaps(declared, kPhase, times, 0).ks_p);
  times = times_of(declared, 1);
  times.resize(40);
  const GapTest test = test_gaps(declared, kPhase, times, 0);
  EXPECT_TRUE(test.ks_p);
  EXPECT_FALSE(test.dispersion_p);
}

// Rows of a schedule whose sendings are `late` after their due times.
std::vector<Json> rows_of(const ArrivalProcess& process, std::int64_t late,
                          std::int64_t until_ns = 60 * kSecond) {
  const std::vector<SchedulePhase> phases = {kPhase, {"q", 30 * kSecond, 60 * kSecond}};
  const Schedule schedule = *draw_schedule(process, phases, 1, {});
  std::vector<std::int64_t> delays(schedule.arrivals.size(), late);
  delays[0] = kNotSent;
  return arrivals_rows(process, phases, schedule, delays, until_ns);
}

TEST(ArrivalTests, ARowTellsOfEachPhaseThatEnded) {
  const std::vector<Json> rows = rows_of({.kind = "poisson", .rate_per_s = 10}, 50 * kMicrosecond);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].at("row"), "arrivals");
  EXPECT_EQ(rows[0].at("phase"), "p");
  EXPECT_EQ(rows[0].at("unsent"), 1);
  EXPECT_EQ(rows[1].at("unsent"), 0);
  EXPECT_EQ(rows[1].at("deterministic"), false);
  EXPECT_EQ(rows[1].at("moved"), 0);
  for (const char* part : {"scheduled", "realised"}) {
    EXPECT_GT(rows[1].at(part).at("ks_p"), kAlpha);
    EXPECT_GT(rows[1].at(part).at("dispersion_p"), kAlpha);
    EXPECT_EQ(rows[1].at(part).at("n").get<std::int64_t>(),
              rows[1].at("n").get<std::int64_t>() - 1);
  }
  EXPECT_EQ(rows_of({.kind = "poisson", .rate_per_s = 10}, 0, 59 * kSecond).size(), 1u);
}

TEST(ArrivalTests, TimesWithoutChanceAreComparedWithTheScheduleOnly) {
  for (const ArrivalProcess& process :
       {ArrivalProcess{.kind = "constant", .rate_per_s = 10},
        ArrivalProcess{.kind = "square", .process = "constant", .factors = {1, 3}}}) {
    const std::vector<Json> rows = rows_of(process, 70 * kMicrosecond);
    EXPECT_EQ(rows[1].at("deterministic"), true);
    EXPECT_EQ(rows[1].at("moved"), 0);
    EXPECT_FALSE(rows[1].contains("realised"));
  }
}

TEST(ArrivalTests, MovedGapsAreCounted) {
  const std::vector<std::int64_t> due = {0, 100 * kMillisecond, 200 * kMillisecond,
                                         300 * kMillisecond, 400 * kMillisecond};
  std::vector<std::int64_t> sent = due;
  sent[2] += 9 * kMillisecond;
  EXPECT_EQ(moved_share(due, sent), 0);
  sent[2] += 2 * kMillisecond;
  EXPECT_EQ(moved_share(due, sent), 0.5);  // the gap before it and the one after it
}

}  // namespace
}  // namespace mixproof::inference
