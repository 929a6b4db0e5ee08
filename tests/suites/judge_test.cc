// Figures, one by one, on rows whose answers are known.
#include "suites/judge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "suites/evidence.h"
#include "suites/fault_evidence.h"
#include "suites/recovery.h"
#include "suites/request_metrics.h"
#include "suites/training_metrics.h"
#include "suites/validity.h"
#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

Json request(std::int64_t index, double sched_s, double ttft_s, const char* outcome = "OK",
             double max_gap_s = 0.002) {
  const std::int64_t sched = FakeRows::kStart + FakeRows::ns(sched_s);
  const bool got = std::string_view(outcome) == "OK";
  return {{"row", "request"},
          {"load", "users"},
          {"i", index},
          {"sched", sched},
          {"send", sched + 1000},
          {"sent", sched + 2000},
          {"first", got ? sched + FakeRows::ns(ttft_s) : 0},
          {"last", got ? sched + FakeRows::ns(ttft_s + 1) : 0},
          {"tokens", got ? 11 : 0},
          {"events", got ? 11 : 0},
          {"max_gap", FakeRows::ns(got ? max_gap_s : 0)},
          {"outcome", outcome},
          {"lag", 1000}};
}

Json phase_row(const char* name, double begin_s, double settled_s, double end_s) {
  return {{"row", "phase"},
          {"name", name},
          {"begin", FakeRows::kStart + FakeRows::ns(begin_s)},
          {"settled", FakeRows::kStart + FakeRows::ns(settled_s)},
          {"end", FakeRows::kStart + FakeRows::ns(end_s)}};
}

// Requests 0.1 s apart through "baseline" (0 to 22 s) and "stall" (56 to 76 s); `bad` says which
// get 2 s to wait.
struct Scene {
  Plan plan = FakeRun{}.plan();
  std::vector<Json> rows = {phase_row("baseline", 0, 2, 22), phase_row("contention", 34, 36, 56),
                            phase_row("stall", 56, 56, 76)};
  Evidence evidence;

  explicit Scene(const std::function<bool(double)>& bad, double uncertainty_s = 0) {
    std::int64_t index = 0;
    for (const auto& [from, until] : {std::pair{0.0, 22.0}, {56.0, 76.0}})
      for (int i = 0; from + 0.1 * i < until - 1e-9; ++i)
        rows.push_back(request(index++, from + 0.1 * i, bad(from + 0.1 * i) ? 2 : 0.01));
    fault("injected", 60, uncertainty_s);
    fault("effective", 60.5, uncertainty_s);
    fault("reverting", 64, uncertainty_s);
    fault("clean", 64.4, uncertainty_s);
  }
  void fault(const char* state, double at_s, double uncertainty_s) {
    rows.push_back({{"row", "fault"},
                    {"fault", "stall/0"},
                    {"node", "serve-0"},
                    {"state", state},
                    {"at", FakeRows::kStart + FakeRows::ns(at_s)},
                    {"uncertainty_ns", FakeRows::ns(uncertainty_s)}});
  }
  JudgeInput read() {
    evidence = read_evidence(plan, rows);
    return {plan, evidence};
  }
};

TEST(Recovery, ImpactIsTheFirstViolationThatStandsOutFromTheBaseline) {
  // One violation in the baseline and one right after the injection: as usual. From 62.2 s on: not
  // usual.
  Scene scene(
      [](double at) { return at == 5.0 || std::abs(at - 60.1) < 1e-6 || (at > 62.15 && at < 66); });
  const JudgeInput input = scene.read();
  const Figure impact = time_to_impact(input, "users", faults_of_phase(input, "stall")[0]);
  ASSERT_TRUE(impact.value);
  EXPECT_NEAR(impact.interval->low, 2.1, 1e-6);
  EXPECT_NEAR(impact.interval->high, 2.2, 1e-6);
}

TEST(FaultFacts, AnEndThatNobodySawMayHaveComeAtOnce) {
  Scene scene([](double) { return false; });
  const FaultFacts seen = faults_of_phase(scene.read(), "stall")[0];
  EXPECT_EQ(*seen.off_low, FakeRows::kStart + FakeRows::ns(64))
      << "it was told when the revert began";
  std::erase_if(scene.rows, [](const Json& row) { return text_at(row, "state") == "reverting"; });
  const FaultFacts unseen = faults_of_phase(scene.read(), "stall")[0];
  EXPECT_EQ(*unseen.off_low, unseen.on);
  EXPECT_EQ(*unseen.off_high, FakeRows::kStart + FakeRows::ns(64.4));
}

