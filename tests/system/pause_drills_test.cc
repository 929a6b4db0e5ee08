// Drills of process_pause: whatever of ours is killed while a process is paused, it runs again in
// time, `recover` proves it, and the node is as it was.
#include "tests/fake/paths.h"
#include "tests/system/drill_fixture.h"

namespace mixproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// Threads that work for ever, in the node.
constexpr const char* kBusy =
    "import threading, time\n"
    "def work():\n"
    "  while True: time.sleep(0.005)\n"
    "for i in range(7): threading.Thread(target=work).start()\n"
    "work()\n";

class PauseDrills : public Drills {
 protected:
  void SetUp() override {
    Drills::SetUp();
    if (IsSkipped()) return;
    ASSERT_NO_FATAL_FAILURE(bring_up(1));
    victim_ = std::make_unique<Command>(
        std::vector<std::string>{kMixproofBinary, "lab", "exec", node_, "--name", name_, "--",
                                 "python3", "-c", kBusy},
        directory_ + "/victim.log");
    ASSERT_TRUE(eventually(
        [this] {
          const std::vector<int> children = children_of(victim_->pid());
          outer_pid_ = children.empty() ? 0 : children[0];
          return outer_pid_ != 0 && threads().size() == 8;
        },
        seconds(10)))
        << victim_->output();
    std::istringstream status(text_of(format("/proc/%d/status", outer_pid_)));
    for (std::string line; std::getline(status, line);)
      if (starts_with(line, "NSpid:")) inner_pid_ = line.substr(line.rfind('\t') + 1);
    ASSERT_NO_FATAL_FAILURE(take_before());
  }

  void TearDown() override {
    inject_.reset();
    victim_.reset();
    Drills::TearDown();
  }

  std::vector<ThreadState> threads() const {
    const auto host = make_real_host_view();
    const Result<ProcessId> process = host->identify(outer_pid_);
    const auto threads =
        process.ok() ? host->threads(*process) : Result<std::vector<ThreadState>>(process.error());
    return threads.ok() ? *threads : std::vector<ThreadState>();
  }
  bool paused() const {
    const auto all = threads();
    return !all.empty() && std::all_of(all.begin(), all.end(), [](const ThreadState& thread) {
      return thread.state == 't';
    });
  }
  bool runs() const {
    const auto all = threads();
    return all.size() == 8 && std::none_of(all.begin(), all.end(), [](const ThreadState& thread) {
             return thread.stopped();
           });
  }
  std::string snapshot() const override { return node_snapshot(lab_, lab_.nodes[0], {outer_pid_}); }

  void inject(const std::string& length, const std::string& lease = "15s") {
    ASSERT_NO_FATAL_FAILURE(
        Drills::inject("process_pause", {"--pid", inner_pid_, "--for", length, "--lease", lease}));
    ASSERT_TRUE(paused());
  }
  double ms_until_running(milliseconds limit) const {
    return ms_until([this] { return runs(); }, limit);
  }
  void expect_clean() {
    EXPECT_TRUE(runs());
    expect_recovered();
  }

  std::string inner_pid_;
  std::unique_ptr<Command> victim_;
  int outer_pid_ = 0;
};

TEST_F(PauseDrills, TheSnapshotSeesThePauseAndItsEnd) {
  EXPECT_EQ(snapshot(), before_) << "left alone it does not change";
  for (const char* part :
       {"# links", "# packet filter", "# mounts", "# cgroups", "runs traced by 0"})
    EXPECT_NE(before_.find(part), std::string::npos) << before_;
  EXPECT_EQ(before_.find("not found"), std::string::npos) << before_;
  ASSERT_NO_FATAL_FAILURE(inject("2s"));
  const std::string during = snapshot();
  EXPECT_NE(during, before_);
  EXPECT_NE(during.find("stopped traced by"), std::string::npos) << during;
  EXPECT_EQ(inject_->status(seconds(20)), 0) << inject_->output();
  EXPECT_NE(inject_->output().find("process_pause: clean"), std::string::npos) << inject_->output();
  expect_clean();
}

TEST_F(PauseDrills, KillingControllerAgentAndGuardTogether) {
  std::vector<double> took_ms;
  for (int i = 0; i < 3; ++i) {
    ASSERT_NO_FATAL_FAILURE(inject("60s"));
    for (const int pid : {inject_->pid(), agent_, guard_}) kill_hard(pid);
    took_ms.push_back(ms_until_running(seconds(1)));
    EXPECT_GE(took_ms.back(), 0) << "still paused after a second";
    inject_.reset();
    expect_clean();
  }
  std::sort(took_ms.begin(), took_ms.end());
  std::printf(
      "from SIGKILL of controller, agent and guard to running: median %.1f ms, worst %.1f ms\n",
      took_ms[1], took_ms[2]);
}

