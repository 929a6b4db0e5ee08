#include "suites/offered.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "probes/inference/arrival_params.h"
#include "probes/inference/shape.h"
#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

constexpr double kPhaseBeginS = 33, kPhaseS = 60;

double expected(const Json& arrivals, double from_s, double until_s) {
  return *expected_requests(
      arrivals,
      {.phase_in_load_s = kPhaseBeginS, .phase_s = kPhaseS, .from_s = from_s, .until_s = until_s});
}

// Two computations that share nothing, over every shape and several windows.
TEST(Offered, AgreesWithTheRateThatTheLoadDrawsFrom) {
  const Json shapes[] = {
      {{"poisson", {{"rate_per_s", 7}}}},
      {{"steps",
        {{"steps", {{{"rate_per_s", 2}, {"for_s", 15}}, {{"rate_per_s", 9}, {"for_s", 5}}}}}}},
      {{"ramp", {{"from_per_s", 1}, {"to_per_s", 9}, {"over_s", 20}, {"form", "linear"}}}},
      {{"ramp", {{"from_per_s", 9}, {"to_per_s", 1}, {"over_s", 0}, {"form", "exponential"}}}},
      {{"square", {{"rate_per_s", 2}, {"factors", {1, 3, 5}}, {"period_s", 21}}}},
      {{"bursts",
        {{"rate_per_s", 1},
         {"burst_per_s", 30},
         {"period_s", 17},
         {"offset_s", 4},
         {"length_s", 3}}}}};
  for (const Json& shape : shapes) {
    inference::ArrivalProcess process;
    ASSERT_TRUE(read_params({{"arrivals", shape}}, {inference::arrivals_param(process)}).ok());
    const inference::RateFunction rate = inference::RateFunction::of(
        process, {"p", static_cast<std::int64_t>(kPhaseBeginS * 1e9),
                  static_cast<std::int64_t>((kPhaseBeginS + kPhaseS) * 1e9)});
    for (const auto& [from_s, until_s] :
         {std::pair{0.0, 60.0}, {5.0, 60.0}, {2.5, 7.5}, {31.0, 44.0}})
      EXPECT_NEAR(expected(shape, from_s, until_s),
                  rate.count_until(until_s) - rate.count_until(from_s), 1e-6)
          << shape << " " << from_s;
  }
}

TEST(Offered, ATraceIsNotKnownFromThePlan) {
  EXPECT_FALSE(expected_requests({{"trace", {{"path", "/t"}}}}, {.phase_s = 1, .until_s = 1}));
  EXPECT_FALSE(expected_requests(Json::object(), {.phase_s = 1, .until_s = 1}));
}

TEST(Offered, MeansAndPeaksOfALoad) {
  LoadPlan load;
  load.params = {
      {"arrivals", {{"square", {{"rate_per_s", 2}, {"factors", {1, 5}}, {"period_s", 20}}}}}};
  EXPECT_NEAR(offered_rate(load).mean_per_s, 6, 1e-12);
  EXPECT_EQ(offered_rate(load).peak_per_s, 10);
  load.params = {{"arrivals", {{"trace", {{"peak_per_s", 70}}}}}};
  EXPECT_EQ(offered_rate(load).mean_per_s, 0);
  EXPECT_EQ(offered_rate(load).peak_per_s, 70);
  load.params = Json::object();
  EXPECT_EQ(offered_rate(load).peak_per_s, 0);
}

TEST(Offered, ClumpsSpreadTheCounts) {
  EXPECT_EQ(count_dispersion({{"gamma", {{"cv", 2}}}}), 4);
  EXPECT_EQ(count_dispersion({{"steps", {{"cv", 2}, {"process", "gamma"}}}}), 4);
  EXPECT_EQ(count_dispersion({{"steps", {{"cv", 2}, {"process", "poisson"}}}}), 1);
  EXPECT_EQ(count_dispersion({{"poisson", {{"rate_per_s", 2}}}}), 1);
}

TEST(Offered, APhaseCountsFromTheBeginOfItsStretch) {
  const Plan plan = FakeRun{}.plan();  // users: baseline; then, after "alone", contention and stall
  EXPECT_EQ(window_of_phase(plan, "users", *plan.phase("baseline")).phase_in_load_s, 0);
  EXPECT_EQ(window_of_phase(plan, "users", *plan.phase("contention")).phase_in_load_s, 0);
  EXPECT_EQ(window_of_phase(plan, "users", *plan.phase("stall")).phase_in_load_s, 22);
  EXPECT_EQ(window_of_phase(plan, "users", *plan.phase("baseline")).from_s, 2);
}

}  // namespace
}  // namespace mixproof
