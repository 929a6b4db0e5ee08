#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "faults/fault.h"
#include "tests/faults/fake_host.h"

namespace mixproof {
namespace {

std::unique_ptr<Fault> process_kill() {
  for (const FaultSpec* spec : all_faults())
    if (spec->name == "process_kill") return spec->create();
  return nullptr;
}

FakeHost two_processes() {
  FakeHost host;
  host.processes[{400, 9}] = {{400, 'S', 0, 5}, {401, 'R', 0, 5}};
  host.processes[{500, 7}] = {{500, 'S', 0, 5}};
  return host;
}

TEST(ProcessKill, PlansOneStepForAllProcessesTheOldestFirst) {
  const auto plan = process_kill()->plan(two_processes(), {"llm[0]", {{400, 9}, {500, 7}}});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->effect, Effect::kOneShot);
  ASSERT_EQ(plan->steps.size(), 1u) << "all of them or none";
  EXPECT_EQ(plan->steps[0].when, When::kInject);
  EXPECT_EQ(plan->steps[0].lease, Lease::kNone);
  EXPECT_EQ(std::get<KillProcess>(plan->steps[0].operation).processes,
            (std::vector<ProcessId>{{500, 7}, {400, 9}}))
      << "a parent must not outlive its child, or it starts another one";
  EXPECT_EQ(plan->touches, (std::vector<std::string>{"process 500 (1 threads) of llm[0]",
                                                     "process 400 (2 threads) of llm[0]"}));
  EXPECT_NE(plan->residual_life.find("irreversible"), std::string::npos);
}

TEST(ProcessKill, ControlsLookAtTheVeryProcessesAndAtAllOthers) {
  const auto plan = process_kill()->plan(two_processes(), {"llm[0]", {{400, 9}}});
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->controls.size(), 2u);
  const Control& positive = plan->controls[0];
  EXPECT_TRUE(positive.positive);
  EXPECT_EQ(positive.metric, "process.gone_share");
  EXPECT_EQ(positive.low, 1) << "every one of them";
  EXPECT_EQ(positive.params, *parse_json(R"({"processes": [{"name": "llm[0]", "pid": 400,
                                             "start_ticks": 9}]})",
                                         "params"))
      << "under its name there may be a new one by then";
  EXPECT_FALSE(plan->controls[1].positive);
  EXPECT_EQ(plan->controls[1].of, "others");
  EXPECT_EQ(plan->controls[1].high, 0);
  EXPECT_TRUE(plan->controls[1].params.is_null());
}

TEST(ProcessKill, RefusesAnEmptyTarget) {
  const auto plan = process_kill()->plan(two_processes(), {"llm[0]", {}});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, Code::kInvalid);
}

TEST(ProcessKill, RefusesAProcessThatHasBeenReplaced) {
  const auto plan = process_kill()->plan(two_processes(), {"llm[0]", {{400, 9}, {500, 8}}});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, Code::kUnavailable);
}

TEST(KillProcessOperation, TravelsAsJson) {
  const HostOperation kill = KillProcess{{{500, 7}, {400, 9}}};
  const auto back = operation_from_json(operation_to_json(kill));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(std::get<KillProcess>(*back).processes, std::get<KillProcess>(kill).processes);
  EXPECT_EQ(describe(kill), "kill processes 500, 400 (SIGKILL)");
  EXPECT_EQ(describe(KillProcess{{{500, 7}}}), "kill process 500 (SIGKILL)");
}

TEST(KillProcessOperation, NeverMeansEveryProcessOrTheFirst) {
  for (const int pid : {-1, 0, 1}) {
    const auto read = operation_from_json(operation_to_json(KillProcess{{{500, 7}, {pid, 1}}}));
    ASSERT_FALSE(read.ok()) << pid;
    EXPECT_EQ(read.error().code, Code::kCorrupt);
  }
  EXPECT_FALSE(operation_from_json(operation_to_json(KillProcess{})).ok());
}

}  // namespace
}  // namespace mixproof
