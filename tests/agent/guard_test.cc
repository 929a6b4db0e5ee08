#include "harness/agent/guard.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tests/agent/simulated_node.h"

namespace mixproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Words = std::vector<std::string>;

const std::string kRevert = R"({"do":"revert"})";

std::string renewal(int lease_ms) { return line_of({{"do", "renew"}, {"lease_ms", lease_ms}}); }

TEST(Guard, JournalsBeforeItActsAndUndoesLastToFirst) {
  SimulatedNode world;
  Child& guard = world.start_guard(world.order());
  EXPECT_EQ(world.paused(), 0);
  ASSERT_TRUE(world.until_state("injected"));
  EXPECT_EQ(world.paused(), 2);
  EXPECT_EQ(world.record_types(),
            (Words{"plan", "lease", "preimage", "begin", "done", "preimage", "begin", "done"}));
  ASSERT_TRUE(guard.send(kRevert).ok());
  ASSERT_TRUE(world.until_state("clean"));
  EXPECT_EQ(world.paused(), 0);
  EXPECT_EQ(world.states(), (Words{"injecting", "injected", "reverting", "clean"}));
  const Words types = world.record_types();
  EXPECT_EQ((Words(types.begin() + 8, types.end())),
            (Words{"undo_begin", "undo_done", "undo_begin", "undo_done", "clean"}));
  const auto records = decode_journal(world.node.files[world.journal_file()], "j");
  EXPECT_EQ(integer_at(records->records[8], "step"), 1);
  EXPECT_EQ(integer_at(records->records[10], "step"), 0);
  world.pass(seconds(1));
  EXPECT_FALSE(world.guard_lives());
}

TEST(Guard, EndsTheFaultAtTheEndOfItsLeaseAndNotBefore) {
  SimulatedNode world;
  world.start_guard(world.order("p/0", 3000));
  ASSERT_TRUE(world.until_state("injected"));
  const Time begin = world.simulation.now();
  world.pass(milliseconds(2900));
  EXPECT_EQ(world.paused(), 2);
  ASSERT_TRUE(world.until_state("clean", seconds(1)));
  EXPECT_NEAR(static_cast<double>((world.simulation.now() - begin).count()), 3e9, 5e6);
  EXPECT_EQ(text_at(world.said.back(), "detail"), "lease ended");
}

TEST(Guard, ARenewalInTimePutsTheEndOff) {
  SimulatedNode world;
  Child& guard = world.start_guard(world.order("p/0", 3000));
  ASSERT_TRUE(world.until_state("injected"));
  world.pass(seconds(2));
  ASSERT_TRUE(guard.send(renewal(3000)).ok());
  world.pass(milliseconds(2900));
  EXPECT_EQ(world.paused(), 2) << "4.9 s after the injection";
  world.pass(milliseconds(200));
  EXPECT_EQ(world.paused(), 0);
}

TEST(Guard, ARenewalAfterTheEndIsIgnored) {
  SimulatedNode world;
  Child& guard = world.start_guard(world.order("p/0", 3000));
  ASSERT_TRUE(world.until_state("injected"));
  // On its way while the lease ends.
  world.simulation.at(world.simulation.now() + milliseconds(3000),
                      [&] { static_cast<void>(guard.send(renewal(9000))); });
  world.pass(seconds(4));
  EXPECT_EQ(world.paused(), 0);
  const Words types = world.record_types();
  EXPECT_EQ(std::count(types.begin(), types.end(), "lease"), 1);
  EXPECT_EQ(world.last_state(), "clean");
}

TEST(Guard, ARenewalOfNothingOrOfTooMuchIsBounded) {
  SimulatedNode world;
  Child& guard = world.start_guard(world.order("p/0", 3000));
  ASSERT_TRUE(world.until_state("injected"));
  for (const int lease_ms : {0, -5}) ASSERT_TRUE(guard.send(renewal(lease_ms)).ok());
  ASSERT_TRUE(guard.send(R"({"do":"renew"})").ok());
  world.pass(seconds(1));
  Words types = world.record_types();
  EXPECT_EQ(std::count(types.begin(), types.end(), "lease"), 1);
  ASSERT_TRUE(guard.send(renewal(3'600'000)).ok());
  world.pass(seconds(299));
  EXPECT_EQ(world.paused(), 2);
  world.pass(seconds(3));
  EXPECT_EQ(world.paused(), 0) << "five minutes are the most";
}

