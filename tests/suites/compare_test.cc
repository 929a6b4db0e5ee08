#include "suites/compare.h"

#include <gtest/gtest.h>

#include <deque>
#include <nlohmann/json.hpp>

#include "reports/shape.h"
#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

Json calm_suite() {
  Json suite = fake_suite();
  suite["phases"].erase(3);  // the one with a fault
  suite["limits"] = {suite["limits"][4]};
  suite["limits"][0]["required"] = true;
  return suite;
}

// Rounds of made-up runs, kept where ComparedRun can point at them.
struct Rounds {
  std::deque<Plan> plans;
  std::deque<Evidence> evidence;
  std::vector<ComparedRun> runs;

  void add(const std::string& placement, FakeRun run, int exit_code = 0) {
    run.suite = calm_suite();
    run.last_phase = "contention";
    run.seed = 10 + runs.size();
    plans.push_back(run.plan());
    evidence.push_back(read_evidence(plans.back(), run.rows()));
    runs.push_back({.placement = placement,
                    .directory = placement + "-x",
                    .round = static_cast<int>(runs.size()) + 1,
                    .exit_code = exit_code,
                    .plan = &plans.back(),
                    .evidence = &evidence.back()});
  }
  Json compared() const { return compare_runs(runs, 7); }
};

FakeRun slowed(double requests, double steps) {
  FakeRun run;
  run.slower["contention"] = requests;
  run.trainer_slowdown = steps;
  return run;
}

Rounds three_each() {
  Rounds rounds;
  for (int round = 0; round < 3; ++round) {
    rounds.add("none", slowed(3, 2));
    rounds.add("physical", slowed(1.1, 1.05));
  }
  return rounds;
}

const Json& figure(const Json& comparison, std::size_t placement, const std::string& id) {
  for (const Json& one : comparison["placements"][placement]["figures"])
    if (text_at(one, "id") == id) return one;
  static const Json kNone;
  return kNone;
}

TEST(Compare, TellsPlacementsApart) {
  const Json comparison = three_each().compared();
  EXPECT_EQ(breaks_schema(comparison, comparison_schema()), "");
  EXPECT_EQ(comparison["status"], "measured");
  const Json& none = figure(comparison, 0, "ttft_p50");
  EXPECT_NEAR(none["ratio"], 3, 0.3);
  EXPECT_LT(none["interval"]["low"], 3.05);
  EXPECT_GT(none["interval"]["high"], 2.95);
  EXPECT_NEAR(figure(comparison, 1, "ttft_p50")["ratio"], 1.1, 0.1);
  EXPECT_NEAR(figure(comparison, 0, "training_retained")["ratio"], 0.5, 0.01);
  EXPECT_NEAR(figure(comparison, 0, "attainment")["together"], 1, 1e-9);
  const Json& apart = comparison["apart"][0];
  EXPECT_EQ(apart["figure"], "ttft_p50");
  EXPECT_TRUE(apart["apart"]);
  EXPECT_EQ(apart["lower"], "physical");
  EXPECT_EQ(comparison["apart"][2]["figure"], "max_gap_p50");
  EXPECT_FALSE(comparison["apart"][2]["apart"]);  // the same gaps everywhere
}

TEST(Compare, SaysWhatItMeansInOneSentence) {
  const Json comparison = three_each().compared();
  const std::string meaning = comparison["meaning"];
  EXPECT_EQ(meaning.rfind("Sharing all cores, the median first token takes ", 0), 0u) << meaning;
  EXPECT_NE(meaning.find("training keeps 50 % of its rate; on cores of its own, "),
            std::string::npos)
      << meaning;
  const std::string table = comparison_text(comparison);
  for (const ComparisonFigure& row : comparison_figures())
    EXPECT_NE(table.find(row.title), std::string::npos) << table;
  EXPECT_NE(table.find(meaning), std::string::npos);
}

TEST(Compare, IsTheSameTwice) {
  EXPECT_EQ(three_each().compared().dump(), three_each().compared().dump());
}