TEST(Recovery, NoImpactIsSaidSo) {
  Scene scene([](double) { return false; });
  const JudgeInput input = scene.read();
  EXPECT_EQ(time_to_impact(input, "users", faults_of_phase(input, "stall")[0]).missing,
            "no_impact");
}

TEST(Recovery, RunsFromTheRevertToTheFirstRequestOfTheGoodRun) {
  // A good stretch of 9 in between is too short to count when 20 are asked for.
  Scene scene([](double at) { return at > 61 && at < 66 && !(at > 64.55 && at < 65.45); });
  const JudgeInput input = scene.read();
  const FaultFacts fault = faults_of_phase(input, "stall")[0];
  const Figure recover = time_to_recover(input, "users", fault, 20);
  ASSERT_TRUE(recover.value);
  // The revert lies between 64 and 64.4 s; the last violation is scheduled at 65.9 s, the good run
  // begins at 66 s.
  EXPECT_NEAR(recover.interval->low, 1.5, 1e-6);
  EXPECT_NEAR(recover.interval->high, 2.0, 1e-6);
  EXPECT_NEAR(time_to_recover(input, "users", fault, 5).interval->high, 0.6, 1e-6);
}

TEST(Recovery, ClockUncertaintyWidensBothEnds) {
  const auto bad = [](double at) { return at > 61 && at < 66; };
  Scene sharp(bad), vague(bad, 0.05);
  const JudgeInput a = sharp.read(), b = vague.read();
  const Figure narrow = time_to_recover(a, "users", faults_of_phase(a, "stall")[0], 20);
  const Figure wide = time_to_recover(b, "users", faults_of_phase(b, "stall")[0], 20);
  EXPECT_NEAR(narrow.interval->low - wide.interval->low, 0.05, 1e-6);
  EXPECT_NEAR(wide.interval->high - narrow.interval->high, 0.05, 1e-6);
  const Figure impact = time_to_impact(b, "users", faults_of_phase(b, "stall")[0]);
  EXPECT_NEAR(impact.interval->high, 1.15, 1e-6);
}

TEST(Recovery, LatencyIsNormalFromTheFirstRequestOfARunWhoseMedianIs) {
  Scene scene([](double at) { return at > 61 && at < 66; });
  const JudgeInput input = scene.read();
  const FaultFacts fault = faults_of_phase(input, "stall")[0];
  const Figure normal = time_to_normal_latency(input, "users", fault, {"", 20, 1.1});
  ASSERT_TRUE(normal.value) << normal.missing;
  EXPECT_NEAR(normal.interval->low, 1.5,
              1e-6);  // the last slow one at 65.9 s, the revert by 64.4 s
  EXPECT_NEAR(normal.interval->high, 2.0, 1e-6);
  EXPECT_NEAR(number_at(normal.evidence, "usual_s"), 0.01, 1e-6);
}

TEST(Recovery, LatencyThatStaysHighIsCensored) {
  Scene scene([](double at) { return at > 61; });
  const JudgeInput input = scene.read();
  const FaultFacts fault = faults_of_phase(input, "stall")[0];
  const Figure never = time_to_normal_latency(input, "users", fault, {"", 20, 1.1});
  EXPECT_TRUE(never.censored);
  EXPECT_NEAR(never.interval->low, 9.6, 0.11);  // 20 requests before the end, at 74 s
  EXPECT_FALSE(
      time_to_normal_latency(input, "users", fault, {"", 20, 300}).censored);  // 2 s is normal
}