TEST(Guard, ARenewalThatCannotBeJournalledIsNone) {
  SimulatedNode world;
  Child& guard = world.start_guard(world.order("p/0", 3000));
  ASSERT_TRUE(world.until_state("injected"));
  world.node.disk_full = true;
  world.pass(seconds(2));
  ASSERT_TRUE(guard.send(renewal(3000)).ok());
  world.pass(milliseconds(1100));
  EXPECT_EQ(world.paused(), 0) << "and a full disk does not keep a fault in place";
  EXPECT_EQ(world.last_state(), "clean");
}

TEST(Guard, SignalsRevertAndTheEndOfItsInputDoesNot) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    SimulatedNode world;
    world.start_guard(world.order());
    ASSERT_TRUE(world.until_state("injected"));
    world.simulation.find("guard", "n0")->deliver_signal(signal);
    world.pass(milliseconds(10));
    EXPECT_EQ(world.paused(), 0);
    EXPECT_EQ(world.journal().state, "clean");
  }
  SimulatedNode world;
  world.start_guard(world.order());
  ASSERT_TRUE(world.until_state("injected"));
  world.forget_guards();
  world.pass(seconds(14));
  EXPECT_EQ(world.paused(), 2) << "its lease goes on";
  world.pass(seconds(2));
  EXPECT_EQ(world.paused(), 0);
  EXPECT_EQ(world.journal().state, "clean");
}

TEST(Guard, ADamagedLineChangesNothingWhileTheFaultIsOn) {
  SimulatedNode world;
  Child& guard = world.start_guard(world.order());
  ASSERT_TRUE(world.until_state("injected"));
  for (const char* line : {"", "{", "nonsense", "[]", R"({"do":"dance"})"})
    ASSERT_TRUE(guard.send(line).ok());
  ASSERT_TRUE(guard.send(line_of(world.order("other/0"))).ok());
  world.pass(seconds(1));
  EXPECT_EQ(world.paused(), 2);
  EXPECT_EQ(world.last_state(), "injected");
}

TEST(Guard, RefusesAnOrderThatItCannotUnderstand) {
  for (const char* broken :
       {"fault", "state_dir", "plan", "lease_ms", "no steps", "a foreign step"}) {
    SimulatedNode world;
    Json order = world.order();
    const std::string what = broken;
    if (what == "no steps")
      order["guard"]["plan"]["steps"] = Json::array();
    else if (what == "a foreign step")
      order["guard"]["plan"]["steps"][1]["operation"]["type"] = "burn";
    else
      order["guard"].erase(what);
    world.start_guard(order);
    ASSERT_TRUE(world.until_state("refused")) << what;
    world.pass(seconds(1));
    EXPECT_EQ(world.paused(), 0) << what;
    EXPECT_FALSE(world.guard_lives()) << what;
    for (const FaultOnNode& fault : world.survey()) EXPECT_TRUE(fault.resolved()) << what;
  }
}

TEST(Guard, LeavesWhenNobodyTellsItWhatToDo) {
  SimulatedNode world;
  world.start_guard(Json::object());
  world.pass(seconds(11));
  EXPECT_FALSE(world.guard_lives());
}

TEST(Guard, WithoutAJournalNothingIsInjected) {
  SimulatedNode world;
  world.node.disk_full = true;
  world.start_guard(world.order());
  ASSERT_TRUE(world.until_state("refused"));
  EXPECT_NE(text_at(world.said.back(), "detail").find("No space left"), std::string::npos);
  EXPECT_EQ(world.paused(), 0);
}

