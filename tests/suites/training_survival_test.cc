// What a training survived, on rows whose answers are known: ten steps a second, a rank that dies,
// an attempt after it.
#include "suites/training_survival.h"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <tuple>

#include "suites/judge.h"
#include "suites/training_metrics.h"
#include "suites/validity.h"
#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

constexpr double kStepS = 0.1;

std::int64_t at(double seconds) { return FakeRows::kStart + FakeRows::ns(seconds); }

// One load with two ranks through "calm" (0 to 20 s) and "loss" (20 to 40 s, settled at 22 s).
struct Scene {
  Json suite = *parse_json(R"({
    "schema_version": "0.1", "name": "survival", "claim": "training survives", "nodes": {"train": 2},
    "loads": {"trainer": {"probe": "training", "on": "train", "on_loss": "resume",
                          "params": {"ranks": 2, "checkpoint_every_steps": 50}}},
    "phases": [{"name": "calm", "run": ["trainer"], "settle_s": 0, "measure_s": 20},
               {"name": "loss", "run": ["trainer"], "settle_s": 2, "measure_s": 18}],
    "limits": [{"id": "kept", "metric": "training.retained", "load": "trainer", "phase": "loss", "reference": "calm",
                "method": "direct", "at_least": 0.5, "why": "w"},
               {"id": "lost", "metric": "training.steps_lost", "load": "trainer", "phase": "loss", "method": "direct",
                "at_most": 100, "why": "w"},
               {"id": "back", "metric": "training.resume_time", "load": "trainer", "phase": "loss", "method": "direct",
                "at_most": 10, "why": "w"},
               {"id": "seen", "metric": "training.detect_time", "load": "trainer", "phase": "loss", "method": "direct",
                "at_most": 1, "why": "w"}]
  })",
                           "suite");
  std::vector<Json> rows;
  Plan plan;
  Evidence evidence;

  Scene() {
    for (const auto& [name, begin, settled, end] :
         {std::tuple{"calm", 0.0, 0.0, 20.0}, std::tuple{"loss", 20.0, 22.0, 40.0}}) {
      rows.push_back({{"row", "phase"},
                      {"name", name},
                      {"begin", at(begin)},
                      {"settled", at(settled)},
                      {"end", at(end)}});
      rows.push_back({{"row", "phase_end"}, {"name", name}, {"at", at(end)}, {"complete", true}});
    }
    for (const char* node : {"train-0", "train-1"})
      rows.push_back({{"row", "clock"},
                      {"node", node},
                      {"at", at(-1)},
                      {"offset_ns", 0},
                      {"uncertainty_ns", 1000}});
    rows.push_back({{"row", "begin"}, {"at", at(-2)}});
    rows.push_back({{"row", "end"}, {"at", at(41)}});
  }

  Json of_rank(const char* row, int rank, int attempt) const {
    return {{"row", row},
            {"load", "trainer"},
            {"node", rank == 0 ? "train-0" : "train-1"},
            {"rank", rank},
            {"attempt", attempt}};
  }
  // Steps of both ranks from `first` on, back to back between two times; how many that were.
  std::int64_t steps(int attempt, std::int64_t first, double from_s, double until_s) {
    std::int64_t step = first;
    for (double begin = from_s; begin + kStepS <= until_s + 1e-6; begin += kStepS, ++step)
      for (const int rank : {0, 1}) {
        Json row = of_rank("step", rank, attempt);
        row.update({{"step", step},
                    {"begin", at(begin)},
                    {"end", at(begin + kStepS)},
                    {"compute", 1},
                    {"comm", 1}});
        rows.push_back(row);
      }
    return step - first;
  }
  void checkpoint(std::int64_t step, double begin_s, std::array<double, 2> save_s, double stall_s,
                  bool good = true, int attempt = 0) {
    for (const int rank : {0, 1}) {
      Json row = of_rank("checkpoint", rank, attempt);
      row.update({{"step", step},
                  {"begin", at(begin_s)},
                  {"end", at(begin_s + save_s[static_cast<std::size_t>(rank)])},
                  {"done", at(begin_s + stall_s)},
                  {"bytes", 1000},
                  {"ok", good},
                  {"detail", good ? "" : "disk full"}});
      rows.push_back(row);
    }
  }
  void exit(double at_s, const char* what = "trainer[1]", int attempt = 0) {
    rows.push_back({{"row", "exit"},
                    {"what", what},
                    {"node", "train-1"},
                    {"at", at(at_s)},
                    {"status", "signal 9"},
                    {"expected", false},
                    {"attempt", attempt}});
  }
  void attempt(double at_s, int number, std::int64_t from_step) {
    rows.push_back({{"row", "attempt"},
                    {"what", "trainer"},
                    {"stretch", 0},
                    {"attempt", number},
                    {"at", at(at_s)},
                    {"noticed", "trainer[0]"},
                    {"why", "rank 1 is gone"}});
    if (from_step < 0) return;  // never came so far
    for (const int rank : {0, 1}) {
      Json row = of_rank("resume", rank, number);
      row.update({{"from_step", from_step},
                  {"lost_steps", 0},
                  {"begin", at(at_s)},
                  {"end", at(at_s + 0.1)}});
      rows.push_back(row);
    }
  }
  // 300 steps, the last one at 30 s, where rank 1 dies; from 33 s on again from step 250.
  Scene& with_loss() {
    steps(0, 0, 0, 30);
    exit(30.02);
    attempt(30.05, 1, 250);
    steps(1, 250, 33, 40);
    return *this;
  }

  JudgeInput read() {
    plan = *make_plan(suite, fake_catalogue(), 1);
    evidence = read_evidence(plan, rows);
    return {plan, evidence};
  }
  Figure figure(const char* metric, const char* phase = "loss", const char* reference = "") {
    return derive(read(), {.metric = judged_metric(metric),
                           .load = "trainer",
                           .phase = phase,
                           .reference = reference});
  }
  std::string problem(const char* phase) {
    const auto problems = phase_problems(read(), phase);
    return problems.empty() ? "" : problems.front().reason + ": " + problems.front().detail;
  }
};

