// Whole runs over the simulated World: no sleeping, one seed each.
#include "harness/agent/recover.h"
#include "tests/simulation/simulated_run.h"

namespace mixproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::vector<std::string> kGoodLife = {"planned", "injected", "effective", "reverting", "clean"};

TEST(RunSimulation, GoesThroughItsPhasesAndLeavesNothing) {
  SimulatedRun world(1);
  world.to_the_end();
  EXPECT_FALSE(world.run->failure().has_value());
  EXPECT_EQ(world.fault_states(), kGoodLife);
  ASSERT_EQ(world.of("phase").size(), 2u);
  EXPECT_EQ(text_at(world.of("phase_end")[1], "name"), "stall");
  EXPECT_TRUE(flag_at(world.of("phase_end")[1], "complete"));
  EXPECT_NEAR(static_cast<double>(world.of("request").size()), 360, 2);
  EXPECT_EQ(text_at(world.of("stop")[0], "why"), "end");
  EXPECT_EQ(text_at(world.rows.back(), "row"), "end");
  EXPECT_EQ(world.left_behind(), 0);
}

TEST(RunSimulation, StalledRequestsAreSeenByTheUsers) {
  SimulatedRun world(2);
  world.to_the_end();
  std::int64_t longest = 0;
  for (const Json& row : world.of("request"))
    longest = std::max(longest, integer_at(row, "first") - integer_at(row, "sched"));
  EXPECT_GT(longest, std::int64_t{3'500'000'000});
}

TEST(RunSimulation, TheSameSeedGivesTheSameRows) {
  SimulatedRun one(3), two(3), other(4);
  one.to_the_end();
  two.to_the_end();
  other.to_the_end();
  EXPECT_EQ(one.rows, two.rows);
  EXPECT_NE(one.rows, other.rows);
}

TEST(RunSimulation, ClocksOfNodesAreMappedWithinTheirUncertainty) {
  SimulatedRun world(5);
  world.to_the_end();
  for (const Json& row : world.of("clock")) {
    const std::int64_t truth = (world.simulation.node("controller").mono_offset -
                                world.simulation.node(text_at(row, "node")).mono_offset)
                                   .count();
    EXPECT_LE(std::abs(integer_at(row, "offset_ns") - truth), integer_at(row, "uncertainty_ns"));
  }
  EXPECT_GE(world.of("clock").size(), 5u);
}

TEST(RunSimulation, ALostAgentEndsTheRunByItselfAndIsNamed) {
  SimulatedRun world(6);
  ASSERT_TRUE(world.simulation.run_until([&] { return !world.of("phase").empty(); }, seconds(60)));
  world.simulation.kill(world.simulation.find("agent", "train-1")->pid());
  world.to_the_end();
  ASSERT_EQ(world.of("lost").size(), 1u);
  EXPECT_EQ(text_at(world.of("lost")[0], "node"), "train-1");
  ASSERT_TRUE(world.run->failure().has_value());
  EXPECT_NE(world.run->failure()->message.find("train-1"), std::string::npos);
  EXPECT_EQ(world.left_behind(), 0);
}

TEST(RunSimulation, AnAgentThatNeverAnswersIsNamed) {
  SimulatedRun world(7);
  world.simulation.node("serve-1").cut = true;
  world.to_the_end();
  ASSERT_TRUE(world.run->failure().has_value());
  EXPECT_NE(world.run->failure()->message.find("serve-1"), std::string::npos);
  EXPECT_FALSE(world.run->began());
}

TEST(RunSimulation, ALostAgentInMidFaultIsProvedCleanByANewOne) {
  SimulatedRun world(8);
  world.until_paused();
  world.simulation.kill(world.simulation.find("agent", "serve-0")->pid());
  EXPECT_TRUE(world.simulation.find("guard", "serve-0") != nullptr) << "a guard outlives its agent";
  world.to_the_end();
  EXPECT_EQ(world.last_fault_state(), "clean");
  EXPECT_FALSE(world.paused());
  EXPECT_EQ(text_at(world.of("lost")[0], "node"), "serve-0");
}

TEST(RunSimulation, ALostAgentWithAJournalThatCannotBeReadIsNeverClean) {
  SimulatedRun world(8);
  world.until_paused();
  world.simulation.kill(world.simulation.find("agent", "serve-0")->pid());
  std::string& journal =
      world.simulation.node("serve-0").files[journal_path("/state", "run-1", kFault)];
  journal[9] = static_cast<char>(journal[9] ^ 1);
  world.to_the_end();
  EXPECT_EQ(world.last_fault_state(), "dirty") << "nobody can tell what became of it";
}

TEST(RunSimulation, AGuardThatOnlyPlannedBeforeAllDiedInjectedNothing) {
  SimulatedRun world(8);
  ASSERT_TRUE(world.simulation.run_until([&] { return world.last_fault_state() == "planned"; },
                                         seconds(60)));
  SimNode& node = world.simulation.node("serve-0");
  node.kill_in_write = [&](const std::string& path,
                           std::string_view bytes) -> std::optional<std::size_t> {
    if (path != journal_path("/state", "run-1", kFault)) return std::nullopt;
    world.simulation.kill(world.simulation.find("agent", "serve-0")->pid());
    return bytes.size();
  };
  world.to_the_end();
  EXPECT_EQ(world.last_fault_state(), "not_injected");
  EXPECT_FALSE(world.paused());
}

TEST(RunSimulation, ACutLineInMidFaultEndsUnprovenNeverClean) {
  SimulatedRun world(9);
  world.until_paused();
  world.simulation.node("serve-0").cut = true;
  world.to_the_end();
  EXPECT_EQ(world.last_fault_state(), "dirty") << "nobody could ask the node";
  EXPECT_FALSE(world.paused()) << "its lease has ended all the same";
}

TEST(RunSimulation, ADeadGuardLetsGoAndIsNoticed) {
  SimulatedRun world(10);
  world.until_paused();
  world.simulation.kill(world.simulation.find("guard", "serve-0")->pid());
  EXPECT_FALSE(world.paused()) << "the kernel lets go at once";
  world.to_the_end();
  const auto states = world.fault_states();
  EXPECT_NE(std::find(states.begin(), states.end(), "guard_lost"), states.end());
  EXPECT_EQ(world.last_fault_state(), "clean");
}

TEST(RunSimulation, WithoutControllerTheFaultEndsAtOnceThroughItsAgent) {
  SimulatedRun world(11);
  world.until_paused();
  world.simulation.kill(world.controller->pid());
  world.until_free(seconds(1));
  world.simulation.run_until([] { return false; }, world.simulation.now() + seconds(20));
  EXPECT_EQ(world.left_behind(), 0) << "agents end everything they started";
}

TEST(RunSimulation, WithoutControllerAndAgentTheLeaseEndsIt) {
  SimulatedRun world(12);
  world.until_paused();
  world.simulation.kill(world.controller->pid());
  world.simulation.kill(world.simulation.find("agent", "serve-0")->pid());
  const Time killed = world.simulation.now();
  // The engine died with its agent; what must end by itself is the guard, with its lease.
  ASSERT_TRUE(world.simulation.run_until(
      [&] { return world.simulation.find("guard", "serve-0") == nullptr; }, killed + seconds(16)));
  SimNode& node = world.simulation.node("serve-0");
  const auto journal =
      decode_journal(node.files[journal_path("/state", "run-1", kFault)], "journal");
  ASSERT_TRUE(journal.ok());
  EXPECT_EQ(journal_state(*journal).state, "clean");
}

TEST(RunSimulation, ALeaseThatIsNotRenewedEndsTheFaultEarly) {
  Plan plan = stall_plan();
  plan.lease_s = 2;
  plan.renew_s = 30;  // longer than the fault: nothing renews
  SimulatedRun world(13, plan);
  world.until_paused();
  const Time begin = world.simulation.now();
  world.until_free(seconds(3));
  EXPECT_LT(world.simulation.now() - begin, milliseconds(2100));
  world.to_the_end();
  EXPECT_EQ(world.last_fault_state(), "clean");
}

TEST(RunSimulation, AnUndoThatFailsIsDirty) {
  SimulatedRun world(14);
  world.until_paused();
  world.simulation.node("serve-0").undo_fails = true;
  world.to_the_end();
  EXPECT_EQ(world.last_fault_state(), "dirty");
}

TEST(RunSimulation, AStopRevertsFirst) {
  SimulatedRun world(15);
  world.until_paused();
  world.run->stop("signal SIGTERM");
  world.run->stop("signal SIGTERM");  // a second one only says what is still going on
  world.to_the_end();
  EXPECT_EQ(world.last_fault_state(), "clean");
  EXPECT_EQ(text_at(world.of("stop")[0], "why"), "signal SIGTERM");
  EXPECT_FALSE(flag_at(world.of("phase_end").back(), "complete"));
  EXPECT_FALSE(world.paused());
  EXPECT_EQ(world.left_behind(), 0);
}

// Collateral could hide where nobody looked: a control that one node does not answer proves
// nothing.
TEST(RunSimulation, AControlThatIsNotSeenOnOneNodeMakesTheFaultNotEffective) {
  SimulatedRun world(19);
  ASSERT_TRUE(world.simulation.run_until([&] { return world.last_fault_state() == "injected"; },
                                         seconds(60)));
  world.simulation.kill(world.simulation.find("llm", "serve-1")->pid());
  world.to_the_end();
  const auto states = world.fault_states();
  EXPECT_EQ(std::find(states.begin(), states.end(), "effective"), states.end());
  EXPECT_NE(std::find(states.begin(), states.end(), "not_effective"), states.end());
  EXPECT_EQ(world.last_fault_state(), "clean");
}

TEST(RunSimulation, AFaultOnAProcessThatStandsStillAlreadyIsNotEffective) {
  SimulatedRun world(16);
  ASSERT_TRUE(world.simulation.run_until([&] { return world.last_fault_state() == "planned"; },
                                         seconds(60)));
  // Another tracer has the engine from before the first look on.
  SimProcess& foreign = world.simulation.start_root("serve-0", "debugger");
  const Operators hold = sim_operators(foreign);
  const HostOperation operation = HoldStopped{world.simulation.find("llm", "serve-0")->self()};
  ASSERT_TRUE(hold(operation).apply(operation, std::chrono::seconds(15)).ok());
  world.to_the_end();
  const auto states = world.fault_states();
  EXPECT_EQ(std::find(states.begin(), states.end(), "effective"), states.end());
}

TEST(RunSimulation, WithoutAJournalNothingIsInjected) {
  SimulatedRun world(17);
  ASSERT_TRUE(world.simulation.run_until([&] { return world.last_fault_state() == "planned"; },
                                         seconds(60)));
  world.simulation.node("serve-0").disk_full = true;
  world.to_the_end();
  const auto states = world.fault_states();
  EXPECT_EQ(states.back(), "refused");
  EXPECT_EQ(std::find(states.begin(), states.end(), "injected"), states.end());
}

TEST(RunSimulation, AFullDiskUnderTheRecordingStopsTheRunAndReverts) {
  SimulatedRun world(18);
  world.until_paused();
  world.simulation.node("controller").disk_full = true;
  world.to_the_end();
  ASSERT_TRUE(world.run->failure().has_value());
  EXPECT_NE(world.run->failure()->message.find("No space left"), std::string::npos);
  EXPECT_EQ(world.last_fault_state(), "clean");
  EXPECT_FALSE(world.paused());
}

Plan resuming_plan() {
  Plan plan = stall_plan();
  plan.loads[1].on_loss = "resume";
  return plan;
}

void kill_worker(SimulatedRun& world, const std::string& node) {
  SimProcess* worker = world.simulation.find("worker", node);
  ASSERT_NE(worker, nullptr) << node;
  world.simulation.kill(worker->pid());
}

void until_attempt(SimulatedRun& world, std::int64_t attempt) {
  ASSERT_TRUE(world.simulation.run_until(
      [&] {
        const auto steps = world.of("step");
        return !steps.empty() && integer_at(steps.back(), "attempt") >= attempt;
      },
      seconds(100)));
}

TEST(RunSimulation, ALostRankIsSurvivedByALoadThatResumes) {
  SimulatedRun world(19, resuming_plan());
  world.until_paused();
  kill_worker(world, "train-1");
  world.to_the_end();
  EXPECT_FALSE(world.run->failure().has_value());
  EXPECT_EQ(text_at(world.of("stop")[0], "why"), "end");
  ASSERT_EQ(world.of("attempt").size(), 1u);
  const Json attempt = world.of("attempt")[0];
  EXPECT_EQ(text_at(attempt, "what"), "trainer");
  EXPECT_EQ(integer_at(attempt, "attempt"), 1);
  EXPECT_NE(text_at(attempt, "why").find("trainer[1]"), std::string::npos);
  int unexpected = 0;
  for (const Json& row : world.of("exit")) unexpected += flag_at(row, "expected") ? 0 : 1;
  EXPECT_EQ(unexpected, 1) << "the killed rank; the others were stopped";

  // Both ranks go on where the checkpoint says, and to the end of their phase.
  std::map<std::int64_t, std::vector<std::int64_t>> resumed, before;
  for (const Json& row : world.of("step"))
    (integer_at(row, "attempt") == 1 ? resumed : before)[integer_at(row, "rank")].push_back(
        integer_at(row, "step"));
  ASSERT_EQ(resumed.size(), 2u);
  for (const auto& [rank, steps] : resumed) {
    EXPECT_EQ(steps.front(), (before[0].back() + 1) / 10 * 10) << rank;
    EXPECT_GT(steps.size(), 400u) << "about 23 s of 50 ms steps";
  }
  for (const Json& row : world.of("resume")) EXPECT_EQ(integer_at(row, "attempt"), 1);
  EXPECT_TRUE(flag_at(world.of("phase_end").back(), "complete"));
  EXPECT_EQ(world.last_fault_state(), "clean");
  EXPECT_EQ(world.left_behind(), 0);
}

TEST(RunSimulation, ALostRankEndsTheRunOfALoadThatDoesNotResume) {
  SimulatedRun world(19);
  world.until_paused();
  kill_worker(world, "train-1");
  world.to_the_end();
  ASSERT_TRUE(world.run->failure().has_value());
  EXPECT_NE(world.run->failure()->message.find("trainer[1] ended by itself"), std::string::npos);
  EXPECT_TRUE(world.of("attempt").empty());
  EXPECT_EQ(world.last_fault_state(), "clean");
}

TEST(RunSimulation, ALoadResumesFiveTimesAndNoMore) {
  SimulatedRun world(20, resuming_plan());
  for (int attempt = 0; attempt <= 5; ++attempt) {
    until_attempt(world, attempt);
    EXPECT_FALSE(world.run->failure().has_value()) << attempt;
    kill_worker(world, attempt % 2 == 0 ? "train-0" : "train-1");
  }
  world.to_the_end();
  EXPECT_TRUE(world.run->failure().has_value());
  EXPECT_EQ(world.of("attempt").size(), 5u);
  EXPECT_EQ(world.left_behind(), 0);
}

TEST(RunSimulation, AnAttemptThatIsNeverReadyEndsTheRunAndIsNamed) {
  Plan plan = resuming_plan();
  plan.phases[1].measure_s = 60;
  SimulatedRun world(21, plan);
  until_attempt(world, 0);
  world.simulation.node("train-0").silent_workers = true;
  kill_worker(world, "train-1");
  world.to_the_end();
  ASSERT_TRUE(world.run->failure().has_value());
  EXPECT_EQ(world.run->failure()->code, Code::kTimeout);
  EXPECT_NE(world.run->failure()->message.find("trainer[0] on train-0"), std::string::npos)
      << world.run->failure()->message;
  EXPECT_EQ(world.left_behind(), 0);
}

TEST(RunSimulation, ALostNodeEndsTheRunOfALoadThatResumes) {
  SimulatedRun world(22, resuming_plan());
  until_attempt(world, 0);
  world.simulation.kill(world.simulation.find("agent", "train-1")->pid());
  world.to_the_end();
  ASSERT_TRUE(world.run->failure().has_value());
  EXPECT_NE(world.run->failure()->message.find("node train-1 is lost"), std::string::npos);
}

// Ranks die at any moment, also while they begin again: the run completes its phases, and no two
// attempts ever overlap.
TEST(RunSimulation, RanksOfALoadThatResumesMayDieAtAnyMoment) {
  for (std::uint64_t seed = 300; seed < 360; ++seed) {
    SimulatedRun world(seed, resuming_plan());
    Random random(seed, "victims");
    ASSERT_TRUE(
        world.simulation.run_until([&] { return world.of("step").size() > 10; }, seconds(60)));
    Time when = world.simulation.now();
    for (int i = 0; i < 3; ++i) {
      when += milliseconds(random.below(i == 1 ? 1'000 : 6'000));
      const std::string node = random.below(2) == 0 ? "train-0" : "train-1";
      world.simulation.at(when, [&world, node] {
        if (SimProcess* worker = world.simulation.find("worker", node))
          world.simulation.kill(worker->pid());
      });
    }
    world.to_the_end();
    EXPECT_FALSE(world.run->failure().has_value())
        << "seed " << seed << ": " << world.run->failure()->message;
    EXPECT_GE(world.of("attempt").size(), 1u) << seed;
    EXPECT_EQ(world.left_behind(), 0) << "seed " << seed << ": " << world.names_left();
    std::int64_t attempt = 0;
    for (const Json& row : world.of("step")) {
      EXPECT_GE(integer_at(row, "attempt"), attempt)
          << "seed " << seed << ": a step of an attempt that had ended";
      attempt = std::max(attempt, integer_at(row, "attempt"));
    }
  }
}

// Kill anything at any time: the run ends, nothing stays paused, and an unproven end never reads
// clean.
TEST(RunSimulation, AnythingMayDieAtAnyMoment) {
  for (std::uint64_t seed = 100; seed < 220; ++seed) {
    SimulatedRun world(seed);
    Random random(seed, "victims");
    const Time when = milliseconds(random.below(40'000));
    const std::string node = kNodes[random.below(5)];
    const bool whole_controller = random.below(5) == 0;
    world.simulation.at(when, [&] {
      const auto processes = world.simulation.living(node);
      if (whole_controller) return world.simulation.kill(world.controller->pid());
      if (!processes.empty())
        world.simulation.kill(processes[random.below(processes.size())]->pid());
    });
    const bool ended = world.simulation.run_until(
        [&] { return world.run->done() || !world.controller->alive(); }, seconds(400));
    ASSERT_TRUE(ended) << "seed " << seed;
    world.simulation.run_until([] { return false; }, world.simulation.now() + seconds(40));
    EXPECT_FALSE(world.paused()) << "seed " << seed;
    EXPECT_EQ(world.left_behind(), 0) << "seed " << seed << ": " << world.names_left();
    if (world.controller->alive()) {
      EXPECT_EQ(text_at(world.rows.back(), "row"), "end") << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace mixproof
