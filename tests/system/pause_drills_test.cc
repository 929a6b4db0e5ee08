// Drills with a real lab, real agents and real guards: whatever of ours is killed while a process
// is paused, it runs again in time, `recover` proves it, and the node is as it was.
#include <fcntl.h>

#include <nlohmann/json.hpp>

#include "harness/base/cgroup.h"
#include "harness/base/json.h"
#include "tests/system/lab_fixture.h"
#include "tests/system/snapshot.h"
#include "tests/system/victim.h"

namespace mixproof {
namespace {

using std::chrono::duration;
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

// A command of ours, its output in a file; killed and collected with this object.
class Command {
 public:
  Command(std::vector<std::string> argv, const std::string& log)
      : log_(log), process_([argv = std::move(argv), log]() mutable {
          const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
          ::dup2(fd, 1);
          ::dup2(fd, 2);
          std::vector<char*> words;
          for (std::string& word : argv) words.push_back(word.data());
          words.push_back(nullptr);
          ::execvp(words[0], words.data());
          ::_exit(127);
        }) {}
  int pid() const { return process_.pid(); }
  void kill() { process_.signal(SIGKILL); }
  bool says(const std::string& text, milliseconds deadline) const {
    return eventually([&] { return text_of(log_).find(text) != std::string::npos; }, deadline);
  }
  std::string output() const { return text_of(log_); }
  // Its exit status, or -1 when it has not ended in time or not by itself.
  int status(milliseconds deadline) {
    int status = 0;
    const bool ended =
        eventually([&] { return ::waitpid(process_.pid(), &status, WNOHANG) > 0; }, deadline);
    return ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  std::string log_;
  Forked process_;
};

std::vector<int> children_of(int pid) {
  std::vector<int> out;
  std::istringstream words(text_of(format("/proc/%d/task/%d/children", pid, pid)));
  for (int child = 0; words >> child;) out.push_back(child);
  return out;
}

void kill_hard(int pid) {
  ASSERT_GT(pid, 1) << "0 would be every process of our group";
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
}

// The descendant that was started as `mixproof ROLE`; 0 when there is none.
int find_role(int pid, const std::string& role) {
  for (const int child : children_of(pid)) {
    const std::vector<std::string> words = split(text_of(format("/proc/%d/cmdline", child)), '\0');
    if (words.size() > 1 && words[0] == MIXPROOF_BINARY && words[1] == role) return child;
    if (const int found = find_role(child, role)) return found;
  }
  return 0;
}

class PauseDrills : public LabSystem {
 protected:
  void SetUp() override {
    LabSystem::SetUp();
    if (IsSkipped()) return;
    directory_ = "/tmp/" + name_;
    std::filesystem::create_directories(directory_);
    LabRequest wanted = request();
    node_ = "drill-" + std::to_string(::getpid());  // no other lab of this machine has such a node
    wanted.nodes = {{node_, "drill"}};
    const Result<Lab> lab = lab_up(wanted);
    ASSERT_TRUE(lab.ok()) << lab.error().message;
    lab_ = *lab;
    // The group of agents that are started by hand stays with the lab.
    ASSERT_TRUE(cgroup_create(lab_.nodes[0].cgroup + "/by-hand", "").ok());
    victim_ = std::make_unique<Command>(
        std::vector<std::string>{MIXPROOF_BINARY, "lab", "exec", node_, "--name", name_, "--",
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
    // The kernel takes a second or two to find its own IPv6 addresses unique.
    ASSERT_TRUE(
        eventually([this] { return (before_ = snapshot()).find("tentative") == std::string::npos; },
                   seconds(10)));
  }

  void TearDown() override {
    inject_.reset();
    victim_.reset();
    LabSystem::TearDown();
    std::filesystem::remove_all(directory_);
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
  std::string snapshot() const { return node_snapshot(lab_, lab_.nodes[0], {outer_pid_}); }

  void inject(const std::string& length, const std::string& lease = "15s") {
    inject_ = std::make_unique<Command>(
        std::vector<std::string>{MIXPROOF_BINARY, "fault", "inject", "process_pause", "--on", node_,
                                 "--pid", inner_pid_, "--for", length, "--lease", lease, "--yes"},
        directory_ + "/inject" + std::to_string(++injections_) + ".log");
    ASSERT_TRUE(inject_->says("process_pause: effective", seconds(15))) << inject_->output();
    ASSERT_TRUE(paused());
    agent_ = find_role(inject_->pid(), "agent");
    guard_ = find_role(inject_->pid(), "guard");
    ASSERT_NE(agent_, 0);
    ASSERT_NE(guard_, 0);
  }

  // From now to every thread running; negative when it takes longer than the limit.
  double ms_until_running(milliseconds limit) const {
    const auto begin = steady_clock::now();
    if (!eventually([this] { return runs(); }, limit)) return -1;
    return duration<double, std::milli>(steady_clock::now() - begin).count();
  }

  // `recover` says that the node is clean, the journal agrees, and the node is as it was.
  void expect_clean() {
    const Outcome recovered =
        shell(format("timeout 30 %s fault recover --on %s", MIXPROOF_BINARY, node_.c_str()));
    EXPECT_EQ(recovered.status, 0) << recovered.text;
    EXPECT_EQ(journal_states().find_first_not_of("clean,"), std::string::npos) << journal_states();
    EXPECT_TRUE(runs());
    EXPECT_EQ(snapshot(), before_);
  }
  std::string journal_states() const {
    const Outcome status =
        shell(format("timeout 30 %s fault status --json --on %s", MIXPROOF_BINARY, node_.c_str()));
    std::string out;
    for (const std::string& line : split(status.text, '\n')) {
      const Result<Json> fault = parse_json(line, "status");
      if (fault.ok()) out += (out.empty() ? "" : ",") + text_at(*fault, "state");
    }
    EXPECT_FALSE(out.empty()) << status.text;
    return out;
  }

  std::string directory_, node_, inner_pid_, before_;
  Lab lab_;
  std::unique_ptr<Command> victim_, inject_;
  int outer_pid_ = 0, agent_ = 0, guard_ = 0, injections_ = 0;
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

// A guard that hangs keeps its target: it is the one thing that no kernel lease ends.
TEST_F(PauseDrills, AGuardThatHangsIsKilledByRecoverWhenItsLeaseIsLongOver) {
  ASSERT_NO_FATAL_FAILURE(inject("60s", "2s"));
  ::kill(guard_, SIGSTOP);
  inject_->kill();
  EXPECT_LT(ms_until_running(milliseconds(2500)), 0) << "a stopped guard does not let go";
  const Outcome recovered =
      shell(format("timeout 40 %s fault recover --on %s", MIXPROOF_BINARY, node_.c_str()));
  EXPECT_EQ(recovered.status, 0) << recovered.text;
  EXPECT_TRUE(runs());
  expect_clean();
}

}  // namespace
}  // namespace mixproof
