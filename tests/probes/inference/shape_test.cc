#include "probes/inference/shape.h"

#include <gtest/gtest.h>

#include <cmath>

#include "probes/checkpoint/due.h"
#include "probes/inference/clock.h"

namespace mixproof::inference {
namespace {

// Phases of 60 s; the second begins 60 s after the load.
const SchedulePhase kFirst{"a", 0, 60 * kSecond}, kSecondPhase{"b", 60 * kSecond, 120 * kSecond};

double by_steps(const RateFunction& rate, double from_s, double until_s) {
  return rate.count_until(until_s) - rate.count_until(from_s);
}

TEST(Shape, CountsAreTheIntegralOfTheRate) {
  const RateFunction steps =
      RateFunction::of({.kind = "steps", .steps = {{2, 10}, {0, 5}, {8, 20}}}, kFirst);
  EXPECT_NEAR(by_steps(steps, 0, 10), 20, 1e-9);
  EXPECT_NEAR(by_steps(steps, 10, 15), 0, 1e-9);
  EXPECT_NEAR(by_steps(steps, 30, 60), 240, 1e-9);  // the last rate goes on

  const RateFunction ramp =
      RateFunction::of({.kind = "ramp", .from_per_s = 2, .to_per_s = 12, .over_s = 20}, kFirst);
  EXPECT_NEAR(by_steps(ramp, 0, 20), 140, 1e-9);
  EXPECT_NEAR(by_steps(ramp, 0, 10), 45, 1e-9);
  EXPECT_NEAR(by_steps(ramp, 20, 60), 480, 1e-9);
  const RateFunction whole =
      RateFunction::of({.kind = "ramp", .from_per_s = 2, .to_per_s = 12}, kFirst);
  EXPECT_NEAR(whole.expected(), 7 * 60, 1e-9);

  const RateFunction growth = RateFunction::of(
      {.kind = "ramp", .from_per_s = 1, .to_per_s = 8, .over_s = 30, .form = "exponential"},
      kFirst);
  EXPECT_NEAR(by_steps(growth, 0, 30), 30 * 7 / std::log(8), 1e-9);
  EXPECT_NEAR(by_steps(growth, 9.9999, 10.0001) / 0.0002, 2, 1e-5);  // doubled after a third

  const RateFunction square = RateFunction::of(
      {.kind = "square", .rate_per_s = 2, .factors = {1, 3, 5}, .period_s = 30}, kSecondPhase);
  EXPECT_NEAR(by_steps(square, 0, 10), 20, 1e-9);
  EXPECT_NEAR(by_steps(square, 10, 20), 60, 1e-9);
  EXPECT_NEAR(by_steps(square, 20, 30), 100, 1e-9);
  EXPECT_NEAR(by_steps(square, 30, 60), 180, 1e-9);
}

TEST(Shape, BurstsKeepTheirTimesAcrossPhasesTheOthersBeginAnew) {
  const ArrivalProcess bursts{.kind = "bursts",
                              .rate_per_s = 1,
                              .period_s = 25,
                              .burst_per_s = 11,
                              .offset_s = 10,
                              .length_s = 5};
  const RateFunction first = RateFunction::of(bursts, kFirst),
                     second = RateFunction::of(bursts, kSecondPhase);
  // Bursts at 10, 35, 60, 85, 110 s of the load.
  EXPECT_NEAR(by_steps(first, 10, 15), 55, 1e-9);
  EXPECT_NEAR(by_steps(first, 15, 35), 20, 1e-9);
  EXPECT_NEAR(by_steps(first, 0, 60), 60 + 100, 1e-9);
  EXPECT_NEAR(by_steps(second, 0, 5), 55, 1e-9);
  EXPECT_NEAR(by_steps(second, 0, 60), 60 + 150, 1e-9);
  const SchedulePhase within{"c", 12 * kSecond, 30 * kSecond};  // begins in the middle of a burst
  EXPECT_NEAR(RateFunction::of(bursts, within).expected(), 3 * 11 + 15, 1e-9);
}

TEST(Shape, BurstsBeginWhenCheckpointsOfTheSamePeriodAreDue) {
  const ArrivalProcess bursts{
      .kind = "bursts", .rate_per_s = 0, .period_s = 7.3, .burst_per_s = 100, .length_s = 1};
  const RateFunction first = RateFunction::of(bursts, kFirst),
                     second = RateFunction::of(bursts, kSecondPhase);
  const auto count_until = [&](double at_s) {  // of the load
    return at_s < 60 ? first.count_until(at_s) : first.expected() + second.count_until(at_s - 60);
  };
  DueTimes due(0, 7.3, 0);
  int found = 0;
  for (std::int64_t ms = 1; ms < 119'000; ++ms) {
    if (!due.take(ms * kMillisecond)) continue;
    ++found;
    const double at_s = static_cast<double>(ms) * 1e-3;
    EXPECT_NEAR(count_until(at_s) - count_until(at_s - 1), 0, 0.11) << at_s;
    EXPECT_NEAR(count_until(at_s + 1) - count_until(at_s), 100, 0.11) << at_s;
  }
  EXPECT_EQ(found, 16);
}

TEST(Shape, TimesInvertTheCount) {
  const ArrivalProcess shapes[] = {
      {.kind = "steps", .steps = {{2, 10}, {0, 5}, {8, 20}}},
      {.kind = "ramp", .from_per_s = 12, .to_per_s = 0, .over_s = 20},
      {.kind = "ramp", .from_per_s = 8, .to_per_s = 1, .over_s = 30, .form = "exponential"},
      {.kind = "square", .factors = {1, 3, 5}, .period_s = 7},
      {.kind = "bursts", .rate_per_s = 0, .period_s = 9, .length_s = 2},
      {.kind = "poisson", .rate_per_s = 3}};
  for (const ArrivalProcess& shape : shapes) {
    ASSERT_TRUE(check_process(shape).ok());
    const RateFunction rate = RateFunction::of(shape, kSecondPhase);
    std::size_t cursor = 0;
    for (double count = 0.25; count < rate.expected(); count += 0.75) {
      const double at_s = rate.time_of(count, cursor);
      EXPECT_NEAR(rate.count_until(at_s), count, 1e-6) << shape.kind;
    }
    EXPECT_TRUE(std::isinf(rate.time_of(rate.expected() + 1, cursor)));
  }
}

TEST(Shape, WhatContradictsItselfIsRefused) {
  const ArrivalProcess wrong[] = {
      {.kind = "steps"},
      {.kind = "steps", .steps = {{0, 10}}},
      {.kind = "steps", .steps = {{-1, 10}}},
      {.kind = "steps", .steps = {{1, 0}}},
      {.kind = "ramp", .from_per_s = 0, .to_per_s = 0},
      {.kind = "ramp", .from_per_s = 0, .to_per_s = 5, .form = "exponential"},
      {.kind = "square", .factors = {}},
      {.kind = "square", .factors = {0, 0}},
      {.kind = "square", .factors = {1, -1}},
      {.kind = "bursts", .period_s = 3, .length_s = 5},
      {.kind = "bursts", .period_s = 3, .offset_s = 3, .length_s = 1},
      {.kind = "gamma", .cv = 0},
      {.kind = "gauss"},
      {.kind = "poisson", .rate_per_s = 0},
      {.kind = "ramp", .process = "trace"},
      {.kind = "trace"},
      {.kind = "trace", .trace = {.path = "beside/the/suite.csv"}}};
  for (const ArrivalProcess& process : wrong)
    EXPECT_FALSE(check_process(process).ok()) << process.kind;
  EXPECT_TRUE(check_process({.kind = "bursts", .rate_per_s = 0}).ok());
}

TEST(Shape, PeaksAreTheHighestRates) {
  EXPECT_EQ(peak_rate({.kind = "steps", .steps = {{2, 10}, {9, 5}}}), 9);
  EXPECT_EQ(peak_rate({.kind = "square", .rate_per_s = 4, .factors = {1, 5, 3}}), 20);
  EXPECT_EQ(peak_rate({.kind = "ramp", .from_per_s = 12, .to_per_s = 3}), 12);
  EXPECT_EQ(peak_rate({.kind = "bursts", .rate_per_s = 4, .burst_per_s = 40}), 40);
  EXPECT_EQ(peak_rate({.kind = "trace", .trace = {.peak_per_s = 70}}), 70);
}

}  // namespace
}  // namespace mixproof::inference
