// The real operator of a traced stop, on real processes.
#include "harness/agent/hold_stopped.h"

#include "tests/system/victim.h"

namespace mixproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

class HoldStoppedSystem : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: tracing a process that is no child";
  }
};

struct Held {
  explicit Held(Victim& held) : victim(held), hold(make_hold_stopped(held.host())) {}
  Status apply() { return hold->apply(operation(), std::chrono::seconds(15)); }
  Status undo() { return hold->undo(operation(), ""); }
  HostOperation operation() const { return HoldStopped{victim.id()}; }
  Victim& victim;
  std::unique_ptr<HostOperator> hold;
};

void sleep_ms(int ms) { std::this_thread::sleep_for(milliseconds(ms)); }

TEST_F(HoldStoppedSystem, EveryThreadStandsStillUntilUndo) {
  Victim victim;
  Held held(victim);
  ASSERT_TRUE(held.hold->preimage(held.operation()).ok());
  EXPECT_FALSE(victim.all_in('t'));
  const Status applied = held.apply();
  ASSERT_TRUE(applied.ok()) << applied.error().message;
  EXPECT_TRUE(victim.all_in('t'));
  EXPECT_GE(victim.threads().size(), 7u);
  const std::uint64_t switches = victim.switches();
  const long turns = victim.turns();
  sleep_ms(150);
  EXPECT_EQ(victim.switches(), switches);
  EXPECT_EQ(victim.turns(), turns);
  EXPECT_TRUE(victim.all_in('t'));
  EXPECT_FALSE(held.hold->verify_undone(held.operation()).ok()) << "it is not undone";
  ASSERT_TRUE(held.undo().ok());
  ASSERT_TRUE(held.undo().ok()) << "twice is once";
  EXPECT_TRUE(held.hold->verify_undone(held.operation()).ok());
  EXPECT_TRUE(victim.none_in('t'));
  for (const ThreadState& thread : victim.threads()) EXPECT_EQ(thread.tracer, 0);
  EXPECT_TRUE(victim.moves());
}

TEST_F(HoldStoppedSystem, ManyTimesWithThreadsComingAndGoing) {
  Victim victim(2);
  for (int i = 0; i < 60; ++i) {
    Held held(victim);
    const Status applied = held.apply();
    ASSERT_TRUE(applied.ok()) << i << ": " << applied.error().message;
    ASSERT_TRUE(victim.all_in('t')) << i;
    const Status undone = held.undo();
    ASSERT_TRUE(undone.ok()) << i << ": " << undone.error().message;
    ASSERT_TRUE(held.hold->verify_undone(held.operation()).ok()) << i;
    sleep_ms(i % 5);
  }
  EXPECT_TRUE(victim.moves());
}

TEST_F(HoldStoppedSystem, TheDeathOfTheHolderLetsEveryThreadRun) {
  Victim victim;
  std::vector<double> took_ms;
  for (int i = 0; i < 5; ++i) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    Forked holder([&] {
      Held held(victim);
      const char word = held.apply().ok() ? 'y' : 'n';
      if (::write(ready[1], &word, 1) != 1) ::_exit(1);
      while (true) ::pause();
    });
    char word = 0;
    ASSERT_EQ(::read(ready[0], &word, 1), 1);
    ASSERT_EQ(word, 'y');
    ::close(ready[0]);
    ::close(ready[1]);
    ASSERT_TRUE(victim.all_in('t'));
    const long turns = victim.turns();
    const auto killed = steady_clock::now();
    holder.signal(SIGKILL);
    EXPECT_TRUE(eventually([&] { return victim.none_in('t'); }, milliseconds(200)));
    took_ms.push_back(
        std::chrono::duration<double, std::milli>(steady_clock::now() - killed).count());
    EXPECT_TRUE(eventually([&] { return victim.turns() > turns; }, milliseconds(500)));
    EXPECT_TRUE(make_hold_stopped(victim.host())->verify_undone(HoldStopped{victim.id()}).ok());
  }
  std::sort(took_ms.begin(), took_ms.end());
  std::printf("from SIGKILL of the holder to every thread running: median %.1f ms, worst %.1f ms\n",
              took_ms[2], took_ms[4]);
}

TEST_F(HoldStoppedSystem, ASignalThatComesMeanwhileArrivesAfterwards) {
  Victim victim;
  Held held(victim);
  ASSERT_TRUE(held.apply().ok());
  victim.process().signal(SIGUSR1);
  sleep_ms(100);
  EXPECT_EQ(victim.signals(), 0);
  ASSERT_TRUE(held.undo().ok());
  EXPECT_TRUE(eventually([&] { return victim.signals() == 1; }, milliseconds(2000)));
}