TEST(Survival, LossesAreTimedFromTheEndOfTheRank) {
  Scene scene;
  scene.with_loss();
  EXPECT_NEAR(*scene.figure("training.steps_lost").value, 50, 0);
  EXPECT_NEAR(*scene.figure("training.resume_time").value, 33.1 - 30.02, 1e-6);
  EXPECT_NEAR(*scene.figure("training.detect_time").value, 0.03, 1e-6);
  EXPECT_EQ(*scene.figure("training.steps_lost", "calm").value, 0);
  EXPECT_EQ(scene.figure("training.resume_time", "calm").missing, "no_loss");
  EXPECT_EQ(scene.figure("training.detect_time", "calm").missing, "no_loss");
}

TEST(Survival, EachLossOfSeveralCountsItsOwnSteps) {
  Scene scene;
  scene.steps(0, 0, 0, 25);  // 250 steps
  scene.exit(25);
  scene.attempt(25.01, 1, 200);  // 50 lost
  scene.steps(1, 200, 27, 29);   // to 220
  scene.exit(29, "trainer[0]", 1);
  scene.attempt(29.01, 2, 200);  // 20 lost
  scene.exit(29.5, "trainer[0]", 2);
  scene.attempt(29.51, 3, 200);  // nothing done in between
  scene.steps(3, 200, 31, 40);
  const JudgeInput input = scene.read();
  const auto losses = losses_of(input, "trainer", "loss");
  ASSERT_EQ(losses.size(), 3u);
  EXPECT_EQ(losses[0].steps_lost, 50);
  EXPECT_EQ(losses[1].steps_lost, 20);
  EXPECT_EQ(losses[2].steps_lost, 0);
  EXPECT_EQ(*scene.figure("training.steps_lost").value, 70);
  EXPECT_NEAR(*scene.figure("training.resume_time").value, 31.1 - 29, 1e-6)
      << "the second loss waited longest";
}

