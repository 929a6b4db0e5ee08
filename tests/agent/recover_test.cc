#include "harness/agent/recover.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tests/agent/simulated_node.h"

namespace mixproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::string kRevert = R"({"do":"revert"})";

// A pause from order to revert, its guard killed in its n-th write to the journal, of which so much
// reaches the disk. False when the guard never came to that write.
bool killed_in_write(SimulatedNode& world, int n, double share) {
  int left = n;
  bool killed = false;
  world.node.kill_in_write = [&](const std::string& path,
                                 std::string_view bytes) -> std::optional<std::size_t> {
    if (path != world.journal_file() || --left > 0) return std::nullopt;
    killed = true;
    return static_cast<std::size_t>(share * static_cast<double>(bytes.size()));
  };
  Child& guard = world.start_guard(world.order());
  world.pass(seconds(1));
  static_cast<void>(guard.send(kRevert));
  world.pass(seconds(1));
  world.node.kill_in_write = nullptr;
  return killed;
}

// Each boundary of the journal, the last record lost, torn or whole; for holds that the kernel ends
// and for those that stay until someone undoes them.
TEST(Recover, EndsCleanWhereverTheGuardWasKilled) {
  for (const bool stays : {false, true})
    for (const double share : {0.0, 0.3, 0.9, 1.0}) {
      int boundaries = 0, left_on = 0;
      for (int n = 1;; ++n) {
        SimulatedNode world(static_cast<std::uint64_t>(n));
        world.node.hold_outlives_guard = stays;
        if (!killed_in_write(world, n, share)) break;
        ++boundaries;
        EXPECT_FALSE(world.guard_lives());
        left_on += world.paused() > 0 ? 1 : 0;
        for (int time = 0; time < 2; ++time) {  // twice is once
          for (const FaultOnNode& fault : world.recover())
            EXPECT_TRUE(fault.resolved())
                << "write " << n << ", " << fault.journal.state << fault.unreadable;
          EXPECT_EQ(world.paused(), 0) << "write " << n << ", share " << share;
        }
        for (const FaultOnNode& fault : world.survey())
          EXPECT_TRUE(fault.resolved()) << "write " << n;
        // The node takes the next one.
        world.said.clear();
        world.start_guard(world.order("next/0"));
        EXPECT_TRUE(world.until_state("injected", seconds(1))) << "write " << n;
      }
      EXPECT_EQ(boundaries, 13);
      EXPECT_EQ(left_on > 0, stays) << "what recover is for";
    }
}

TEST(Recover, TwiceIsOnce) {
  SimulatedNode world;
  world.node.hold_outlives_guard = true;
  ASSERT_TRUE(killed_in_write(world, 8, 1));
  EXPECT_EQ(world.paused(), 2);
  ASSERT_EQ(world.recover().size(), 1u);
  const std::string after_once = world.node.files[world.journal_file()];
  const std::vector<FaultOnNode> again = world.recover();
  EXPECT_EQ(again.at(0).journal.state, "clean");
  EXPECT_EQ(world.node.files[world.journal_file()], after_once);
}

TEST(Recover, ALivingGuardIsLeftAlone) {
  SimulatedNode world;
  world.start_guard(world.order());
  ASSERT_TRUE(world.until_state("injected"));
  const std::string before = world.node.files[world.journal_file()];
  const std::vector<FaultOnNode> faults = world.recover();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_TRUE(faults[0].guarded);
  EXPECT_FALSE(faults[0].resolved());
  EXPECT_EQ(world.paused(), 2);
  EXPECT_EQ(world.node.files[world.journal_file()], before);
}

TEST(Recover, TheLockCountsAndNotTheProcessTable) {
  SimulatedNode world;
  world.node.hold_outlives_guard = true;
  ASSERT_TRUE(killed_in_write(world, 8, 1));
  // Another process has taken it over, as a second `recover` does.
  world.node.locks[journal_lock(world.journal_file())] = world.boss->pid();
  const std::vector<FaultOnNode> faults = world.recover();
  EXPECT_TRUE(faults.at(0).guarded);
  EXPECT_EQ(world.paused(), 2);
}