TEST_F(HoldStoppedSystem, ASignalOnItsWayWhileItIsStoppedIsNotLost) {
  Victim victim;
  for (long i = 1; i <= 40; ++i) {
    Held held(victim);
    victim.process().signal(SIGUSR1);
    ASSERT_TRUE(held.apply().ok());
    ASSERT_TRUE(held.undo().ok());
    ASSERT_TRUE(eventually([&] { return victim.signals() == i; }, milliseconds(2000))) << i;
  }
}

TEST_F(HoldStoppedSystem, AProcessThatWasStoppedBeforeStaysStoppedAfterwards) {
  Victim victim;
  victim.process().signal(SIGSTOP);
  ASSERT_TRUE(eventually([&] { return victim.all_in('T'); }, milliseconds(2000)));
  Held held(victim);
  ASSERT_TRUE(held.apply().ok());
  EXPECT_TRUE(victim.all_in('t'));
  ASSERT_TRUE(held.undo().ok());
  EXPECT_TRUE(held.hold->verify_undone(held.operation()).ok());
  EXPECT_TRUE(eventually([&] { return victim.all_in('T'); }, milliseconds(1000)));
  const long turns = victim.turns();
  sleep_ms(100);
  EXPECT_EQ(victim.turns(), turns);
  EXPECT_TRUE(victim.all_in('T'));
  victim.process().signal(SIGCONT);
  EXPECT_TRUE(victim.moves());
}

TEST_F(HoldStoppedSystem, AStopThatComesMeanwhileHoldsAfterwards) {
  Victim victim;
  Held held(victim);
  ASSERT_TRUE(held.apply().ok());
  victim.process().signal(SIGSTOP);
  sleep_ms(20);
  ASSERT_TRUE(held.undo().ok());
  EXPECT_TRUE(eventually([&] { return victim.all_in('T'); }, milliseconds(1000)));
  EXPECT_TRUE(held.hold->verify_undone(held.operation()).ok()) << "that stop is not ours";
  victim.process().signal(SIGCONT);
  EXPECT_TRUE(victim.moves());
}

TEST_F(HoldStoppedSystem, AProcessThatIsKilledWhileHeldIsClean) {
  Victim victim;
  Held held(victim);
  ASSERT_TRUE(held.apply().ok());
  victim.process().signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return victim.threads().empty(); }, milliseconds(1000)));
  const auto begin = steady_clock::now();
  const Status undone = held.undo();
  EXPECT_TRUE(undone.ok()) << undone.error().message;
  EXPECT_TRUE(held.hold->verify_undone(held.operation()).ok());
  EXPECT_LT(steady_clock::now() - begin, milliseconds(500));
}

TEST_F(HoldStoppedSystem, AProcessThatSomeoneElseTracesIsRefused) {
  Victim victim;
  Held first(victim);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  Forked other([&] {
    Held held(victim);
    if (!held.apply().ok() || ::write(ready[1], "y", 1) != 1) ::_exit(1);
    while (true) ::pause();
  });
  char word = 0;
  ASSERT_EQ(::read(ready[0], &word, 1), 1);
  const Result<std::string> preimage = first.hold->preimage(first.operation());
  ASSERT_FALSE(preimage.ok());
  EXPECT_EQ(preimage.error().code, Code::kUnavailable);
  EXPECT_NE(
      preimage.error().message.find("already traced by process " + std::to_string(other.pid())),
      std::string::npos);
  EXPECT_FALSE(first.apply().ok());
  EXPECT_TRUE(first.undo().ok());
  EXPECT_TRUE(victim.all_in('t')) << "the other's hold is left alone";
  other.end();
  EXPECT_TRUE(first.hold->preimage(first.operation()).ok());
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(HoldStoppedSystem, AProcessWithTheSameNumberIsNotTakenForIt) {
  Victim victim;
  auto hold = make_hold_stopped(victim.host());
  const HostOperation replaced = HoldStopped{{victim.id().pid, victim.id().start_ticks + 1}};
  EXPECT_EQ(hold->preimage(replaced).error().code, Code::kUnavailable);
  EXPECT_FALSE(hold->apply(replaced, std::chrono::seconds(15)).ok());
  EXPECT_TRUE(victim.none_in('t'));
  EXPECT_TRUE(hold->undo(replaced, "").ok());
  EXPECT_TRUE(hold->verify_undone(replaced).ok()) << "gone is clean";
}

}  // namespace
}  // namespace mixproof