TEST(Compare, OneShortRoundDecidesNothing) {
  Rounds rounds;
  rounds.add("none", slowed(3, 2));  // 10 s of training alone: ten blocks
  const Json comparison = rounds.compared();
  EXPECT_EQ(comparison["status"], "inconclusive");
  EXPECT_EQ(figure(comparison, 0, "training_retained")["missing_reason"], "too_few_blocks");
  EXPECT_NEAR(figure(comparison, 0, "training_retained")["together"], 5,
              0.1);  // a value all the same
  EXPECT_EQ(figure(comparison, 0, "ttft_p99")["missing_reason"], "n_too_small");  // 160 requests
  EXPECT_TRUE(figure(comparison, 0, "ttft_p50")["interval"].is_object());
  EXPECT_EQ(breaks_schema(comparison, comparison_schema()), "");
  EXPECT_NE(
      std::string(comparison["meaning"]).find("what training keeps of its rate cannot be told"),
      std::string::npos);
}

TEST(Compare, ARunThatWasNotMeasuredIsAnError) {
  Rounds rounds = three_each();
  rounds.runs[0].evidence = nullptr;
  Json comparison = rounds.compared();
  EXPECT_EQ(comparison["status"], "error");
  EXPECT_EQ(comparison["placements"][0]["rounds"], 2);
  EXPECT_FALSE(comparison["runs"][0]["problems"].empty());
  Rounds silent = three_each();
  FakeRun no_steps = slowed(1, 1);
  no_steps.trainer_rows = false;
  silent.add("none", no_steps);
  comparison = silent.compared();
  EXPECT_EQ(comparison["status"], "error");
  EXPECT_EQ(comparison["placements"][0]["rounds"], 3);  // its figures are left out
  EXPECT_EQ(compare_runs({}, 7)["status"], "inconclusive");
}

TEST(Compare, ALateClientMakesItInconclusive) {
  Rounds rounds = three_each();
  FakeRun late = slowed(3, 2);
  late.client_delay_s = 0.03;
  rounds.add("none", late);
  const Json comparison = rounds.compared();
  EXPECT_EQ(comparison["status"], "inconclusive");
  EXPECT_NE(comparison_text(comparison).find("sent late"), std::string::npos)
      << comparison_text(comparison);
}

TEST(Compare, AnInfiniteMedianIsShownAsSuch) {
  Rounds rounds;
  for (int round = 0; round < 3; ++round) {
    FakeRun dead = slowed(1, 1);
    dead.all_outcomes_in_contention = "TIMEOUT_FIRST";
    rounds.add("none", dead);
  }
  const Json comparison = rounds.compared();
  const Json& row = figure(comparison, 0, "ttft_p50");
  EXPECT_TRUE(row["together"].is_null());
  EXPECT_TRUE(row["together_infinite"]);
  EXPECT_TRUE(row["interval"]["low"].is_null());
  EXPECT_NE(comparison_text(comparison).find("no answer"), std::string::npos);
  EXPECT_EQ(figure(comparison, 0, "attainment")["together"], 0);
}

TEST(Compare, NeedsAllThreePhases) {
  FakeRun run;
  run.suite = calm_suite();
  EXPECT_EQ(compared_phases(run.plan())->trainer_alone, "alone");
  run.suite["phases"].erase(1);
  const Result<ComparedPhases> phases = compared_phases(run.plan());
  ASSERT_FALSE(phases.ok());
  EXPECT_EQ(phases.error().code, Code::kInvalid);
}

TEST(Compare, ExitsWithTheWorstCode) {
  EXPECT_EQ(worst_exit_code({}), 0);
  const int codes[] = {0, 2, 3, 1, 0};
  EXPECT_EQ(worst_exit_code(codes), 1);
  const int interrupted[] = {0, 1, 130};
  EXPECT_EQ(worst_exit_code(interrupted), 130);
  const int unsafe[] = {130, 5, 3};
  EXPECT_EQ(worst_exit_code(unsafe), 5);
}

}  // namespace
}  // namespace mixproof