TEST(Recover, APlannedFaultInTheHandsOfALivingGuardIsNotResolved) {
  SimulatedNode world;
  Journal journal(*world.boss, world.journal_file());
  ASSERT_TRUE(journal
                  .write("plan", {{"run", "r"},
                                  {"fault", "p/0"},
                                  {"plan", fault_plan_to_json(world.pause_both())},
                                  {"guard", process_to_json(world.boss->self())}})
                  .ok());
  EXPECT_FALSE(world.survey().at(0).resolved());
  EXPECT_TRUE(world.survey().at(0).guarded);
}

TEST(Recover, AProcessOfALaterBootIsNotTakenForTheGuard) {
  SimulatedNode world;
  Json plan = {{"type", "plan"},
               {"run", "r"},
               {"fault", "p/0"},
               {"plan", fault_plan_to_json(world.pause_both())},
               {"guard", process_to_json(world.boss->self())},
               {"boot_id", "boot-before"}};
  world.node.files[world.journal_file()] =
      encode_record(plan) + encode_record({{"type", "begin"}, {"step", 0}});
  EXPECT_FALSE(world.survey().at(0).guarded);
  EXPECT_EQ(world.recover().at(0).journal.state, "clean");
  plan["boot_id"] = "boot-n0";
  world.node.files[world.journal_file()] =
      encode_record(plan) + encode_record({{"type", "begin"}, {"step", 0}});
  EXPECT_TRUE(world.survey().at(0).guarded) << "of this boot it is";
}

TEST(Recover, WhatCannotBeUndoneStaysDirtyUntilItCan) {
  SimulatedNode world;
  world.node.hold_outlives_guard = true;
  ASSERT_TRUE(killed_in_write(world, 8, 1));
  world.node.undo_fails_for = {world.two->pid()};
  std::vector<FaultOnNode> faults = world.recover();
  EXPECT_EQ(faults.at(0).journal.state, "dirty");
  EXPECT_FALSE(faults.at(0).resolved());
  EXPECT_FALSE(world.simulation.stopped(world.one->pid()))
      << "one failing undo does not stop the others";
  EXPECT_EQ(world.recover().at(0).journal.state, "dirty");
  world.node.undo_fails_for.clear();
  EXPECT_EQ(world.recover().at(0).journal.state, "clean");
  EXPECT_EQ(world.paused(), 0);
}

TEST(Recover, AnUndoThatWasJournalledIsVerifiedAllTheSame) {
  SimulatedNode world;
  world.node.hold_outlives_guard = true;
  world.node.undo_lies = true;
  ASSERT_FALSE(killed_in_write(world, 99, 1));
  ASSERT_EQ(world.last_state(), "dirty");
  for (int time = 0; time < 3; ++time) {
    EXPECT_EQ(world.recover().at(0).journal.state, "dirty") << "nothing has let them go";
    EXPECT_EQ(world.paused(), 2);
  }
  world.node.undo_lies = false;
  EXPECT_EQ(world.recover().at(0).journal.state, "clean");
  EXPECT_EQ(world.paused(), 0);
}

TEST(Recover, ADamagedJournalKeepsNoOtherFaultInPlace) {
  SimulatedNode world;
  world.node.hold_outlives_guard = true;
  ASSERT_TRUE(killed_in_write(world, 8, 1));
  std::string damaged = world.node.files[world.journal_file()];
  damaged[20] = '\x7f';
  world.node.files[journal_path(SimulatedNode::kState, "a", "before/0")] = damaged;
  const std::vector<FaultOnNode> faults = world.recover();
  ASSERT_EQ(faults.size(), 2u);
  EXPECT_NE(faults[0].unreadable.find("damaged record at byte 0"), std::string::npos);
  EXPECT_FALSE(faults[0].resolved());
  EXPECT_EQ(text_at(fault_on_node_to_json(faults[0]), "state"), "dirty");
  EXPECT_TRUE(faults[1].resolved());
  EXPECT_EQ(world.paused(), 0);
}