TEST(Recovery, TheBacklogIsGoneWhenNoMoreAreOpenThanUsual) {
  // Every answer takes 1.01 s, so that 11 are open; the slow ones 3 s, the last of them until 68.9
  // s.
  Scene scene([](double at) { return at > 61 && at < 66; });
  const JudgeInput input = scene.read();
  const Figure drain = time_to_drain(input, "users", faults_of_phase(input, "stall")[0]);
  ASSERT_TRUE(drain.value) << drain.missing;
  EXPECT_EQ(integer_at(drain.evidence, "usual_open"), 11);
  EXPECT_GT(integer_at(drain.evidence, "open_at_revert"), 25);
  EXPECT_NEAR(drain.interval->low, 68.81 - 64.4, 0.02);
  EXPECT_NEAR(drain.interval->high, 68.81 - 64, 0.02);
}

TEST(Recovery, RequestsWhoseEndIsNotKnownStayOpen) {
  Scene scene([](double) { return false; });
  for (int i = 0; i < 3; ++i) scene.rows.push_back(request(900 + i, 62, 0, "TIMEOUT_TOTAL"));
  const JudgeInput input = scene.read();
  const Figure drain = time_to_drain(input, "users", faults_of_phase(input, "stall")[0]);
  EXPECT_TRUE(drain.censored);
  EXPECT_NEAR(drain.interval->low, 76 - 64.4, 1e-6);
}

TEST(Recovery, NoImpactSaysForHowLongThereWasNone) {
  Scene scene([](double) { return false; });
  const JudgeInput input = scene.read();
  EXPECT_NEAR(number_at(time_to_impact(input, "users", faults_of_phase(input, "stall")[0]).evidence,
                        "watched_s"),
              16, 1e-6);
}

TEST(Recovery, NotShownIsCensoredAtTheLastViolation) {
  Scene scene([](double at) { return at > 61 && at < 75; });
  const JudgeInput input = scene.read();
  const Figure recover = time_to_recover(input, "users", faults_of_phase(input, "stall")[0], 20);
  EXPECT_TRUE(recover.censored);
  EXPECT_NEAR(recover.interval->low, 10.5, 1e-6);
}

TEST(Recovery, AHoleInTheNumbersBreaksTheRun) {
  Scene scene([](double at) { return at > 61 && at < 65; });
  std::erase_if(scene.rows, [](const Json& row) {
    return text_at(row, "row") == "request" &&
           integer_at(row, "i") == 220 + 100;  // scheduled at 66 s
  });
  const JudgeInput input = scene.read();
  const Figure recover = time_to_recover(input, "users", faults_of_phase(input, "stall")[0], 20);
  EXPECT_NEAR(recover.interval->high, 2.1, 1e-6);  // the run starts anew after the hole
}

TEST(Requests, BelongToThePhaseOfTheirScheduledTime) {
  Scene scene([](double) { return false; });
  const JudgeInput input = scene.read();
  EXPECT_EQ(measured_requests(input.evidence, "users", "baseline").size(),
            200u);  // 2 to 22 s; settling left out
  EXPECT_EQ(measured_requests(input.evidence, "users", "stall").size(), 200u);
}

TEST(Requests, OnlyOkAnswersHaveFiniteLatencies) {
  const Slo slo{0.5, 0.2, 1, 10};
  Scene scene([](double) { return false; });
  scene.rows.push_back(request(900, 70.01, 0.01, "HTTP_ERROR"));
  scene.rows.push_back(request(901, 70.02, 0.01, "OK", 0.9));
  const JudgeInput input = scene.read();
  const auto requests = measured_requests(input.evidence, "users", "stall");
  const auto samples = request_samples(requests, "inference.longest_wait");
  EXPECT_TRUE(std::isinf(samples.back()));
  EXPECT_NEAR(samples[samples.size() - 2], 0.9, 1e-9);  // the gap, not the first token
  const auto tpot = request_samples(requests, "inference.tpot");
  EXPECT_NEAR(tpot.front(), 0.1, 1e-9);  // 1 s over 10 further tokens
  int bad = 0;
  for (const Request* one : requests) bad += is_good(*one, slo) ? 0 : 1;
  EXPECT_EQ(bad, 1);
  EXPECT_EQ(outcome_counts(requests)["HTTP_ERROR"], 1);
}

