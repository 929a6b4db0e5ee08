// What the judge makes of a load's own test of its arrivals.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "suites/evidence.h"
#include "suites/judge.h"
#include "suites/validity.h"
#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

Json gaps(double ks_p, double dispersion_p) {
  return {
      {"n", 160},   {"ks", 0.05}, {"ks_p", ks_p}, {"dispersion", 1}, {"dispersion_p", dispersion_p},
      {"cells", 32}};
}

Json row(const char* phase, const Json& realised, const Json& scheduled = gaps(0.5, 0.5)) {
  return {{"row", "arrivals"},
          {"load", "users"},
          {"node", "edge-0"},
          {"phase", phase},
          {"process", "poisson"},
          {"deterministic", false},
          {"n", 161},
          {"moved", 0},
          {"gap_distance", 0.01},
          {"unsent", 0},
          {"scheduled", scheduled},
          {"realised", realised}};
}

// Of the contention phase, of which only these rows tell how its requests arrived.
std::string trouble_with(const std::vector<Json>& rows, FakeRun run = {}) {
  run.arrivals_rows = false;
  run.extra = rows;
  const Plan plan = run.plan();
  const std::vector<Json> all = run.rows();
  const Evidence evidence = read_evidence(plan, all);
  const PhaseWindow& window = evidence.phases.at("contention");
  return measurement_trouble({plan, evidence}, "users", window.settled, window.end);
}

TEST(ArrivalsValidity, ArrivalsAsDeclaredAreNoTrouble) {
  EXPECT_EQ(trouble_with({row("contention", gaps(0.002, 0.9))}), "");
  // Those of another phase do not matter to this one.
  EXPECT_EQ(trouble_with({row("contention", gaps(0.5, 0.5)), row("baseline", gaps(1e-9, 1e-9))}),
            "");
}

TEST(ArrivalsValidity, WithoutTheirRowNobodyKnowsHowTheyArrived) {
  const std::string missing =
      "no arrivals row tells whether the requests of contention arrived as declared";
  EXPECT_EQ(trouble_with({}), missing);
  EXPECT_EQ(trouble_with({row("baseline", gaps(0.5, 0.5)), row("stall", gaps(0.5, 0.5))}), missing);
}

TEST(ArrivalsValidity, APhaseThatWasCutShortHasNoRow) {
  FakeRun cut;
  cut.last_phase = "contention";
  cut.complete = false;
  EXPECT_EQ(trouble_with({}, cut), "");
}

TEST(ArrivalsValidity, WhoeverHasNoArrivalsNeedsNoRow) {
  FakeRun run;
  run.arrivals_rows = false;
  Plan plan = run.plan();
  const std::vector<Json> rows = run.rows();
  const Evidence evidence = read_evidence(plan, rows);
  const PhaseWindow& window = evidence.phases.at("contention");
  const auto trouble = [&](const char* load) {
    return measurement_trouble({plan, evidence}, load, window.settled, window.end);
  };
  EXPECT_EQ(trouble("trainer"), "");
  EXPECT_NE(trouble("users"), "");
  for (LoadPlan& load : plan.loads) load.params.erase("arrivals");
  EXPECT_EQ(trouble("users"), "");
}

// The load was killed in the last phase, or the recording cut before it ended: it had not yet told
// how the requests of the phases before had arrived.
TEST(ArrivalsValidity, WithoutItsRowAPhaseIsInconclusiveWhateverItsFiguresSay) {
  for (const int violations : {0, 60}) {
    FakeRun run;
    run.violations = violations;
    run.arrivals_rows = false;
    const Plan plan = run.plan();
    const std::vector<Json> rows = run.rows();
    const Judgement judged = judge(plan, rows);
    int found = 0;
    for (const Json& check : judged.checks) {
      if (text_at(check, "load") == "trainer") {
        EXPECT_EQ(text_at(check, "status"), "pass") << check;
      }
      if (text_at(check, "load") != "users") continue;
      ++found;
      EXPECT_EQ(text_at(check, "status"), "inconclusive") << check;
      EXPECT_EQ(text_at(check, "reason"), "measurement_invalid");
      EXPECT_NE(text_at(check, "detail").find("no arrivals row tells whether the requests of "),
                std::string::npos)
          << check;
    }
    EXPECT_EQ(found, 4);
  }
}

