#include "suites/schedule.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

TEST(Schedule, ALoadInConsecutivePhasesGoesOn) {
  const Schedule schedule = make_schedule(FakeRun{}.plan());
  ASSERT_EQ(schedule.loads.size(), 3u);
  EXPECT_EQ(schedule.loads[0].load, "users");  // baseline
  EXPECT_EQ(schedule.loads[0].end_s, 22);
  EXPECT_EQ(schedule.loads[1].load, "trainer");  // alone, contention, stall: one start
  EXPECT_EQ(schedule.loads[1].begin_s, 22);
  EXPECT_EQ(schedule.loads[1].end_s, 76);
  ASSERT_EQ(schedule.loads[1].phases.size(), 3u);
  EXPECT_EQ(schedule.loads[1].phases[0].end_s, schedule.loads[1].phases[1].begin_s);
  EXPECT_EQ(schedule.loads[2].load, "users");  // again after the gap
  EXPECT_EQ(schedule.loads[2].begin_s, 34);
}

TEST(Schedule, FaultsAndPhasesHaveTheirTimes) {
  const Schedule schedule = make_schedule(FakeRun{}.plan());
  ASSERT_EQ(schedule.faults.size(), 1u);
  EXPECT_EQ(schedule.faults[0].id, "stall/0");
  EXPECT_EQ(schedule.faults[0].inject_s, 60);
  EXPECT_EQ(schedule.faults[0].revert_s, 64);
  EXPECT_EQ(schedule.phases[0].settled_s, 2);
  EXPECT_EQ(schedule.length_s, 76);
}

TEST(Schedule, FaultsComeInTheOrderOfTheirTimes) {
  FakeRun run;
  run.suite["phases"][3]["faults"] = {
      {{"fault", "process_pause"}, {"target", "llm[0]"}, {"at_s", 9}, {"for_s", 1}},
      {{"fault", "process_pause"}, {"target", "llm[1]"}, {"at_s", 2}, {"for_s", 1}}};
  const Schedule schedule = make_schedule(run.plan());
  EXPECT_EQ(schedule.faults[0].id, "stall/1");
  EXPECT_EQ(schedule.faults[1].id, "stall/0");
}

}  // namespace
}  // namespace mixproof