TEST(Requests, TokensCountInTheWindowInWhichTheyCame) {
  Plan plan = FakeRun{}.plan();
  // 11 tokens from 21.5 s to 22.5 s, 0.1 s apart: those at 21.5 to 21.9 lie in the window that ends
  // at 22 s.
  const std::vector<Json> rows = {phase_row("baseline", 0, 2, 22), request(0, 21.4, 0.1)};
  const Evidence evidence = read_evidence(plan, rows);
  const Figure rate = request_number(
      {plan, evidence},
      {.metric = judged_metric("inference.token_rate"), .load = "users", .phase = "baseline"});
  ASSERT_TRUE(rate.value);
  EXPECT_NEAR(*rate.value * 20, 5, 1e-6);
}

TEST(Requests, RowsThatContradictThemselvesAreCounted) {
  Plan plan = FakeRun{}.plan();
  Json late = request(0, 5, 0.1);
  late["send"] = integer_at(late, "sched") - 1;
  Json backwards = request(1, 6, 0.1);
  backwards["last"] = integer_at(backwards, "first") - 1;
  Json unknown = request(2, 7, 0.1, "FINE");
  Json unset = request(3, 8, 0.1);
  unset["sched"] = 0;
  const std::vector<Json> rows = {late, backwards, unknown, unset, request(4, 9, 0.1)};
  const Evidence evidence = read_evidence(plan, rows);
  EXPECT_EQ(evidence.loads.at("users").bad_rows, 4);
  EXPECT_EQ(evidence.loads.at("users").requests.size(), 1u);
}

TEST(Clocks, MapByTheNewestMeasurementBefore) {
  ClockMap clocks;
  clocks.add("n", 100 * kSecond, 10 * kSecond, 1000);
  clocks.add("n", 200 * kSecond, 10 * kSecond + 5000, 2000);
  clocks.finish();
  EXPECT_EQ(clocks.to_controller("n", 95 * kSecond)->at, 105 * kSecond);
  EXPECT_EQ(clocks.to_controller("n", 10 * kSecond)->at,
            20 * kSecond);  // before the first: by the first
  EXPECT_EQ(clocks.to_controller("n", 195 * kSecond)->at, 205 * kSecond + 5000);
  EXPECT_EQ(clocks.to_controller("n", 195 * kSecond)->uncertainty_ns, 2000);
  EXPECT_EQ(clocks.to_controller("", 7)->at, 7);
  EXPECT_FALSE(clocks.to_controller("stranger", 7));
  EXPECT_EQ(clocks.trouble("n"), "");
}

TEST(Clocks, StepsAndVaguenessAreTrouble) {
  ClockMap clocks;
  clocks.add("stepped", 100 * kSecond, 0, 1000);
  clocks.add("stepped", 101 * kSecond, 2'000'000, 1000);  // 2 ms in 1 s; slewing explains 0.5 ms
  clocks.add("vague", 100 * kSecond, 0, 150'000'000);
  clocks.finish();
  EXPECT_NE(clocks.trouble("stepped").find("stepped by 2.0 ms"), std::string::npos)
      << clocks.trouble("stepped");
  EXPECT_NE(clocks.trouble("vague").find("known to 150 ms only"), std::string::npos);
}

TEST(TrainingFigures, RatesHaveNoFencePostAndFollowTheSlowestRank) {
  FakeRun run;
  const Plan plan = run.plan();
  const std::vector<Json> rows = run.rows();
  const Evidence evidence = read_evidence(plan, rows);
  const StepWindow alone = measured_steps({plan, evidence}, "trainer", "alone");
  EXPECT_NEAR(alone.rate(), 10, 1e-6);
  const Figure retained =
      training_number({plan, evidence}, {.metric = judged_metric("training.retained"),
                                         .load = "trainer",
                                         .phase = "contention",
                                         .reference = "alone"});
  EXPECT_NEAR(*retained.value, 1 / 1.1, 1e-3);
}