TEST_F(PauseDrills, KillingTheControllerAlone) {
  ASSERT_NO_FATAL_FAILURE(inject("60s"));
  inject_->kill();
  const double took_ms = ms_until_running(seconds(2));
  EXPECT_GE(took_ms, 0) << "the agent reverts when nobody talks to it any more";
  std::printf("from SIGKILL of the controller to running: %.1f ms\n", took_ms);
  EXPECT_TRUE(
      eventually([this] { return ::kill(agent_, 0) != 0 && ::kill(guard_, 0) != 0; }, seconds(5)));
  EXPECT_EQ(journal_states(), "clean");
  expect_clean();
}

TEST_F(PauseDrills, KillingTheAgentAlone) {
  ASSERT_NO_FATAL_FAILURE(inject("60s", "3s"));
  kill_hard(agent_);
  const auto killed = steady_clock::now();
  EXPECT_TRUE(
      eventually([&] { return steady_clock::now() > killed + milliseconds(800); }, seconds(2)));
  EXPECT_TRUE(paused()) << "its guard holds it until the lease ends";
  const double took_ms = ms_until_running(milliseconds(2700));
  EXPECT_GE(took_ms, 0) << "its lease was 3 s";
  const int status = inject_->status(seconds(30));
  EXPECT_EQ(status, 3) << inject_->output();
  EXPECT_NE(inject_->output().find("clean (proved by a new agent on " + node_ + ")"),
            std::string::npos)
      << inject_->output();
  expect_clean();
}

TEST_F(PauseDrills, KillingTheGuardAlone) {
  ASSERT_NO_FATAL_FAILURE(inject("60s"));
  kill_hard(guard_);
  const double took_ms = ms_until_running(seconds(1));
  EXPECT_GE(took_ms, 0);
  std::printf("from SIGKILL of the guard to running: %.1f ms\n", took_ms);
  EXPECT_EQ(inject_->status(seconds(20)), 3) << "it did not last: " << inject_->output();
  EXPECT_NE(inject_->output().find("process_pause: guard_lost"), std::string::npos)
      << inject_->output();
  EXPECT_NE(inject_->output().find("process_pause: clean"), std::string::npos) << inject_->output();
  expect_clean();
}

TEST_F(PauseDrills, KillingAgentAndGuard) {
  ASSERT_NO_FATAL_FAILURE(inject("60s", "3s"));
  for (const int pid : {agent_, guard_}) kill_hard(pid);
  EXPECT_GE(ms_until_running(seconds(1)), 0);
  EXPECT_EQ(inject_->status(seconds(30)), 3) << inject_->output();
  EXPECT_NE(inject_->output().find("clean (proved by a new agent on " + node_ + ")"),
            std::string::npos)
      << inject_->output();
  expect_clean();
}

TEST_F(PauseDrills, APauseOfAProcessThatStandsStillAlreadyHasNoEffect) {
  ::kill(outer_pid_, SIGSTOP);
  const auto stands_still = [this] {
    const auto all = threads();
    return all.size() == 8 && std::all_of(all.begin(), all.end(), [](const ThreadState& thread) {
             return thread.state == 'T';
           });
  };
  ASSERT_TRUE(eventually(stands_still, seconds(5)));
  ASSERT_NO_FATAL_FAILURE(
      Drills::inject("process_pause", {"--pid", inner_pid_, "--for", "1s"}, "not_effective"));
  EXPECT_EQ(inject_->status(seconds(20)), 2) << inject_->output();
  EXPECT_NE(inject_->output().find("already within"), std::string::npos) << inject_->output();
  EXPECT_NE(inject_->output().find("process_pause: clean"), std::string::npos) << inject_->output();
  EXPECT_TRUE(eventually(stands_still, seconds(2))) << "it stands as it stood before";
  ::kill(outer_pid_, SIGCONT);
  EXPECT_TRUE(eventually([this] { return runs(); }, seconds(5)));
  expect_clean();
}

// A guard that hangs keeps its target: it is the one thing that no kernel lease ends.
TEST_F(PauseDrills, AGuardThatHangsIsKilledByRecoverWhenItsLeaseIsLongOver) {
  ASSERT_NO_FATAL_FAILURE(inject("60s", "2s"));
  ::kill(guard_, SIGSTOP);
  inject_->kill();
  EXPECT_LT(ms_until_running(milliseconds(2500)), 0) << "a stopped guard does not let go";
  const Outcome recovered =
      shell(format("timeout 40 %s fault recover --on %s", kMixproofBinary, node_.c_str()));
  EXPECT_EQ(recovered.status, 0) << recovered.text;
  EXPECT_TRUE(runs());
  expect_clean();
}

}  // namespace
}  // namespace mixproof
