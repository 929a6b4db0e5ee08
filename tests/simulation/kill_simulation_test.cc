// Whole runs with a kill in them, over the simulated World.
#include "harness/agent/recover.h"
#include "tests/simulation/simulated_run.h"

namespace mixproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

using Words = std::vector<std::string>;

Plan kill_plan(const std::string& target = "llm[0]", const std::string& restart = "never") {
  Plan plan = stall_plan();
  plan.services[0].restart = restart;
  plan.services[0].ready_s = 5;
  FaultPlanEntry& fault = plan.phases[1].faults[0];
  fault.fault = "process_kill";
  fault.target = target;
  fault.for_s = 0;
  fault.parts = {{target == "llm[0]" ? "serve-0" : "train-1", {}}};
  return plan;
}

Plan rank_plan(const std::string& on_loss) {
  Plan plan = kill_plan("trainer[1]");
  plan.loads[1].on_loss = on_loss;
  return plan;
}

bool has(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string details(const SimulatedRun& world, const std::string& state) {
  std::string out;
  for (const Json& row : world.of("fault"))
    if (text_at(row, "state") == state) out += text_at(row, "detail");
  return out;
}

// How the journal of the fault reads on the node that it hits; empty when there is none.
std::string journal_of(SimulatedRun& world, const std::string& node) {
  const auto& files = world.simulation.node(node).files;
  const auto file = files.find(journal_path("/state", "run-1", kFault));
  if (file == files.end()) return "";
  const auto records = decode_journal(file->second, "journal");
  return records.ok() ? journal_state(*records).state : records.error().message;
}

const Words kGoodLife = {"planned", "injected", "effective", "reverting", "clean"};

TEST(KillSimulation, AKilledReplicaIsGoneAndTheFaultClean) {
  SimulatedRun world(1, kill_plan());
  world.to_the_end();
  EXPECT_FALSE(world.run->failure().has_value());
  EXPECT_EQ(world.fault_states(), kGoodLife);
  int unexpected = 0, refused = 0;
  for (const Json& row : world.of("exit"))
    if (!flag_at(row, "expected")) {
      ++unexpected;
      EXPECT_EQ(text_at(row, "what"), "llm[0]");
    }
  EXPECT_EQ(unexpected, 1);
  for (const Json& row : world.of("request"))
    refused += text_at(row, "outcome") == "CONNECT_ERROR" ? 1 : 0;
  EXPECT_NEAR(refused, 135, 3) << "every second request of the last 27 s";
  EXPECT_EQ(journal_of(world, "serve-0"), "clean");
  EXPECT_EQ(world.left_behind(), 0) << world.names_left();
}

TEST(KillSimulation, TheInjectedRowSaysSinceWhenItMayHaveTakenHold) {
  SimulatedRun world(1, kill_plan());
  world.to_the_end();
  std::int64_t died_at = 0;
  for (const Json& row : world.of("exit"))
    if (!flag_at(row, "expected")) died_at = integer_at(row, "at");
  for (const Json& row : world.of("fault"))
    if (text_at(row, "state") == "injected") {
      const std::int64_t began_at = integer_at(row.at("evidence"), "began_at");
      EXPECT_GT(began_at, 0);
      EXPECT_LE(began_at, died_at);
      EXPECT_LE(began_at, integer_at(row, "at"));
    }
}

TEST(KillSimulation, ARestartedReplicaIsCleanOnlyWhenItAnswersAgain) {
  SimulatedRun world(2, kill_plan("llm[0]", "always"));
  world.to_the_end();
  EXPECT_FALSE(world.run->failure().has_value());
  EXPECT_EQ(world.fault_states(), kGoodLife);
  EXPECT_NE(details(world, "clean").find("llm[0] is ready again"), std::string::npos);
  std::int64_t reverting = 0, clean = 0, restarted = 0;
  for (const Json& row : world.of("fault")) {
    if (text_at(row, "state") == "reverting") reverting = integer_at(row, "at");
    if (text_at(row, "state") == "clean") clean = integer_at(row, "at");
  }
  for (const Json& row : world.of("note"))
    if (text_at(row, "message") == "llm[0] was restarted") restarted = integer_at(row, "at");
  EXPECT_GT(restarted, reverting);
  EXPECT_GT(clean, restarted);
  int refused = 0;
  for (const Json& row : world.of("request"))
    refused += text_at(row, "outcome") == "CONNECT_ERROR" ? 1 : 0;
  EXPECT_GE(refused, 1);
  EXPECT_LE(refused, 5) << "it was away for half a second";
  EXPECT_EQ(world.left_behind(), 0) << world.names_left();
}

TEST(KillSimulation, AReplicaThatDoesNotComeBackIsDirty) {
  SimulatedRun world(3, kill_plan("llm[0]", "always"));
  ASSERT_TRUE(world.simulation.run_until([&] { return world.last_fault_state() == "planned"; },
                                         seconds(60)));
  world.simulation.node("serve-0").broken_services = true;
  world.to_the_end();
  EXPECT_EQ(world.last_fault_state(), "dirty");
  EXPECT_NE(details(world, "dirty").find("did not come back"), std::string::npos);
  EXPECT_TRUE(has(world.fault_states(), "effective"));
  const std::int64_t stop = integer_at(world.of("stop")[0], "at"),
                     end = integer_at(world.of("end")[0], "at");
  EXPECT_LT(end - stop, std::int64_t{5'000'000'000})
      << "a service between two starts is not waited for";
  EXPECT_EQ(world.left_behind(), 0) << world.names_left();
}

TEST(KillSimulation, ATargetThatDiedByItselfBeforeIsRefused) {
  SimulatedRun world(4, kill_plan());
  ASSERT_TRUE(world.simulation.run_until([&] { return world.last_fault_state() == "planned"; },
                                         seconds(60)));
  world.simulation.kill(world.simulation.find("llm", "serve-0")->pid());
  world.to_the_end();
  EXPECT_EQ(world.fault_states(), (Words{"planned", "refused"}));
}

TEST(KillSimulation, WithoutAPlanNothingIsKilled) {
  SimulatedRun world(5, kill_plan());
  ASSERT_TRUE(
      world.simulation.run_until([&] { return world.of("phase").size() == 2; }, seconds(60)));
  world.simulation.kill(world.simulation.find("llm", "serve-0")->pid());
  world.to_the_end();
  EXPECT_EQ(world.fault_states(), (Words{"refused"}));
}

// What is killed is not what the controls looked at before.
TEST(KillSimulation, ATargetThatWasReplacedMeanwhileIsNotEffective) {
  SimulatedRun world(6, kill_plan("llm[0]", "always"));
  ASSERT_TRUE(world.simulation.run_until([&] { return world.last_fault_state() == "planned"; },
                                         seconds(60)));
  world.simulation.run_until([] { return false; }, world.simulation.now() + milliseconds(400));
  world.simulation.kill(world.simulation.find("llm", "serve-0")->pid());
  world.to_the_end();
  EXPECT_EQ(world.fault_states(),
            (Words{"planned", "injected", "not_effective", "reverting", "clean"}));
  EXPECT_NE(details(world, "not_effective").find("was replaced between plan and injection"),
            std::string::npos)
      << details(world, "not_effective");
}

// A neighbour that dies with the target is collateral.
TEST(KillSimulation, ANeighbourThatDiesTooMakesItNotEffective) {
  SimulatedRun world(7, kill_plan());
  ASSERT_TRUE(world.simulation.run_until([&] { return world.last_fault_state() == "injected"; },
                                         seconds(60)));
  world.simulation.kill(world.simulation.find("llm", "serve-1")->pid());
  world.to_the_end();
  EXPECT_TRUE(has(world.fault_states(), "not_effective"));
  EXPECT_FALSE(has(world.fault_states(), "effective"));
  EXPECT_EQ(world.last_fault_state(), "clean");
}

TEST(KillSimulation, AKilledRankIsSurvivedAndItsSiblingsAreNoCollateral) {
  SimulatedRun world(8, rank_plan("resume"));
  world.to_the_end();
  EXPECT_FALSE(world.run->failure().has_value());
  EXPECT_EQ(world.fault_states(), kGoodLife) << details(world, "not_effective");
  ASSERT_EQ(world.of("attempt").size(), 1u);
  EXPECT_EQ(integer_at(world.of("attempt")[0], "attempt"), 1);
  for (const Json& row : world.of("exit"))
    if (!flag_at(row, "expected")) {
      EXPECT_EQ(text_at(row, "what"), "trainer[1]");
    }
  EXPECT_TRUE(flag_at(world.of("phase_end").back(), "complete"));
  EXPECT_EQ(world.left_behind(), 0) << world.names_left();
}

// The ranks of a load's second stretch are called trainer[0]#1 and trainer[1]#1.
TEST(KillSimulation, AKilledRankOfALaterStretchIsMeantByItsPlainName) {
  Plan plan = rank_plan("resume");
  PhasePlan alone{.name = "alone", .run = {"trainer"}, .settle_s = 1, .measure_s = 4};
  plan.phases.insert(plan.phases.begin(), alone);
  plan.phases[1].begin_s = 5;
  plan.phases[2].begin_s = 11;
  SimulatedRun world(9, plan);
  world.to_the_end();
  EXPECT_FALSE(world.run->failure().has_value());
  EXPECT_EQ(world.fault_states(), kGoodLife) << details(world, "not_effective");
  ASSERT_EQ(world.of("attempt").size(), 1u);
  EXPECT_EQ(integer_at(world.of("attempt")[0], "stretch"), 1);
  int killed = 0;
  for (const Json& row : world.of("exit"))
    killed += text_at(row, "what") == "trainer[1]#1" && !flag_at(row, "expected") ? 1 : 0;
  EXPECT_EQ(killed, 1);
}

TEST(KillSimulation, AKilledRankOfALoadThatDoesNotResumeEndsTheRunClean) {
  SimulatedRun world(10, rank_plan("error"));
  world.to_the_end();
  ASSERT_TRUE(world.run->failure().has_value());
  EXPECT_NE(world.run->failure()->message.find("trainer[1] ended by itself"), std::string::npos);
  EXPECT_EQ(world.fault_states(), (Words{"planned", "injected", "reverting", "effective", "clean"}))
      << "the run stops at once, and the proof is waited for all the same: "
      << details(world, "not_effective");
  EXPECT_EQ(world.left_behind(), 0) << world.names_left();
}

// At each write of the journal, its record written whole or not at all.
void die_at_every_write(const std::string& role, const std::string& restart, int* injected) {
  for (int write = 1; write <= 8; ++write)
    for (const bool whole : {true, false}) {
      SimulatedRun world(20, kill_plan("llm[0]", restart));
      int left = write;
      world.simulation.node("serve-0").kill_in_write =
          [&](const std::string& path, std::string_view bytes) -> std::optional<std::size_t> {
        if (path != journal_path("/state", "run-1", kFault) || --left != 0) return std::nullopt;
        if (role == "guard") return whole ? bytes.size() : 0;
        world.simulation.kill(role == "agent" ? world.simulation.find("agent", "serve-0")->pid()
                                              : world.controller->pid());
        return std::nullopt;
      };
      const std::string where = role + " at write " + std::to_string(write) + ", " + restart;
      ASSERT_TRUE(world.simulation.run_until(
          [&] { return world.run->done() || !world.controller->alive(); }, seconds(300)))
          << where;
      world.simulation.run_until([] { return false; }, world.simulation.now() + seconds(40));
      EXPECT_LE(left, 0) << where << ": its journal has fewer records";
      const std::string journal = journal_of(world, "serve-0");
      EXPECT_TRUE(journal == "clean" || journal == "planned" || journal.empty())
          << where << ": " << journal;
      EXPECT_EQ(world.left_behind(), 0) << where << ": " << world.names_left();
      if (role == "controller") continue;
      const Words states = world.fault_states();
      EXPECT_TRUE(states.back() == "clean" || states.back() == "refused" ||
                  states.back() == "not_injected")
          << where << ": " << states.back() << " " << details(world, states.back());
      EXPECT_TRUE(has(states, "injected") || !has(states, "effective")) << where;
      *injected += has(states, "injected") ? 1 : 0;
    }
}

TEST(KillSimulation, ItsGuardMayDieAtEveryStep) {
  for (const char* restart : {"never", "always"}) {
    int injected = 0;
    ASSERT_NO_FATAL_FAILURE(die_at_every_write("guard", restart, &injected));
    EXPECT_GT(injected, 0);
    EXPECT_LT(injected, 16);
  }
}

TEST(KillSimulation, ItsAgentMayDieAtEveryStep) {
  for (const char* restart : {"never", "always"}) {
    int injected = 0;
    ASSERT_NO_FATAL_FAILURE(die_at_every_write("agent", restart, &injected));
    EXPECT_LT(injected, 16);
  }
}

TEST(KillSimulation, ItsControllerMayDieAtEveryStep) {
  for (const char* restart : {"never", "always"}) {
    int injected = 0;
    ASSERT_NO_FATAL_FAILURE(die_at_every_write("controller", restart, &injected));
  }
}

// The proof that a kill took effect does not need the guard.
TEST(KillSimulation, AKillWhoseGuardDiedRightAfterIsStillProved) {
  SimulatedRun world(21, kill_plan());
  ASSERT_TRUE(world.simulation.run_until([&] { return world.last_fault_state() == "injected"; },
                                         seconds(60)));
  world.simulation.kill(world.simulation.find("guard", "serve-0")->pid());
  world.to_the_end();
  EXPECT_EQ(world.fault_states(),
            (Words{"planned", "injected", "guard_lost", "effective", "clean"}));
}

TEST(KillSimulation, AStopWhileItsEffectIsLookedAtEndsClean) {
  SimulatedRun world(22, kill_plan());
  ASSERT_TRUE(world.simulation.run_until([&] { return world.last_fault_state() == "injected"; },
                                         seconds(60)));
  world.run->stop("signal SIGTERM");
  world.to_the_end();
  EXPECT_EQ(world.last_fault_state(), "clean");
  EXPECT_TRUE(has(world.fault_states(), "effective"));
  EXPECT_EQ(world.left_behind(), 0);
}

TEST(KillSimulation, ControllerAgentGuardAndServicesMayDieAtAnyMoment) {
  for (std::uint64_t seed = 500; seed < 590; ++seed) {
    const int kind = static_cast<int>(seed % 3);
    SimulatedRun world(seed, kind == 0   ? kill_plan("llm[0]", "never")
                             : kind == 1 ? kill_plan("llm[0]", "always")
                                         : rank_plan("resume"));
    Random random(seed, "victims");
    // Half of the time close to the injection.
    ASSERT_TRUE(
        world.simulation.run_until([&] { return world.of("phase").size() == 2; }, seconds(60)));
    const Time when =
        world.simulation.now() + (random.below(2) == 0 ? milliseconds(random.below(20'000))
                                                       : milliseconds(2'900 + random.below(300)));
    const std::string node = kind == 2 ? "train-1" : "serve-0";
    const std::uint64_t whom = random.below(4);
    world.simulation.at(when, [&] {
      if (whom == 0) return world.simulation.kill(world.controller->pid());
      for (const char* program : {"agent", "guard", "llm"})
        if (program == std::string(whom == 1 ? "agent" : whom == 2 ? "guard" : "llm"))
          if (SimProcess* victim = world.simulation.find(program, node))
            world.simulation.kill(victim->pid());
    });
    ASSERT_TRUE(world.simulation.run_until(
        [&] { return world.run->done() || !world.controller->alive(); }, seconds(400)))
        << "seed " << seed;
    world.simulation.run_until([] { return false; }, world.simulation.now() + seconds(40));
    EXPECT_EQ(world.left_behind(), 0) << "seed " << seed << ": " << world.names_left();
    const std::string journal = journal_of(world, node);
    EXPECT_TRUE(journal == "clean" || journal == "planned" || journal.empty())
        << "seed " << seed << ": " << journal;
    if (!world.controller->alive()) continue;
    const std::string state = world.last_fault_state();
    EXPECT_TRUE(state == "clean" || state == "refused" || state == "not_injected")
        << "seed " << seed << ": " << state << " " << details(world, state);
  }
}

}  // namespace
}  // namespace mixproof