TEST(Validity, EveryAnnouncedRequestMustHaveItsRow) {
  FakeRun run;
  const Plan plan = run.plan();
  std::vector<Json> rows = run.rows();
  std::map<std::string, int> counts;
  for (const Json& row : rows)
    if (text_at(row, "row") == "request") {
      const double at = static_cast<double>(integer_at(row, "sched") + FakeRows::offset("edge-0") -
                                            FakeRows::kStart) *
                        1e-9;
      ++counts[at < 22 ? "baseline" : at < 56 ? "contention" : "stall"];
    }
  const auto problems = [&] {
    const Evidence evidence = read_evidence(plan, rows);
    return phase_problems({plan, evidence}, "stall");
  };
  rows.push_back({{"row", "ready"},
                  {"what", "users"},
                  {"node", "edge-0"},
                  {"info", {{"arrivals", {{"by_phase", counts}}}}}});
  EXPECT_TRUE(problems().empty()) << problems().front().detail;
  counts["stall"] += 2;  // as if the last two had got lost
  rows.back()["info"]["arrivals"]["by_phase"] = counts;
  ASSERT_FALSE(problems().empty());
  EXPECT_EQ(problems().front().reason, "missing_rows");
  EXPECT_NE(problems().front().detail.find("2 of"), std::string::npos);
}

TEST(Validity, ServiceThatDiedByItselfIsAnErrorUnlessItIsTheFaultsTarget) {
  FakeRun run;
  const Plan plan = run.plan();
  const auto problems_with = [&](const char* what, double at_s) {
    std::vector<Json> rows = run.rows();
    rows.push_back({{"row", "exit"},
                    {"what", what},
                    {"node", "serve-0"},
                    {"status", "exit 1"},
                    {"expected", false},
                    {"at", FakeRows::kStart + FakeRows::ns(at_s)}});
    const Evidence evidence = read_evidence(plan, rows);
    return phase_problems({plan, evidence}, "stall");
  };
  EXPECT_EQ(problems_with("llm[1]", 62).front().reason, "process_exit");
  EXPECT_EQ(problems_with("llm[0]", 59).front().reason, "process_exit");  // before the injection
  EXPECT_TRUE(problems_with("llm[0]", 62).empty());
  EXPECT_TRUE(problems_with("llm[1]", 77).empty());  // after the phase
}

// Whatever its controls saw: a fill that took nothing met a disk that was full before.
TEST(Judge, AFillThatTookNoByteHadNoEffect) {
  FakeRun run;
  const Plan plan = run.plan();
  for (const std::int64_t bytes : {0, 4096}) {
    std::vector<Json> rows = run.rows();
    for (Json& row : rows)
      if (text_at(row, "row") == "fault" && text_at(row, "state") == "reverting")
        row["evidence"] = {{"counted", Json::array({{{"bytes", bytes}}})}};
    const Evidence evidence = read_evidence(plan, rows);
    const FaultFacts fault = faults_of_phase({plan, evidence}, "stall")[0];
    EXPECT_EQ(fault.not_effective,
              bytes == 0 ? "fault stall/0 had no effect: there was no byte to take" : "");
    const int exit_code = static_cast<int>(integer_at(judge(plan, rows).verdict, "exit_code"));
    EXPECT_EQ(exit_code, bytes == 0 ? 2 : 0);
  }
}

TEST(Judge, ACutRecordingAtTheTimeOfAFaultIsUnsafe) {
  FakeRun run;
  const Plan plan = run.plan();
  std::vector<Json> rows;
  for (const Json& row : run.rows())  // everything after 59.5 s is lost; the fault was due at 60 s
    if (text_at(row, "row") != "end" && text_at(row, "row") != "stop" &&
        text_at(row, "row") != "request" && text_at(row, "row") != "phase_end" &&
        !(text_at(row, "row") == "fault" && text_at(row, "state") != "planned"))
      rows.push_back(row);
  EXPECT_EQ(integer_at(judge(plan, rows).verdict, "exit_code"), 5);
  std::erase_if(rows, [](const Json& row) {  // cut well before: nothing was injected
    return text_at(row, "row") == "fault" || text_at(row, "name") == "stall";
  });
  EXPECT_EQ(integer_at(judge(plan, rows).verdict, "exit_code"), 3);
}

TEST(Judge, AnEmptyRecordingJudgesEveryLimitAsNotRun) {
  const Plan plan = FakeRun{}.plan();
  const Judgement judgement = judge(plan, {});
  EXPECT_TRUE(judgement.partial);
  ASSERT_EQ(judgement.checks.size(), plan.limits.size());
  for (const Json& check : judgement.checks) EXPECT_EQ(text_at(check, "reason"), "not_run");
  EXPECT_EQ(integer_at(judgement.verdict, "exit_code"), 3);
}

}  // namespace
}  // namespace mixproof
