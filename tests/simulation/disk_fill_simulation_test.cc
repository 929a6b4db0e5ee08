// Whole simulated runs around a disk that is filled.
#include "harness/agent/journal.h"
#include "tests/simulation/simulated_run.h"

namespace mixproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kNode = "train-0";

Plan fill_plan() {
  Plan plan = stall_plan();
  FaultPlanEntry& fault = plan.phases[1].faults[0];
  fault.fault = "disk_fill";
  fault.target = kNode;
  fault.parts = {{kNode, {}}};
  return plan;
}

class FillRun : public SimulatedRun {
 public:
  explicit FillRun(std::uint64_t seed, Plan plan = fill_plan())
      : SimulatedRun(seed, std::move(plan)) {}
  SimNode& node() { return simulation.node(kNode); }
  std::int64_t free() { return simulation.shared_free(node()); }
  std::int64_t free_without_us() { return kSimSharedBytes - node().shared_used; }
  void until_full() {
    ASSERT_TRUE(
        simulation.run_until([this] { return last_fault_state() == "effective"; }, seconds(60)));
    ASSERT_EQ(free(), 0);
  }
  bool ever(const std::string& state) const {
    const auto states = fault_states();
    return std::find(states.begin(), states.end(), state) != states.end();
  }
};

TEST(DiskFillSimulation, FillsIsSeenAndGivesBack) {
  FillRun world(1);
  world.to_the_end();
  EXPECT_FALSE(world.run->failure().has_value());
  EXPECT_EQ(world.fault_states(),
            (std::vector<std::string>{"planned", "injected", "effective", "reverting", "clean"}));
  for (const Json& row : world.of("fault"))
    if (text_at(row, "state") == "reverting") {
      EXPECT_EQ(row["evidence"]["counted"],
                Json::array({{{"bytes", kSimSharedBytes - world.node().shared_used}}}));
    }
  EXPECT_EQ(world.free(), world.free_without_us());
  EXPECT_EQ(world.left_behind(), 0);
}

TEST(DiskFillSimulation, WhatOthersFreeMeanwhileIsTakenToo) {
  FillRun world(2);
  world.until_full();
  world.node().shared_used -= 4096;
  const Time freed = world.simulation.now();
  EXPECT_TRUE(
      world.simulation.run_until([&] { return world.free() == 0; }, freed + 2 * Time(kTendEvery)));
  world.to_the_end();
  EXPECT_EQ(world.last_fault_state(), "clean");
}

TEST(DiskFillSimulation, ADiskThatWasFullBeforeIsNoProofOfAnything) {
  FillRun world(3);
  world.node().shared_used = kSimSharedBytes;
  world.to_the_end();
  EXPECT_TRUE(world.ever("not_effective"));
  EXPECT_FALSE(world.ever("effective"));
  EXPECT_EQ(world.last_fault_state(), "clean");
}

TEST(DiskFillSimulation, AnUndoThatFailsOrOnlySaysSoIsDirty) {
  for (const bool lies : {false, true}) {
    FillRun world(4);
    world.until_full();
    (lies ? world.node().undo_lies : world.node().undo_fails) = true;
    world.to_the_end();
    EXPECT_EQ(world.last_fault_state(), "dirty") << lies;
  }
}

TEST(DiskFillSimulation, ADeadGuardsSpaceIsBackAtOnceAndItsLossIsNoticed) {
  FillRun world(5);
  world.until_full();
  world.simulation.kill(world.simulation.find("guard", kNode)->pid());
  EXPECT_EQ(world.free(), world.free_without_us());
  world.to_the_end();
  EXPECT_TRUE(world.ever("guard_lost"));
  EXPECT_EQ(world.last_fault_state(), "clean");
}

TEST(DiskFillSimulation, ALostAgentIsReplacedByOneThatProvesTheSpaceIsBack) {
  FillRun world(6);
  world.until_full();
  world.simulation.kill(world.simulation.find("agent", kNode)->pid());
  EXPECT_EQ(world.free(), 0) << "its guard holds it until the lease ends";
  world.to_the_end();
  EXPECT_EQ(world.last_fault_state(), "clean");
  EXPECT_EQ(world.free(), world.free_without_us());
}

// The guard dies in the middle of each record of its journal in turn, some bytes of it written.
TEST(DiskFillSimulation, AGuardMayDieInEveryRecordOfItsJournal) {
  int died = 0;
  for (int record = 0; record < 9; ++record)
    for (const std::size_t written : {std::size_t{0}, std::size_t{11}, std::size_t{100'000}}) {
      FillRun world(7);
      int count = 0;
      world.node().kill_in_write = [&](const std::string& path,
                                       std::string_view bytes) -> std::optional<std::size_t> {
        if (path != journal_path("/state", "run-1", kFault) || count++ != record)
          return std::nullopt;
        ++died;
        return std::min(written, bytes.size());
      };
      world.to_the_end();
      EXPECT_EQ(world.free(), world.free_without_us()) << record << " " << written;
      const std::string last = world.last_fault_state();
      EXPECT_TRUE(last == "clean" || last == "not_injected" || last == "refused")
          << record << " " << written << ": " << last;
      EXPECT_EQ(world.left_behind(), 0) << world.names_left();
    }
  EXPECT_GE(died, 24) << "plan, lease, preimage, begin, done, undo_begin, undo_done, clean";
}

TEST(DiskFillSimulation, AnythingMayDieAtAnyMoment) {
  int begun = 0;
  for (std::uint64_t seed = 400; seed < 460; ++seed) {
    FillRun world(seed);
    Random random(seed, "victims");
    const Time when = milliseconds(7'000 + random.below(8'000));
    const std::string node = random.below(2) == 0 ? kNode : kNodes[random.below(5)];
    const bool whole_controller = random.below(5) == 0;
    world.simulation.at(when, [&] {
      const auto processes = world.simulation.living(node);
      if (whole_controller) return world.simulation.kill(world.controller->pid());
      if (!processes.empty())
        world.simulation.kill(processes[random.below(processes.size())]->pid());
    });
    ASSERT_TRUE(world.simulation.run_until(
        [&] { return world.run->done() || !world.controller->alive(); }, seconds(400)))
        << "seed " << seed;
    world.simulation.run_until([] { return false; }, world.simulation.now() + seconds(40));
    EXPECT_EQ(world.free(), world.free_without_us()) << "seed " << seed;
    EXPECT_EQ(world.left_behind(), 0) << "seed " << seed << ": " << world.names_left();
    if (world.controller->alive() && world.ever("injected")) {
      ++begun;
      EXPECT_EQ(world.last_fault_state(), "clean") << "seed " << seed;
    }
  }
  EXPECT_GT(begun, 20) << "else this shows little";
}

}  // namespace
}  // namespace mixproof