TEST(ArrivalsValidity, ArrivalsThatAreNotAsDeclaredVoidTheFigures) {
  const std::string by_gaps = trouble_with({row("contention", gaps(0.0009, 0.9))});
  EXPECT_NE(by_gaps.find("did not arrive as declared: KS test of poisson"), std::string::npos)
      << by_gaps;
  const std::string by_counts = trouble_with({row("contention", gaps(0.5, 0.0001))});
  EXPECT_NE(by_counts.find("dispersion test of poisson: p = 0.0001 (0.5 as scheduled)"),
            std::string::npos)
      << by_counts;
}

TEST(ArrivalsValidity, AScheduleThatIsOddByChanceIsNobodysFault) {
  EXPECT_EQ(trouble_with({row("contention", gaps(0.0008, 0.5), gaps(0.0005, 0.5))}), "");
  EXPECT_NE(trouble_with({row("contention", gaps(0.00004, 0.5), gaps(0.0005, 0.5))}), "");
  // So odd that it was not drawn as declared.
  EXPECT_NE(trouble_with({row("contention", gaps(1e-7, 0.5), gaps(1e-7, 0.5))}), "");
}

TEST(ArrivalsValidity, OfSeveralWorkersEachCounts) {
  Json second = row("contention", gaps(1e-6, 0.9));
  second["worker"] = 1;
  second["node"] = "serve-0";
  EXPECT_NE(trouble_with({row("contention", gaps(0.9, 0.9)), second}), "");
}

TEST(ArrivalsValidity, TimesWithoutChanceMayNotMove) {
  Json constant = {{"row", "arrivals"},     {"load", "users"}, {"node", "edge-0"},
                   {"phase", "contention"}, {"n", 160},        {"process", "constant"},
                   {"deterministic", true}, {"moved", 0.04},   {"gap_distance", 0.3}};
  EXPECT_EQ(trouble_with({constant}), "");
  constant["moved"] = 0.06;
  EXPECT_NE(trouble_with({constant}).find("6 % of their gaps differ"), std::string::npos);
}

TEST(ArrivalsValidity, ARowWithoutItsTestsIsBad) {
  FakeRun run;
  Json broken = row("contention", gaps(0.5, 0.5));
  broken.erase("realised");
  run.extra = {broken};
  const Plan plan = run.plan();
  const std::vector<Json> rows = run.rows();
  EXPECT_EQ(read_evidence(plan, rows).loads.at("users").bad_rows, 1);
}

TEST(ArrivalsValidity, TheReportShowsTheFigures) {
  FakeRun run;
  run.arrivals_rows = false;
  run.extra = {row("contention", gaps(0.4, 0.9))};
  const Plan plan = run.plan();
  const std::vector<Json> rows = run.rows();
  const Judgement judged = judge(plan, rows);
  int found = 0;
  for (const Json& metric : judged.metrics) {
    const std::string id = text_at(metric, "id");
    if (id.rfind("inference.arrival_", 0) != 0) continue;
    ++found;
    EXPECT_EQ(text_at(metric["labels"], "phase"), "contention");
    if (id == "inference.arrival_ks") {
      EXPECT_EQ(metric["value"], 0.05);
      EXPECT_EQ(metric["evidence"]["p"], 0.4);
      EXPECT_EQ(metric["evidence"]["scheduled_p"], 0.5);
    }
  }
  EXPECT_EQ(found, 3);
}

TEST(ArrivalsValidity, AVoidedPhaseIsInconclusiveNeitherPassNorFail) {
  for (const int violations : {0, 60}) {
    FakeRun run;
    run.violations = violations;
    run.extra = {row("contention", gaps(1e-5, 0.9))};
    const Plan plan = run.plan();
    const std::vector<Json> rows = run.rows();
    const Judgement judged = judge(plan, rows);
    for (const Json& check : judged.checks)
      if (text_at(check, "id") == "contention/sla") {
        EXPECT_EQ(text_at(check, "status"), "inconclusive") << check;
        EXPECT_EQ(text_at(check, "reason"), "measurement_invalid");
      }
  }
}

}  // namespace
}  // namespace mixproof