TEST(Survival, ALossWithoutAnotherStepIsNeverPassed) {
  Scene scene;
  scene.steps(0, 0, 0, 30);
  scene.exit(30);
  scene.attempt(30.05, 1, -1);
  EXPECT_EQ(scene.figure("training.steps_lost").missing, "not_resumed");
  EXPECT_EQ(scene.figure("training.resume_time").missing, "not_resumed");
  EXPECT_NE(scene.problem("loss").find("process_exit"), std::string::npos) << scene.problem("loss");
  const Judgement judged = judge(scene.plan, scene.rows);
  for (const Json& check : judged.checks)
    EXPECT_EQ(text_at(check, "status"), "error") << check.dump();
}

TEST(Survival, ALossThatNobodySawToEndHasNoDetectTime) {
  Scene scene;  // cut off, not dead: the others gave up on it, and it was stopped
  scene.steps(0, 0, 0, 30);
  scene.attempt(30.05, 1, 250);
  scene.steps(1, 250, 33, 40);
  EXPECT_EQ(scene.figure("training.detect_time").missing, "loss_not_seen");
  EXPECT_NEAR(*scene.figure("training.resume_time").value, 33.1 - 30.05, 1e-6);
}

TEST(Survival, StepsThatAreDoneAgainCountOnce) {
  Scene scene;
  scene.with_loss();
  // 22 to 30 s: 80 new steps. 33 to 40 s: 70, of which the first 50 are old.
  const StepWindow window = measured_steps(scene.read(), "trainer", "loss");
  EXPECT_NEAR(window.steps, 100, 1e-6);
  EXPECT_EQ(window.step_s.size(), 150u) << "each took its time all the same";
  EXPECT_NEAR(*scene.figure("training.retained", "loss", "calm").value, (100 / 18.0) / 10, 1e-6);
  EXPECT_NEAR(*scene.figure("training.goodput").value, 100 / 18.0 * kStepS, 1e-6);
}

TEST(Survival, APhaseThatOnlyRepeatsStepsIsNotSilent) {
  Scene scene;
  scene.steps(0, 0, 0, 19.5);
  scene.exit(19.6);
  scene.attempt(19.7, 1, 0);
  scene.steps(1, 0, 21, 39);  // 180 of 195
  const StepWindow window = measured_steps(scene.read(), "trainer", "loss");
  EXPECT_EQ(window.steps, 0);
  EXPECT_TRUE(window.silent_ranks.empty());
  EXPECT_EQ(scene.problem("loss"), "");
}

TEST(Survival, TheLastStepOfAnAttemptMayBePartialNoOther) {
  Scene scene;
  scene.with_loss();
  const auto drop = [&](std::int64_t step, int attempt) {
    std::erase_if(scene.rows, [&](const Json& row) {
      return text_at(row, "row") == "step" && integer_at(row, "step") == step &&
             integer_at(row, "rank") == 1 && integer_at(row, "attempt") == attempt;
    });
  };
  drop(299, 0);
  EXPECT_EQ(scene.problem("loss"), "");
  drop(290, 0);
  EXPECT_NE(scene.problem("loss").find("missing_rows"), std::string::npos);
}

TEST(Survival, AnEndIsExplainedOnlyByALoadThatResumesAndDid) {
  Scene scene;
  scene.with_loss();
  EXPECT_EQ(scene.problem("loss"), "");
  Scene once_more;
  once_more.with_loss().exit(39, "trainer[0]", 1);  // and no attempt after that one
  EXPECT_NE(once_more.problem("loss").find("trainer[0]"), std::string::npos)
      << once_more.problem("loss");
  Scene not_promised;
  not_promised.suite["loads"]["trainer"]["on_loss"] = "error";
  not_promised.suite["limits"].erase(3);
  not_promised.suite["limits"].erase(2);
  not_promised.suite["limits"].erase(1);
  not_promised.with_loss();
  EXPECT_NE(not_promised.problem("loss").find("process_exit"), std::string::npos);
}