TEST(Recover, AJournalWithoutAPlanThatCanBeReadIsDirty) {
  SimulatedNode world;
  world.node.files[world.journal_file()] =
      encode_record(
          {{"type", "plan"},
           {"run", "r"},
           {"fault", "p/0"},
           {"plan",
            {{"steps", {{{"operation", {{"type", "burn"}}}}}}, {"controls", Json::array()}}}}) +
      encode_record({{"type", "begin"}, {"step", 0}});
  const std::vector<FaultOnNode> faults = world.recover();
  EXPECT_FALSE(faults.at(0).resolved());
  EXPECT_NE(faults.at(0).unreadable.find("unknown operation 'burn'"), std::string::npos);
}

TEST(Recover, OtherFilesInTheDirectoryAreNoJournals) {
  SimulatedNode world;
  world.node.files["/state/faults/notes.txt"] = "hello";
  world.node.files["/state/faults/x.journal.lock"] = "";
  EXPECT_TRUE(world.recover().empty());
}

TEST(Recover, LivingGuardsRevertWhenAskedTo) {
  SimulatedNode world;
  world.start_guard(world.order());
  ASSERT_TRUE(world.until_state("injected"));
  end_guarded_faults(*world.boss, world.survey());
  world.pass(milliseconds(10));
  EXPECT_EQ(world.paused(), 0);
  EXPECT_EQ(world.survey().at(0).journal.state, "clean");
}

// A guard that hangs: it has its lock and answers to nothing.
TEST(Recover, AGuardFarPastItsLeaseIsKilledAndNotBefore) {
  SimulatedNode world;
  SimProcess& hung = world.simulation.start_root("n0", "guard");
  int signals = 0;
  hung.listen({.on_line = {}, .on_end = {}, .on_signal = [&signals](int) { ++signals; }});
  ASSERT_TRUE(hung.files().try_lock(journal_lock(world.journal_file())).value());
  Journal journal(hung, world.journal_file());
  ASSERT_TRUE(journal
                  .write("plan", {{"run", "r"},
                                  {"fault", "p/0"},
                                  {"plan", fault_plan_to_json(world.pause_both())},
                                  {"guard", process_to_json(hung.self())}})
                  .ok());
  ASSERT_TRUE(
      journal.write("lease", {{"end_ns", (hung.now(Clock::kBoottime) + seconds(3)).count()}}).ok());
  ASSERT_TRUE(journal.write("begin", {{"step", 0}}).ok());
  const HostOperation hold = HoldStopped{world.one->self()};
  const Operators operators = sim_operators(hung);
  ASSERT_TRUE(operators(hold).apply(hold, std::chrono::seconds(15)).ok());
  world.pass(seconds(12));
  end_guarded_faults(*world.boss, world.recover());
  EXPECT_EQ(signals, 1) << "asked, nine seconds after its lease";
  EXPECT_EQ(world.paused(), 1);
  world.pass(seconds(2));
  end_guarded_faults(*world.boss, world.recover());
  EXPECT_FALSE(hung.alive());
  EXPECT_EQ(world.paused(), 0);
  EXPECT_EQ(world.recover().at(0).journal.state, "clean");
}

