#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "faults/fault.h"
#include "tests/faults/fake_host.h"

namespace mixproof {
namespace {

std::unique_ptr<Fault> process_pause() {
  for (const FaultSpec* spec : all_faults())
    if (spec->name == "process_pause") return spec->create();
  return nullptr;
}

FakeHost two_processes() {
  FakeHost host;
  host.processes[{400, 9}] = {{400, 'S', 0, 5}, {401, 'R', 0, 5}};
  host.processes[{500, 7}] = {{500, 'S', 0, 5}};
  return host;
}

TEST(ProcessPause, PlansOneKernelLeasedStepAProcess) {
  const auto plan = process_pause()->plan(two_processes(), {"llm[0]", {{400, 9}, {500, 7}}});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_EQ(plan->steps.size(), 2u);
  for (const Step& step : plan->steps) {
    EXPECT_EQ(step.when, When::kInject);
    EXPECT_EQ(step.lease, Lease::kKernel);
  }
  EXPECT_EQ(std::get<HoldStopped>(plan->steps[0].operation).process, (ProcessId{400, 9}));
  EXPECT_EQ(std::get<HoldStopped>(plan->steps[1].operation).process, (ProcessId{500, 7}));
  EXPECT_EQ(plan->touches, (std::vector<std::string>{"process 400 (2 threads) of llm[0]",
                                                     "process 500 (1 threads) of llm[0]"}));
  EXPECT_NE(plan->residual_life.find("none"), std::string::npos);
}

TEST(ProcessPause, ControlsWantTheTargetStoppedAndTheOthersMoving) {
  const auto plan = process_pause()->plan(two_processes(), {"llm[0]", {{400, 9}}});
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->controls.size(), 2u);
  EXPECT_TRUE(plan->controls[0].positive);
  EXPECT_EQ(plan->controls[0].of, "target");
  EXPECT_EQ(plan->controls[0].low, 1) << "every thread, all the time";
  EXPECT_FALSE(plan->controls[1].positive);
  EXPECT_EQ(plan->controls[1].of, "others");
  EXPECT_EQ(plan->controls[1].high, 0);
}

TEST(ProcessPause, RefusesAnEmptyTarget) {
  const auto plan = process_pause()->plan(two_processes(), {"llm[0]", {}});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, Code::kInvalid);
  EXPECT_NE(plan.error().message.find("llm[0]"), std::string::npos);
}

TEST(ProcessPause, RefusesAProcessThatHasBeenReplaced) {
  const auto plan = process_pause()->plan(two_processes(), {"llm[0]", {{400, 9}, {500, 8}}});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, Code::kUnavailable);
}

TEST(ProcessPause, RefusesAProcessThatSomeoneElseTraces) {
  FakeHost host = two_processes();
  host.processes[{400, 9}][1].tracer = 77;
  const auto plan = process_pause()->plan(host, {"llm[0]", {{400, 9}}});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, Code::kUnavailable);
  EXPECT_NE(plan.error().message.find("already traced by process 77"), std::string::npos);
}

}  // namespace
}  // namespace mixproof