TEST(Guard, ADiskThatFillsUpInMidInjectionEndsItClean) {
  for (int writes = 1; writes < 8; ++writes) {
    SimulatedNode world;
    int left = writes;
    world.node.kill_in_write = [&](const std::string&, std::string_view) {
      world.node.disk_full = --left == 0;
      return std::nullopt;
    };
    world.start_guard(world.order());
    world.pass(seconds(1));
    EXPECT_EQ(world.paused(), 0) << "full after " << writes << " records";
    EXPECT_FALSE(world.guard_lives()) << writes;
    EXPECT_EQ(world.last_state(), writes == 1 ? "refused" : "clean")
        << "without a lease it does not begin";
    const Words states = world.states();
    EXPECT_EQ(std::count(states.begin(), states.end(), "injected"), 0) << writes;
  }
}

TEST(Guard, AFailingUndoOfOneStepDoesNotStopTheOthers) {
  for (const bool first : {true, false}) {
    SimulatedNode world;
    Child& guard = world.start_guard(world.order());
    ASSERT_TRUE(world.until_state("injected"));
    world.node.hold_outlives_guard = true;
    const int stuck = first ? world.one->pid() : world.two->pid();
    world.node.undo_fails_for = {stuck};
    ASSERT_TRUE(guard.send(kRevert).ok());
    ASSERT_TRUE(world.until_state("dirty"));
    EXPECT_EQ(world.paused(), 1);
    EXPECT_TRUE(world.simulation.stopped(stuck));
    EXPECT_NE(text_at(world.said.back(), "detail").find("Operation not permitted"),
              std::string::npos);
    EXPECT_EQ(world.journal().state, "dirty");
  }
}

TEST(Guard, AnUndoThatSaysOkAndDoesNothingIsDirty) {
  SimulatedNode world;
  Child& guard = world.start_guard(world.order());
  ASSERT_TRUE(world.until_state("injected"));
  world.node.undo_lies = true;
  ASSERT_TRUE(guard.send(kRevert).ok());
  ASSERT_TRUE(world.until_state("dirty"));
  EXPECT_EQ(world.journal().reason,
            "the process is still in a tracing stop; the process is still in a tracing stop");
}

TEST(Guard, ATargetThatHasDiedIsClean) {
  SimulatedNode world;
  Child& guard = world.start_guard(world.order());
  ASSERT_TRUE(world.until_state("injected"));
  world.simulation.kill(world.one->pid());
  ASSERT_TRUE(guard.send(kRevert).ok());
  ASSERT_TRUE(world.until_state("clean"));
  EXPECT_EQ(world.paused(), 0);
}

TEST(Guard, ATargetThatIsGoneBeforeItsTurnLeavesNoneOfThemPaused) {
  SimulatedNode world;
  const Json order = world.order();
  world.simulation.kill(world.two->pid());
  world.start_guard(order);
  ASSERT_TRUE(world.until_state("clean"));
  EXPECT_EQ(text_at(world.said.back(), "detail"), "injection failed: the process is gone");
  const Words states = world.states();
  EXPECT_EQ(std::count(states.begin(), states.end(), "injected"), 0);
  EXPECT_EQ(world.paused(), 0);
}

TEST(Guard, OneFaultHasOneGuardAndOneNodeOneFault) {
  SimulatedNode world;
  world.start_guard(world.order());
  ASSERT_TRUE(world.until_state("injected"));
  world.start_guard(world.order());
  ASSERT_TRUE(world.until_state("refused", seconds(1)));
  EXPECT_NE(text_at(world.said.back(), "detail").find("already has a guard"), std::string::npos);
  world.said.clear();
  world.start_guard(world.order("q/0"));
  ASSERT_TRUE(world.until_state("refused", seconds(1)));
  EXPECT_NE(text_at(world.said.back(), "detail").find("another fault is on this node"),
            std::string::npos);
  EXPECT_EQ(world.paused(), 2);
}

TEST(Guard, OfTwoThatBeginAtOnceAtMostOneActs) {
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    SimulatedNode world(seed);
    world.start_guard(world.order("p/0"));
    world.start_guard(world.order("q/0"));
    world.pass(seconds(1));
    const Words states = world.states();
    EXPECT_LE(std::count(states.begin(), states.end(), "injected"), 1) << "seed " << seed;
    EXPECT_GE(std::count(states.begin(), states.end(), "refused"), 1) << "seed " << seed;
  }
}

}  // namespace
}  // namespace mixproof