// The agent as its controller knows it.
class AgentOnNode {
 public:
  explicit AgentOnNode(SimulatedNode& world) : world_(world) {
    child_ =
        world.boss
            ->spawn(
                {.argv = {"mixproof", "agent"}},
                {.on_line =
                     [this](std::string_view line) { lines.push_back(*parse_json(line, "agent")); },
                 .on_exit = {}})
            .value();
    ask({{"do", "hello"}, {"run", "r2"}, {"node", "n0"}, {"cgroup", "mixproof/n0"}});
  }
  Json ask(Json request) {
    request["id"] = ++id_;
    EXPECT_TRUE(child_->send(line_of(request)).ok());
    const auto answer = [this] {
      for (const Json& line : lines)
        if (integer_at(line, "re") == id_) return &line;
      return static_cast<const Json*>(nullptr);
    };
    EXPECT_TRUE(world_.simulation.run_until([&] { return answer() != nullptr; },
                                            world_.simulation.now() + seconds(5)));
    return answer() == nullptr ? Json() : *answer();
  }
  Json inject(const std::string& id) {
    return ask({{"do", "inject"},
                {"fault_id", id},
                {"fault", "process_pause"},
                {"params", Json::object()},
                {"target", "one"},
                {"pids", {world_.one->pid()}},
                {"lease_ms", 15000}});
  }
  std::vector<Json> lines;

 private:
  SimulatedNode& world_;
  std::unique_ptr<Child> child_;
  std::int64_t id_ = 0;
};

TEST(Recover, AnAgentRefusesToInjectBesideAnUnreadableJournal) {
  SimulatedNode world;
  world.node.files[world.journal_file()] = encode_record({{"type", "plan"}});
  world.node.files[world.journal_file()][9] = '\x01';
  world.node.files[world.journal_file()] += encode_record({{"type", "begin"}, {"step", 0}});
  AgentOnNode agent(world);
  const Json reply = agent.inject("s/0");
  const Json* error = member(reply, "error");
  ASSERT_NE(error, nullptr) << reply.dump();
  EXPECT_EQ(text_at(*error, "code"), "refused");
  world.pass(seconds(1));
  EXPECT_EQ(world.paused(), 0);
  world.node.files.erase(world.journal_file());
  EXPECT_NE(member(agent.inject("s/0"), "ok"), nullptr) << "without it the same request is granted";
  world.pass(seconds(1));
  EXPECT_EQ(world.paused(), 1);
}

TEST(Recover, AnAgentUndoesAtItsStartWhatADeadGuardLeft) {
  SimulatedNode world;
  world.node.hold_outlives_guard = true;
  ASSERT_TRUE(killed_in_write(world, 8, 1));
  EXPECT_EQ(world.paused(), 2);
  AgentOnNode agent(world);
  EXPECT_EQ(world.paused(), 0);
  const Json& found = agent.lines.at(0).at("faults").at("faults").at(0);
  EXPECT_EQ(text_at(found, "state"), "clean");
}

TEST(Recover, AGuardThatDiesBeforeItsJournalIsARefusalAndNotDirt) {
  SimulatedNode world;
  AgentOnNode agent(world);
  world.node.kill_in_write = [](const std::string&, std::string_view) {
    return std::optional<std::size_t>(0);
  };
  EXPECT_NE(member(agent.inject("s/0"), "ok"), nullptr);
  world.pass(seconds(1));
  EXPECT_EQ(text_at(agent.lines.back(), "state"), "refused") << agent.lines.back().dump();
}

// A table that nobody's journal tells of, on a kernel where tables outlive their makers.
SimDrop a_table(const std::string& name, Time end) {
  return {DropPackets{.net_namespace = 1, .table = name, .from = {"10.9.0.2"}}, 0, end};
}

TEST(Recover, AMarkWithoutAJournalIsEndedAndTold) {
  SimulatedNode world;
  world.node.tables_have_owners = false;
  world.node.drops["mixproof_1"] = a_table("mixproof_1", seconds(60));
  EXPECT_TRUE(world.survey().empty()) << "a survey undoes nothing";
  EXPECT_EQ(world.node.drops.size(), 1u);
  const std::vector<FaultOnNode> faults = world.recover();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].journal.state, "clean");
  EXPECT_TRUE(faults[0].resolved());
  EXPECT_NE(faults[0].journal.reason.find("found without a journal: mixproof_1"),
            std::string::npos);
  EXPECT_TRUE(world.node.drops.empty());
  EXPECT_TRUE(world.recover().empty()) << "twice is once";
}

