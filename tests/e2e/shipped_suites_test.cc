// The shipped suites with the real engines behind the real proxy, as a newcomer runs them.
#include <nlohmann/json.hpp>
#include <set>

#include "harness/base/text.h"
#include "suites/services/service.h"
#include "tests/e2e/command.h"
#include "tests/fake/paths.h"

namespace mixproof {
namespace {

class ShippedSuites : public LabRun {
 protected:
  void SetUp() override {
    LabRun::SetUp();
    for (const char* kind : {"llama_cpp", "haproxy"}) {
      const Status available = service_kind(kind)->available();
      if (!available.ok()) GTEST_SKIP() << available.error().message;
    }
  }

  static std::string shipped(const std::string& name) {
    return std::string(kSourceDir) + "/suites/" + name + ".json";
  }

  // A machine that is too busy to measure may say so, with that reason and no other.
  static void expect_status(const Ended& ended, const Json& report, int wanted) {
    if (ended.status == wanted) return;
    EXPECT_EQ(ended.status, 2) << ended.err;
    for (const Json& check : report["checks"])
      if (text_at(check, "status") == "inconclusive") {
        EXPECT_EQ(text_at(check, "reason"), "measurement_invalid") << check.dump(1);
      }
  }

  static const Json& metric(const Json& report, const std::string& id, const std::string& phase) {
    for (const Json& one : report["metrics"])
      if (text_at(one, "id") == id && text_at(one["labels"], "phase") == phase) return one;
    ADD_FAILURE() << "no metric " << id << " in " << phase;
    static const Json none;
    return none;
  }
};

TEST_F(ShippedSuites, SmokePassesAndCanBeJudgedAgain) {
  const Ended ended =
      start_run({shipped("smoke"), "--seed", "4", "-o", "smoke"})->wait(Seconds(90));
  const Json seen = report("smoke");
  expect_status(ended, seen, 0);
  EXPECT_NE(seen["plan"]["claim"].get<std::string>().find("no SLO"), std::string::npos);
  EXPECT_EQ(seen["safety"]["clean"], 1) << ended.err;
  EXPECT_EQ(seen["environment"]["observed"]["services"]["llm[0]"]["engine"], "llama.cpp");
  EXPECT_EQ(text_at(metric(seen, "inference.ttft", "contention")["labels"], "backend"),
            "llama_cpp");
  EXPECT_EQ(text_at(metric(seen, "training.step_time", "contention")["labels"], "backend"),
            "cpu+ucx/tcp");
  const Ended again = run({"rejudge", "smoke"});
  EXPECT_EQ(again.status, ended.status);
  EXPECT_NE(again.out.find("identical: checks"), std::string::npos) << again.out << again.err;
}

TEST_F(ShippedSuites, AStallLongerThanItsLimitFails) {
  const Ended ended =
      start_run({shipped("stall"), "--seed", "4", "-o", "stall", "--set",
                 "phases.baseline.measure_s=6", "--set", "phases.stall.measure_s=14"})
          ->wait(Seconds(90));
  const Json seen = report("stall");
  expect_status(ended, seen, 1);
  EXPECT_GE(
      metric(seen, "inference.longest_wait", "stall")["summary"]["max"]["value"].get<double>(),
      3.0);
  for (const char* id : {"inference.time_to_impact", "inference.time_to_recover"}) {
    const Json& one = metric(seen, id, "stall");
    EXPECT_TRUE(one.contains("interval")) << one.dump();
  }
}

// In short phases, so that only what needs no time is asked: that every fault takes hold, ends, and
// that the rank and the replica come back.
TEST_F(ShippedSuites, ChaosLabInjectsEveryFaultAndLeavesNone) {
  const Ended ended =
      start_run({shortened("chaos_lab", 4, 2), "--seed", "4", "-o", "chaos"})->wait(Seconds(200));
  ASSERT_TRUE(ended.status == 0 || ended.status == 1 || ended.status == 2)
      << ended.status << ended.err;
  const Json seen = report("chaos");
  std::set<std::string> kinds;
  for (const Json& fault : seen["safety"]["faults"]) {
    kinds.insert(text_at(fault, "fault"));
    EXPECT_EQ(text_at(fault, "state"), "clean") << fault.dump(1);
    EXPECT_TRUE(flag_at(fault, "effective")) << fault.dump(1);
  }
  EXPECT_EQ(kinds,
            (std::set<std::string>{"process_pause", "process_kill", "net_drop", "disk_fill"}));
  EXPECT_EQ(seen["safety"]["effective"], 6);
  EXPECT_EQ(seen["safety"]["clean"], 6);
  EXPECT_TRUE(ended.says("trainer lost a rank: attempt 1 begins")) << ended.err;
  EXPECT_TRUE(ended.says("llm[1] is ready again")) << ended.err;
}

}  // namespace
}  // namespace mixproof