TEST(Survival, ChecksOfASurvivedLossPass) {
  Scene scene;
  scene.with_loss();
  scene.read();
  const Judgement judged = judge(scene.plan, scene.rows);
  for (const Json& check : judged.checks)
    EXPECT_EQ(text_at(check, "status"), "pass") << check.dump();
  EXPECT_EQ(text_at(judged.checks[1], "detail"), "steps lost 50, limit 100");
  bool told = false;
  for (const Json& event : judged.timeline.at("events"))
    told = told ||
           (text_at(event, "kind") == "resume" && text_at(event, "detail").find("attempt 1") == 0);
  EXPECT_TRUE(told);
}

TEST(CheckpointFigures, TakeAsLongAsTheirSlowestRank) {
  Scene scene;
  scene.steps(0, 0, 0, 40);
  scene.checkpoint(50, 5, {0.2, 0.4}, 0.5);
  scene.checkpoint(100, 10, {0.1, 0.1}, 0.25);
  scene.checkpoint(150, 21, {1, 1}, 1);      // in the settle time of "loss"
  scene.checkpoint(200, 39.5, {2, 1}, 2.5);  // ends after it
  const JudgeInput input = scene.read();
  EXPECT_EQ(checkpoint_samples(input, "trainer", "calm", "training.checkpoint_time"),
            (std::vector<double>{0.25, 0.5}));
  EXPECT_EQ(checkpoint_samples(input, "trainer", "calm", "training.checkpoint_bandwidth"),
            (std::vector<double>{2'500, 10'000}));
  EXPECT_EQ(checkpoint_samples(input, "trainer", "loss", "training.checkpoint_time"),
            (std::vector<double>{2.5}));
  EXPECT_EQ(*scene.figure("training.checkpoint_failures", "calm").value, 0);
}

TEST(CheckpointFigures, ThatFailedAreCountedAndToldAndHaveNoTime) {
  Scene scene;
  scene.steps(0, 0, 0, 40);
  EXPECT_EQ(scene.figure("training.checkpoint_failures").missing, "no_samples");
  scene.checkpoint(50, 25, {0.2, 0.4}, 0.5, false);
  scene.checkpoint(100, 30, {0.2, 0.4}, 0.5);
  EXPECT_EQ(*scene.figure("training.checkpoint_failures").value, 1);
  EXPECT_EQ(checkpoint_samples(scene.read(), "trainer", "loss", "training.checkpoint_time").size(),
            1u);
  int told = 0;
  const Judgement judged = judge(scene.plan, scene.rows);
  for (const Json& event : judged.timeline.at("events"))
    told += text_at(event, "kind") == "checkpoint" ? 1 : 0;
  EXPECT_EQ(told, 2) << "one a rank";
}

TEST(CheckpointFigures, ThatARankDidNotReportHaveNoTime) {
  Scene scene;
  scene.steps(0, 0, 0, 40);
  scene.checkpoint(50, 25, {0.2, 0.4}, 0.5);
  scene.rows.pop_back();
  EXPECT_TRUE(
      checkpoint_samples(scene.read(), "trainer", "loss", "training.checkpoint_time").empty());
}

TEST(CheckpointFigures, RowsThatContradictThemselvesAreBad) {
  Scene scene;
  scene.steps(0, 0, 0, 40);
  scene.checkpoint(50, 25, {0.2, 0.4}, 0.3);  // done before rank 1 was
  EXPECT_NE(scene.problem("loss").find("bad_rows"), std::string::npos);
}

}  // namespace
}  // namespace mixproof