TEST(Recover, AMarkWithoutAJournalThatCannotBeEndedIsDirty) {
  for (const bool lies : {false, true}) {
    SimulatedNode world;
    world.node.tables_have_owners = false;
    world.node.drops["mixproof_1"] = a_table("mixproof_1", seconds(60));
    (lies ? world.node.undo_lies : world.node.undo_fails) = true;
    const std::vector<FaultOnNode> faults = world.recover();
    ASSERT_EQ(faults.size(), 1u);
    EXPECT_EQ(faults[0].journal.state, "dirty");
    EXPECT_FALSE(faults[0].resolved());
    EXPECT_EQ(text_at(fault_on_node_to_json(faults[0]), "state"), "dirty");
  }
}

TEST(Recover, MarksThatCannotBeLookedForAreNotNone) {
  SimulatedNode world;
  world.node.marks_unreadable = true;
  const std::vector<FaultOnNode> faults = world.recover();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_FALSE(faults[0].resolved());
  EXPECT_NE(faults[0].unreadable.find("cannot be looked for"), std::string::npos);
}

FaultPlan drop_plan(const std::string& table) {
  FaultPlan plan;
  plan.steps.push_back({When::kInject,
                        DropPackets{.net_namespace = 1, .table = table, .from = {"10.9.0.2"}},
                        Lease::kKernel});
  return plan;
}

TEST(Recover, TheMarkOfALivingGuardIsLeftAlone) {
  SimulatedNode world;
  world.node.tables_have_owners = false;
  Json order = world.order();
  order["guard"]["plan"] = fault_plan_to_json(drop_plan("mixproof_1"));
  world.start_guard(order);
  ASSERT_TRUE(world.until_state("injected"));
  const std::vector<FaultOnNode> faults = world.recover();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_TRUE(faults[0].guarded);
  EXPECT_EQ(world.node.drops.size(), 1u);
  // With the guard dead it is its journal that tells of it.
  world.simulation.kill(world.simulation.find("guard", "n0")->pid());
  EXPECT_EQ(world.recover().at(0).journal.state, "clean");
  EXPECT_TRUE(world.node.drops.empty());
}

// It has a journal, and the journal says that it is over.
TEST(Recover, AMarkThatOutlivedItsCleanJournalIsEnded) {
  SimulatedNode world;
  world.node.tables_have_owners = false;
  Json order = world.order();
  order["guard"]["plan"] = fault_plan_to_json(drop_plan("mixproof_1"));
  Child& guard = world.start_guard(order);
  ASSERT_TRUE(world.until_state("injected"));
  ASSERT_TRUE(guard.send(kRevert).ok());
  ASSERT_TRUE(world.until_state("clean"));
  world.node.drops["mixproof_1"] = a_table("mixproof_1", seconds(60));
  const std::vector<FaultOnNode> faults = world.recover();
  ASSERT_EQ(faults.size(), 2u);
  EXPECT_TRUE(faults[1].resolved());
  EXPECT_TRUE(world.node.drops.empty());
}

// The number of a network namespace says nothing after a reboot, which ended everything in it.
TEST(Recover, ATableOfAnEarlierBootIsOver) {
  SimulatedNode world;
  world.node.undo_fails = true;
  const Json plan = {{"type", "plan"},
                     {"run", "r"},
                     {"fault", "p/0"},
                     {"plan", fault_plan_to_json(drop_plan("mixproof_1"))},
                     {"guard", process_to_json(world.boss->self())},
                     {"boot_id", "boot-before"}};
  world.node.files[world.journal_file()] =
      encode_record(plan) + encode_record({{"type", "begin"}, {"step", 0}});
  EXPECT_EQ(world.recover().at(0).journal.state, "clean");
}

}  // namespace
}  // namespace mixproof
