// Runs in which a process is killed on purpose: a replica that comes back, a rank that training
// survives, and what is still an error.
#include <algorithm>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "tests/e2e/command.h"

namespace mixproof {
namespace {

constexpr Seconds kEnd{90};

class Kills : public LabRun {
 protected:
  static const Json& fault(const Json& report, const std::string& id) {
    for (const Json& one : report["safety"]["faults"])
      if (text_at(one, "id") == id) return one;
    static const Json none = Json::object();
    return none;
  }
  static const Json& check(const Json& report, const std::string& id) {
    for (const Json& one : report["checks"])
      if (text_at(one, "id") == id) return one;
    static const Json none = Json::object();
    return none;
  }
  static void expect_effective_and_clean(const Json& report, const std::string& id) {
    const Json& one = fault(report, id);
    EXPECT_TRUE(flag_at(one, "injected") && flag_at(one, "effective")) << one.dump(1);
    EXPECT_TRUE(flag_at(one, "clean")) << one.dump(1);
    EXPECT_FALSE(flag_at(one, "unsafe", true)) << one.dump(1);
  }
};

TEST_F(Kills, AReplicaComesBackAndTrainingSurvives) {
  const Ended ended = start_run({suite("killed"), "-o", "run"})->wait(kEnd);
  const Json seen = report("run");
  EXPECT_TRUE(ended.status == 0 || ended.status == 2) << ended.err;
  expect_effective_and_clean(seen, "replica/0");
  expect_effective_and_clean(seen, "rank/0");
  EXPECT_TRUE(ended.says("fault process_kill on llm[0]: clean (llm[0] is ready again)"))
      << ended.err;
  for (const Json& one : seen["checks"])
    if (text_at(one, "status") != "pass") {
      EXPECT_EQ(text_at(one, "reason"), "measurement_invalid") << one.dump(1);
    }
  for (const char* id : {"rank/lost", "rank/resumed", "rank/noticed"})
    EXPECT_TRUE(check(seen, id)["observed"].contains("value")) << check(seen, id).dump(1);
  const std::vector<Json> rows = recorded("run");
  const auto attempts = std::count_if(
      rows.begin(), rows.end(), [](const Json& row) { return text_at(row, "row") == "attempt"; });
  EXPECT_EQ(attempts, 1);
  EXPECT_EQ(breaks("report", "run/report.json"), "");
  const Ended again = run({"rejudge", "run"});
  EXPECT_EQ(again.status, ended.status);
  EXPECT_NE(again.out.find("identical: checks"), std::string::npos) << again.out << again.err;
}

TEST_F(Kills, ARankOfALoadThatDoesNotResumeEndsTheRunWithACleanFault) {
  std::ifstream file(suite("killed"));
  Json changed = Json::parse(file);
  changed["loads"]["trainer"].erase("on_loss");
  changed["limits"] = Json::array({changed["limits"][0]});
  write("killed.json", changed.dump(1));
  const Ended ended =
      start_run({"killed.json", "-o", "run", "--set", "phases.replica.measure_s=4"})->wait(kEnd);
  EXPECT_EQ(ended.status, 3) << ended.err;
  expect_effective_and_clean(report("run"), "rank/0");
  EXPECT_TRUE(ended.says("error trainer: ")) << "its end, or another rank that misses it\n"
                                             << ended.err;
}

// What the fault does not explain stays what it was.
TEST_F(Kills, AnotherDeathAtTheSameTimeIsStillAnError) {
  auto run = start_run({suite("killed"), "-o", "run"});
  ASSERT_TRUE(run->wait_for("process_kill on llm[0]: clean", kEnd)) << run->err();
  ASSERT_EQ(::kill(process_in(lab_of(*run), "edge-0", "haproxy"), SIGKILL), 0);
  const Ended ended = run->wait(kEnd);
  EXPECT_NE(ended.status, 0) << ended.err;
  EXPECT_EQ(text_at(check(report("run"), "replica/back"), "status"), "error") << ended.err;
  EXPECT_EQ(text_at(check(report("run"), "replica/back"), "reason"), "process_exit")
      << check(report("run"), "replica/back").dump(1);
}

}  // namespace
}  // namespace mixproof
