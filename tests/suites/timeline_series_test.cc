#include "suites/timeline_series.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

TimelineSeries series_of(const FakeRun& run) { return timeline_series(run.plan(), run.rows()); }

Json checkpoint(const std::string& node, int step, double at_s, bool complete) {
  return {{"row", "checkpoint"},
          {"load", "trainer"},
          {"node", node},
          {"step", step},
          {"ok", complete},
          {"end", FakeRows::kStart + FakeRows::ns(at_s) - FakeRows::offset(node)}};
}

TEST(TimelineSeries, HoldsEveryRequestWithItsOutcome) {
  FakeRun run;
  run.violations = 5;
  run.stall_recovers_s = 0;
  run.pause_s = 0;
  run.outcome_in_contention = "TRUNCATED";
  const TimelineSeries series = series_of(run);
  ASSERT_EQ(series.requests.size(), 1u);
  const RequestSeries& users = series.requests[0];
  EXPECT_EQ(users.load, "users");
  EXPECT_EQ(users.ttft_bound_s, 0.5);
  EXPECT_EQ(users.unanswered, 1);
  EXPECT_EQ(users.bad, 5);  // the one without an answer is one of the five slow ones
  EXPECT_EQ(static_cast<std::size_t>(users.requests), users.points.size());
  for (const RequestPoint& point : users.points)
    EXPECT_TRUE(point.at_s >= 0 && point.at_s < 76) << point.at_s;
}

TEST(TimelineSeries, WithoutAnSloARequestIsGoodWhenAnswered) {
  FakeRun run;
  run.suite["loads"]["users"].erase("slo");
  run.suite["limits"] = Json::array({run.suite["limits"][1]});
  const TimelineSeries series = series_of(run);
  EXPECT_FALSE(series.requests[0].has_slo);
  EXPECT_EQ(series.requests[0].bad, 0);
}

TEST(TimelineSeries, RatesAreOfPhasesThatTrain) {
  const TimelineSeries series = series_of({});
  ASSERT_EQ(series.training.size(), 1u);
  const auto& bins = series.training[0].bins;  // from 22 s to the end at 76 s
  ASSERT_EQ(bins.size(), 54u);
  EXPECT_DOUBLE_EQ(bins.front().begin_s, 22);
  EXPECT_DOUBLE_EQ(bins.back().end_s, 76);
  EXPECT_NEAR(bins[5].steps_per_s, 10, 0.01);  // alone
  EXPECT_NEAR(bins[20].steps_per_s, 10 / 1.1, 0.01);
}

TEST(TimelineSeries, TrainingThatDoesNotStepIsDrawnAsZero) {
  FakeRun silent;
  silent.trainer_rows = false;
  const TimelineSeries none = series_of(silent);
  ASSERT_EQ(none.training[0].bins.size(), 54u);
  for (const auto& bin : none.training[0].bins) EXPECT_EQ(bin.steps_per_s, 0);
  FakeRun half;
  half.second_rank = false;  // the slowest rank counts
  const TimelineSeries slowest = series_of(half);
  for (const auto& bin : slowest.training[0].bins) EXPECT_EQ(bin.steps_per_s, 0);
}

TEST(TimelineSeries, PhasesThatDidNotBeginHaveNoRate) {
  FakeRun run;
  run.last_phase = "baseline";
  EXPECT_TRUE(series_of(run).training[0].bins.empty());
}

TEST(TimelineSeries, ACheckpointIsCompleteWhenAllItsRowsAre) {
  FakeRun run;
  run.extra = {checkpoint("train-0", 50, 30, true), checkpoint("train-1", 50, 30.5, true),
               checkpoint("train-0", 100, 40, true), checkpoint("train-1", 100, 41, false)};
  const auto marks = series_of(run).checkpoints;
  ASSERT_EQ(marks.size(), 2u);
  EXPECT_NEAR(marks[0].at_s, 30.5, 1e-6);
  EXPECT_TRUE(marks[0].complete);
  EXPECT_FALSE(marks[1].complete);
  EXPECT_TRUE(series_of({}).checkpoints.empty());
}

}  // namespace
}  // namespace mixproof
