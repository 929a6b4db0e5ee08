// A partition of two ranks, over the simulated World: a guard on each side, one fault.
#include <gtest/gtest.h>

#include "suites/evidence.h"
#include "suites/fault_evidence.h"
#include "tests/simulation/simulated_run.h"

namespace mixproof {
namespace {

using std::chrono::seconds;

constexpr const char* kSides[] = {"train-0", "train-1"};

Plan cut_plan(double loss = 1) {
  Plan plan = stall_plan();
  FaultPlanEntry& cut = plan.phases[1].faults[0];
  cut.fault = "net_drop";
  cut.target = kSides[0];
  cut.peers = {kSides[1]};
  cut.params = {{"loss", loss}};
  cut.parts = {{kSides[0], {kSides[1]}}, {kSides[1], {kSides[0]}}};
  return plan;
}

class CutRun : public SimulatedRun {
 public:
  explicit CutRun(std::uint64_t seed, const Plan& plan = cut_plan())
      : SimulatedRun(seed, plan), plan_(plan) {}

  std::vector<std::string> states_on(const std::string& node) const {
    std::vector<std::string> out;
    for (const Json& row : of("fault"))
      if (text_at(row, "node") == node) out.push_back(text_at(row, "state"));
    return out;
  }
  bool has(const std::string& node, const std::string& state) const {
    const auto states = states_on(node);
    return std::find(states.begin(), states.end(), state) != states.end();
  }
  bool until_on_both(const std::string& state) {
    return simulation.run_until([&] { return has(kSides[0], state) && has(kSides[1], state); },
                                seconds(60));
  }
  int tables() {
    int out = 0;
    for (const char* node : kNodes) out += static_cast<int>(simulation.node(node).drops.size());
    return out;
  }
  // What the judge makes of it.
  FaultFacts facts() const {
    const Evidence evidence = read_evidence(plan_, rows);
    return fault_facts({plan_, evidence}, plan_.phases[1], plan_.phases[1].faults[0]);
  }

 private:
  Plan plan_;
};

const std::vector<std::string> kGoodLife = {"planned", "injected", "effective", "reverting",
                                            "clean"};

TEST(NetDropSimulation, BothSidesAreInjectedEffectiveAndClean) {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    CutRun world(seed);
    world.to_the_end();
    EXPECT_FALSE(world.run->failure().has_value());
    for (const char* node : kSides) EXPECT_EQ(world.states_on(node), kGoodLife) << node;
    EXPECT_EQ(world.tables(), 0);
    const FaultFacts facts = world.facts();
    EXPECT_EQ(facts.not_effective, "");
    EXPECT_TRUE(facts.clean);
    EXPECT_FALSE(facts.unsafe());
  }
}

TEST(NetDropSimulation, ALossLiesInItsRangeToo) {
  CutRun world(6, cut_plan(0.5));
  world.to_the_end();
  EXPECT_EQ(world.facts().not_effective, "");
  EXPECT_TRUE(world.facts().clean);
}

TEST(NetDropSimulation, APartWhoseNodeIsLostIsCleanOnlyByANewAgent) {
  CutRun world(7);
  ASSERT_TRUE(world.until_on_both("effective"));
  world.simulation.kill(world.simulation.find("agent", kSides[1])->pid());
  world.to_the_end();
  EXPECT_TRUE(world.has(kSides[0], "clean"));
  EXPECT_TRUE(world.has(kSides[1], "clean"));
  EXPECT_EQ(world.tables(), 0);
  EXPECT_FALSE(world.facts().unsafe());
}

TEST(NetDropSimulation, ALostPartThatNobodyCanAskIsDirty) {
  CutRun world(8);
  ASSERT_TRUE(world.until_on_both("effective"));
  world.simulation.node(kSides[1]).cut = true;
  world.to_the_end();
  EXPECT_TRUE(world.has(kSides[0], "clean")) << "its own side is undone, once the lease of the "
                                                "other one is over";
  EXPECT_TRUE(world.has(kSides[1], "dirty"));
  EXPECT_TRUE(world.facts().unsafe());
}

TEST(NetDropSimulation, ARefusedPartMakesTheWholeNotEffective) {
  CutRun world(9);
  ASSERT_TRUE(world.until_on_both("planned"));
  world.simulation.node(kSides[1]).disk_full = true;  // no journal, no injection
  world.to_the_end();
  EXPECT_FALSE(world.has(kSides[1], "injected"));
  EXPECT_NE(world.facts().not_effective, "");
  EXPECT_EQ(world.tables(), 0);
  EXPECT_FALSE(world.facts().unsafe());
}

TEST(NetDropSimulation, ARuleThatNoPacketMeetsIsNotEffective) {
  CutRun world(10);
  for (const char* node : kSides) world.simulation.node(node).rules_are_shadowed = true;
  world.to_the_end();
  for (const char* node : kSides) {
    EXPECT_TRUE(world.has(node, "not_effective")) << node;
    EXPECT_FALSE(world.has(node, "effective")) << node;
    EXPECT_EQ(world.states_on(node).back(), "clean") << node;
  }
  EXPECT_NE(world.facts().not_effective, "");
}

TEST(NetDropSimulation, APeerThatCannotBeReachedAnywayIsNotEffective) {
  CutRun world(11);
  ASSERT_TRUE(world.simulation.run_until([&] { return !world.of("phase").empty(); }, seconds(60)));
  SimNode& node = world.simulation.node(kSides[0]);
  DropPackets foreign{.net_namespace = 1,
                      .table = "filter",
                      .from = {world.simulation.node(kSides[1]).address},
                      .share = 1};
  node.drops["filter"] = {foreign, world.simulation.find("agent", kSides[0])->pid(), seconds(9999)};
  world.to_the_end();
  EXPECT_TRUE(world.has(kSides[0], "not_effective"));
  EXPECT_NE(world.facts().not_effective, "");
}

// The side that ends first still hears nothing from the other one.
TEST(NetDropSimulation, TheSideThatEndsFirstWaitsForTheOther) {
  Plan plan = cut_plan();
  CutRun world(12, plan);
  ASSERT_TRUE(world.until_on_both("effective"));
  world.simulation.kill(world.simulation.find("guard", kSides[0])->pid());
  world.to_the_end();
  for (const char* node : kSides) EXPECT_EQ(world.states_on(node).back(), "clean") << node;
  EXPECT_TRUE(world.has(kSides[0], "guard_lost"));
}

TEST(NetDropSimulation, AnUndoThatFailsIsDirty) {
  CutRun world(13);
  ASSERT_TRUE(world.until_on_both("effective"));
  world.simulation.node(kSides[0]).undo_fails = true;
  world.to_the_end();
  EXPECT_EQ(world.states_on(kSides[0]).back(), "dirty");
  EXPECT_TRUE(world.facts().unsafe());
}

}  // namespace
}  // namespace mixproof
