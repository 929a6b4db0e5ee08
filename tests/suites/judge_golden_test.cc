// Golden judgements: made-up runs (tests/fake/fake_run.h) of every kind of outcome, their checks
// and verdict compared with the files in tests/golden/judge/. To write the files anew after a
// wanted change, run this test with MIXPROOF_UPDATE_GOLDEN=1 in the environment and read the
// difference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "suites/judge.h"
#include "tests/fake/fake_run.h"
#include "tests/fake/paths.h"

namespace mixproof {
namespace {

struct Case {
  std::string name, verdict;
  int exit_code = 0;
  std::string check, status, reason;  // one that the case is about
  FakeRun run;

  friend void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }
};

FakeRun with(const std::function<void(FakeRun&)>& change) {
  FakeRun run;
  change(run);
  return run;
}

Json lost_row(const std::string& node, double at_s) {
  return {{"row", "lost"},
          {"node", node},
          {"at", FakeRows::kStart + FakeRows::ns(at_s)},
          {"why", "connection closed"}};
}

// A suite whose first limit is a ratio of the contention to the baseline, judged by its interval;
// with a second baseline at the end.
Json interval_suite(double at_most = 1.5) {
  Json suite = fake_suite();
  suite["phases"].push_back(
      {{"name", "again"}, {"run", {"users"}}, {"settle_s", 2}, {"measure_s", 20}});
  suite["limits"][0] = {{"id", "slower"},          {"metric", "inference.ttft_ratio"},
                        {"load", "users"},         {"phase", "contention"},
                        {"reference", "baseline"}, {"quantile", "p50"},
                        {"method", "interval"},    {"at_most", at_most},
                        {"why", "a margin"}};
  return suite;
}

FakeRun with_interval(const std::function<void(FakeRun&)>& change) {
  FakeRun run;
  run.suite = interval_suite();
  run.last_phase = "again";
  change(run);
  return run;
}

// The fake suite with its attainment judged by blocks.
FakeRun with_blocks(double at_least, const std::function<void(FakeRun&)>& change) {
  FakeRun run;
  run.suite["limits"][0]["dependence"] = "blocks";
  run.suite["limits"][0]["at_least"] = at_least;
  change(run);
  return run;
}

// The change of attainment from the baseline, by its interval.
FakeRun with_change(double at_least, const std::function<void(FakeRun&)>& change) {
  FakeRun run = with_interval([](FakeRun&) {});
  run.suite["limits"][0]["metric"] = "inference.attainment_change";
  run.suite["limits"][0].erase("quantile");
  run.suite["limits"][0].erase("at_most");
  run.suite["limits"][0]["at_least"] = at_least;
  change(run);
  return run;
}

// A limit on a time that counts from the fault, in place of the recovery's.
FakeRun with_time(const char* metric, const char* bound, double seconds,
                  const std::function<void(FakeRun&)>& change) {
  FakeRun run;
  run.suite["limits"][3]["metric"] = metric;
  run.suite["limits"][3].erase("clean_requests");
  run.suite["limits"][3].erase("at_most");
  run.suite["limits"][3][bound] = seconds;
  change(run);
  return run;
}

std::vector<Case> cases() {
  return {
      {"pass", "pass", 0, "contention/sla", "pass", "within_limit", {}},
      {"few_violations_pass", "pass", 0, "contention/sla", "pass", "within_limit",
       with([](FakeRun& r) { r.violations = 2; })},
      {"fail_binomial", "fail", 1, "contention/sla", "fail", "outside_limit",
       with([](FakeRun& r) { r.violations = 40; })},
      {"fail_infinite", "fail", 1, "contention/worst", "fail", "outside_limit",
       with([](FakeRun& r) {
         r.outcome_in_contention = "TRUNCATED";
         r.suite["limits"][0] = {{"id", "worst"},      {"metric", "inference.longest_wait"},
                                 {"load", "users"},    {"phase", "contention"},
                                 {"method", "direct"}, {"at_most", 9},
                                 {"why", "w"}};
       })},
      {"fail_recovery", "fail", 1, "stall/back", "fail", "outside_limit",
       with([](FakeRun& r) { r.stall_recovers_s = 8; })},
      {"fail_training_floor", "fail", 1, "contention/floor", "fail", "outside_limit",
       with([](FakeRun& r) { r.trainer_slowdown = 2; })},
      {"inconclusive_samples", "inconclusive", 2, "contention/sla", "inconclusive",
       "needs_more_samples", with([](FakeRun& r) { r.violations = 6; })},
      {"inconclusive_n_too_small", "inconclusive", 2, "baseline/tail", "inconclusive",
       "n_too_small", with([](FakeRun& r) {
         r.suite["limits"][4]["quantile"] = "p99";
         r.suite["limits"][4]["required"] = true;
       })},
      {"inconclusive_recovery", "inconclusive", 2, "stall/back", "inconclusive", "not_recovered",
       with([](FakeRun& r) { r.suite["limits"][3]["clean_requests"] = 400; })},
      {"inconclusive_late_client", "inconclusive", 2, "contention/sla", "inconclusive",
       "measurement_invalid", with([](FakeRun& r) { r.client_delay_s = 0.012; })},
      {"inconclusive_busy_client", "inconclusive", 2, "stall/wait", "inconclusive",
       "measurement_invalid", with([](FakeRun& r) { r.client_cpu = 0.93; })},
      {"inconclusive_steal", "inconclusive", 2, "stall/wait", "inconclusive", "measurement_invalid",
       with([](FakeRun& r) { r.client_steal = 0.2; })},
      {"inconclusive_dropped", "inconclusive", 2, "contention/sla", "inconclusive",
       "measurement_invalid", with([](FakeRun& r) { r.outcome_in_contention = "CLIENT_DROPPED"; })},
      {"late_client_far_beyond", "fail", 1, "stall/wait", "fail", "outside_limit",
       with([](FakeRun& r) {
         r.client_delay_s = 0.012;
         r.suite["limits"][2]["at_most"] = 2;
       })},
      {"inconclusive_clock_step", "inconclusive", 2, "contention/sla", "inconclusive",
       "measurement_invalid", with([](FakeRun& r) {
         r.extra.push_back({{"row", "clock"},
                            {"node", "edge-0"},
                            {"at", FakeRows::kStart + FakeRows::ns(60)},
                            {"offset_ns", FakeRows::offset("edge-0") + 300'000'000},
                            {"uncertainty_ns", 200'000}});
       })},
      {"inconclusive_not_effective", "inconclusive", 2, "stall/wait", "inconclusive",
       "not_effective", with([](FakeRun& r) { r.effective = false; })},
      {"inconclusive_refused", "inconclusive", 2, "stall/back", "inconclusive", "not_effective",
       with([](FakeRun& r) { r.injected = false; })},
      {"inconclusive_undone_early", "inconclusive", 2, "stall/wait", "inconclusive",
       "not_effective", with([](FakeRun& r) { r.pause_s = 1; })},
      {"interval_pass", "pass", 0, "contention/slower", "pass", "within_limit",
       with_interval([](FakeRun&) {})},
      {"interval_fail", "fail", 1, "contention/slower", "fail", "outside_limit",
       with_interval([](FakeRun& r) { r.slower["contention"] = 3; })},
      {"interval_fail_infinite", "fail", 1, "contention/slower", "fail", "outside_limit",
       with_interval([](FakeRun& r) { r.all_outcomes_in_contention = "HTTP_ERROR"; })},
      {"interval_straddles", "inconclusive", 2, "contention/slower", "inconclusive",
       "interval_straddles_limit", with_interval([](FakeRun& r) { r.slower["contention"] = 1.5; })},
      {"interval_small_rise", "inconclusive", 2, "contention/slower", "inconclusive",
       "rise_too_small", with_interval([](FakeRun& r) {
         r.suite = interval_suite(1.05);
         r.slower["contention"] = 1.2;
       })},
      {"interval_few_blocks", "inconclusive", 2, "contention/slower", "inconclusive",
       "too_few_blocks",
       with_interval([](FakeRun& r) { r.suite["phases"][0]["measure_s"] = 17.5; })},
      {"interval_drift", "inconclusive", 2, "contention/slower", "inconclusive", "drift",
       with_interval([](FakeRun& r) { r.slower["again"] = 2; })},
      {"interval_drift_downwards", "inconclusive", 2, "contention/slower", "inconclusive", "drift",
       with_interval([](FakeRun& r) { r.slower["again"] = 0.5; })},
      {"interval_noise_widens_the_margin", "pass", 0, "contention/slower", "pass", "within_limit",
       with_interval([](FakeRun& r) {
         r.suite = interval_suite(1.2);
         r.slower = {{"contention", 1.19}, {"again", 1.24}};
       })},
      {"interval_no_noise", "inconclusive", 2, "contention/slower", "inconclusive", "no_noise",
       with_interval([](FakeRun& r) { r.last_phase = "stall"; })},
      {"interval_rate_pass", "pass", 0, "contention/floor", "pass", "within_limit",
       with_interval([](FakeRun& r) {
         r.suite["phases"][1]["measure_s"] = 21;
         r.suite["limits"][1]["method"] = "interval";
       })},
      {"interval_goodput_fail", "fail", 1, "contention/goodput", "fail", "outside_limit",
       with_interval([](FakeRun& r) {
         r.trainer_slowdown = 1.6;
         r.suite["phases"][1]["measure_s"] = 21;
         r.suite["limits"][1] = {{"id", "goodput"},      {"metric", "training.goodput"},
                                 {"load", "trainer"},    {"phase", "contention"},
                                 {"method", "interval"}, {"at_least", 0.7},
                                 {"confidence", 0.9},    {"why", "batch deadline"}};
       })},
      {"blocks_pass", "pass", 0, "contention/sla", "pass", "within_limit",
       with_blocks(0.8, [](FakeRun&) {})},
      {"blocks_fail", "fail", 1, "contention/sla", "fail", "outside_limit",
       with_blocks(0.95, [](FakeRun& r) { r.violations = 80; })},
      {"blocks_one_burst", "inconclusive", 2, "contention/sla", "inconclusive",
       "needs_more_samples", with_blocks(0.8, [](FakeRun& r) { r.violations = 8; })},
      {"blocks_burst_by_requests", "pass", 0, "contention/sla", "pass", "within_limit",
       with_blocks(0.8,
                   [](FakeRun& r) {
                     r.violations = 8;
                     r.suite["limits"][0]["dependence"] = "requests";
                   })},
      {"blocks_too_few", "inconclusive", 2, "contention/sla", "inconclusive", "too_few_blocks",
       with_blocks(0.8, [](FakeRun& r) { r.suite["phases"][2]["measure_s"] = 19; })},
      {"blocks_baseline_unanswered", "inconclusive", 2, "contention/sla", "inconclusive",
       "baseline_unanswered",
       with_blocks(0.8,
                   [](FakeRun& r) {
                     r.all_outcomes_in_baseline = "TIMEOUT_FIRST";
                     r.suite["limits"][4]["phase"] = "contention";
                   })},
      {"change_pass", "pass", 0, "contention/slower", "pass", "within_limit",
       with_change(-0.2, [](FakeRun&) {})},
      {"change_nothing_missed_is_no_proof", "inconclusive", 2, "contention/slower", "inconclusive",
       "interval_straddles_limit", with_change(-0.01, [](FakeRun&) {})},
      {"change_fail", "fail", 1, "contention/slower", "fail", "outside_limit",
       with_change(-0.1, [](FakeRun& r) { r.violations = 100; })},
      {"change_baseline_unanswered", "inconclusive", 2, "contention/slower", "inconclusive",
       "baseline_unanswered",
       with_change(-0.1,
                   [](FakeRun& r) {
                     r.all_outcomes_in_baseline = "HTTP_ERROR";
                     r.suite["limits"][4]["phase"] = "contention";
                   })},
      {"impact_late_enough", "fail", 1, "stall/back", "fail", "outside_limit",
       with_time("inference.time_to_impact", "at_least", 3, [](FakeRun&) {})},
      {"impact_none", "pass", 0, "stall/back", "pass", "within_limit",
       with_time("inference.time_to_impact", "at_least", 3,
                 [](FakeRun& r) {
                   r.pause_s = 4;
                   r.stall_hurts = false;
                 })},
      {"impact_none_and_short", "inconclusive", 2, "stall/back", "inconclusive", "no_impact",
       with_time("inference.time_to_impact", "at_least", 30,
                 [](FakeRun& r) { r.stall_hurts = false; })},
      {"normal_latency_pass", "pass", 0, "stall/back", "pass", "within_limit",
       with_time("inference.time_to_normal_latency", "at_most", 5,
                 [](FakeRun& r) {
                   r.suite["limits"][3]["clean_requests"] = 20;
                   r.suite["limits"][3]["margin"] = 1.5;
                 })},
      {"normal_latency_never", "fail", 1, "stall/back", "fail", "outside_limit",
       with_time("inference.time_to_normal_latency", "at_most", 5,
                 [](FakeRun& r) {
                   r.suite["limits"][3]["clean_requests"] = 20;
                   r.slower["stall"] = 2;
                 })},
      {"drain_pass", "pass", 0, "stall/back", "pass", "within_limit",
       with_time("inference.time_to_drain", "at_most", 5, [](FakeRun&) {})},
      {"drain_fail", "fail", 1, "stall/back", "fail", "outside_limit",
       with_time("inference.time_to_drain", "at_most", 2,
                 [](FakeRun& r) { r.stall_recovers_s = 8; })},
      {"error_load_absent", "error", 3, "contention/sla", "error", "load_absent",
       with([](FakeRun& r) { r.trainer_rows = false; })},
      {"error_no_users", "error", 3, "stall/wait", "error", "load_absent",
       with([](FakeRun& r) { r.user_rows = false; })},
      {"error_missing_rank", "error", 3, "contention/floor", "error", "missing_ranks",
       with([](FakeRun& r) { r.second_rank = false; })},
      {"error_lost_node", "error", 3, "stall/wait", "error", "lost_node",
       with([](FakeRun& r) { r.extra.push_back(lost_row("serve-1", 70)); })},
      {"error_row", "error", 3, "contention/floor", "error", "error_timeout", with([](FakeRun& r) {
         r.extra.push_back({{"row", "error"},
                            {"what", "trainer"},
                            {"node", "train-1"},
                            {"code", "timeout"},
                            {"message", "rank 1 did not answer"}});
       })},
      {"fail_wrong_data", "fail", 1, "contention/floor", "fail", "error_corrupt",
       with([](FakeRun& r) {
         r.extra.push_back({{"row", "error"},
                            {"what", "trainer"},
                            {"node", "train-1"},
                            {"code", "corrupt"},
                            {"message", "the sum of the ranks is wrong"}});
       })},
      {"interrupted", "error", 130, "stall/wait", "error", "not_run", with([](FakeRun& r) {
         r.last_phase = "contention";
         r.complete = false;
         r.stop_why = "signal 2";
       })},
      {"unsafe_no_clean_event", "unsafe", 5, "stall/wait", "pass", "within_limit",
       with([](FakeRun& r) { r.clean = false; })},
      {"unsafe_dirty", "unsafe", 5, "stall/wait", "pass", "within_limit",
       with([](FakeRun& r) { r.dirty = true; })},
      {"partial", "error", 3, "stall/wait", "pass", "within_limit",
       with([](FakeRun& r) { r.end_row = false; })},
      {"partial_unsafe", "unsafe", 5, "stall/wait", "error", "phase_incomplete",
       with([](FakeRun& r) {
         r.end_row = false;
         r.complete = false;
         r.clean = false;
       })},
  };
}

std::string text_of(const Judgement& judgement) {
  const auto text = print_json({{"checks", judgement.checks},
                                {"verdict", judgement.verdict},
                                {"safety", judgement.safety},
                                {"partial", judgement.partial}},
                               1);
  return text.ok() ? *text + "\n" : "not printable: " + text.error().message;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

class JudgeGolden : public testing::TestWithParam<Case> {};

TEST_P(JudgeGolden, IsJudgedAsItShould) {
  const Case& one = GetParam();
  const Plan plan = one.run.plan();
  const Judgement judgement = judge(plan, one.run.rows());
  EXPECT_EQ(text_at(judgement.verdict, "status"), one.verdict) << text_of(judgement);
  EXPECT_EQ(integer_at(judgement.verdict, "exit_code"), one.exit_code);
  EXPECT_EQ(judgement.checks.size(), plan.limits.size());
  for (const Json& check : judgement.checks)
    if (text_at(check, "id") == one.check) {
      EXPECT_EQ(text_at(check, "status"), one.status) << check.dump(1);
      EXPECT_EQ(text_at(check, "reason"), one.reason) << check.dump(1);
    }
  const std::string path = std::string(kSourceDir) + "/tests/golden/judge/" + one.name + ".json";
  if (std::getenv("MIXPROOF_UPDATE_GOLDEN") != nullptr)
    std::ofstream(path, std::ios::binary) << text_of(judgement);
  EXPECT_EQ(text_of(judgement), read_file(path)) << "see the top of this file";
}

TEST_P(JudgeGolden, IsJudgedTheSameTwiceAndInAnyOrderOfRows) {
  const Case& one = GetParam();
  const Plan plan = one.run.plan();
  std::vector<Json> rows = one.run.rows();
  const std::string first = text_of(judge(plan, rows));
  EXPECT_EQ(first, text_of(judge(plan, rows)));
  // Any order, except that the states of a fault stay in theirs.
  std::vector<Json> faults, others;
  for (Json& row : rows)
    (text_at(row, "row") == "fault" ? faults : others).push_back(std::move(row));
  Random random(1, "order");
  for (std::size_t i = others.size(); i > 1; --i) std::swap(others[i - 1], others[random.below(i)]);
  others.insert(others.end(), faults.begin(), faults.end());
  EXPECT_EQ(first, text_of(judge(plan, others)));
}

INSTANTIATE_TEST_SUITE_P(Runs, JudgeGolden, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<Case>& one) { return one.param.name; });

}  // namespace
}  // namespace mixproof
