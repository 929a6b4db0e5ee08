// Drills of process_kill: whatever of ours is killed right around the injection, the target is
// wholly gone or wholly untouched, `recover` says that nothing is left, and the node is as it was.
#include "tests/fake/paths.h"
#include "tests/system/drill_fixture.h"

namespace mixproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class KillDrills : public Drills {
 protected:
  void SetUp() override {
    Drills::SetUp();
    if (IsSkipped()) return;
    ASSERT_NO_FATAL_FAILURE(bring_up(1));
    ASSERT_NO_FATAL_FAILURE(take_before());
  }
  void TearDown() override {
    inject_.reset();
    victims_.clear();
    Drills::TearDown();
  }

  struct Target {
    int outer_pid = 0;
    std::string inner_pid;
    bool lives() const { return make_real_host_view()->identify(outer_pid).ok(); }
  };
  // A new process in the node.
  Target start_target() {
    victims_.push_back(
        std::make_unique<Command>(std::vector<std::string>{kMixproofBinary, "lab", "exec", node_,
                                                           "--name", name_, "--", "sleep", "1000"},
                                  format("%s/victim%zu.log", directory_.c_str(), victims_.size())));
    Target target;
    EXPECT_TRUE(eventually(
        [&] {
          const std::vector<int> children = children_of(victims_.back()->pid());
          target.outer_pid = children.empty() ? 0 : children[0];
          return target.outer_pid != 0 &&
                 text_of(format("/proc/%d/cmdline", target.outer_pid)).find("1000") !=
                     std::string::npos;
        },
        seconds(10)))
        << victims_.back()->output();
    std::istringstream status(text_of(format("/proc/%d/status", target.outer_pid)));
    for (std::string line; std::getline(status, line);)
      if (starts_with(line, "NSpid:")) target.inner_pid = line.substr(line.rfind('\t') + 1);
    return target;
  }

  // Starts the injection; the agent is known when this returns.
  void begin(const Target& target) {
    inject_ = std::make_unique<Command>(
        fault_command("process_kill", {"--pid", target.inner_pid, "--lease", "2s"}),
        format("%s/kill%d.log", directory_.c_str(), ++injections_));
    ASSERT_TRUE(inject_->says("process_kill: planned", seconds(15))) << inject_->output();
    agent_ = find_role(inject_->pid(), "agent");
    ASSERT_NE(agent_, 0);
  }
  void until_guarded() {
    ASSERT_TRUE(eventually([this] { return (guard_ = find_role(inject_->pid(), "guard")) != 0; },
                           seconds(10)))
        << inject_->output();
  }

  // Without the groups of guards: one that dies before its journal tells of it leaves its group,
  // which is empty, to whoever takes the node down.
  static std::string without_guard_groups(const std::string& snapshot) {
    std::string out;
    for (const std::string& line : split(snapshot, '\n'))
      if (!line.empty() && line.find("/guard.") == std::string::npos) out += line + "\n";
    return out;
  }

  // Nothing of ours is left, whatever became of the target.
  void expect_nothing_left(const Target& target) {
    const Outcome recovered =
        shell(format("timeout 30 %s fault recover --on %s", kMixproofBinary, node_.c_str()));
    EXPECT_EQ(recovered.status, 0) << recovered.text;
    const Outcome status =
        shell(format("timeout 30 %s fault status --json --on %s", kMixproofBinary, node_.c_str()));
    for (const std::string& line : split(status.text, '\n'))
      if (const Result<Json> fault = parse_json(line, "status"); fault.ok()) {
        EXPECT_TRUE(flag_at(*fault, "resolved")) << line;
        EXPECT_TRUE(text_at(*fault, "state") == "clean" || text_at(*fault, "state") == "planned")
            << line;
      }
    if (target.lives()) {
      EXPECT_NE(text_of(format("/proc/%d/status", target.outer_pid)).find("TracerPid:\t0"),
                std::string::npos);
    }
    inject_.reset();
    victims_.clear();
    EXPECT_EQ(without_guard_groups(snapshot()), without_guard_groups(before_));
  }

  std::vector<std::unique_ptr<Command>> victims_;
};

TEST_F(KillDrills, KillsWhatItIsToldAndNothingElse) {
  const Target target = start_target(), other = start_target();
  inject_ = std::make_unique<Command>(
      fault_command("process_kill", {"--pid", target.inner_pid, "--dry-run"}),
      directory_ + "/dry.log");
  EXPECT_EQ(inject_->status(seconds(20)), 0) << inject_->output();
  EXPECT_NE(inject_->output().find("over at once"), std::string::npos) << inject_->output();
  EXPECT_TRUE(target.lives()) << "a dry run kills nobody";
  inject_ = std::make_unique<Command>(
      fault_command("process_kill", {"--pid", target.inner_pid, "--for", "5s"}),
      directory_ + "/for.log");
  EXPECT_EQ(inject_->status(seconds(20)), 4) << inject_->output();
  ASSERT_NO_FATAL_FAILURE(begin(target));
  EXPECT_EQ(inject_->status(seconds(30)), 0) << inject_->output();
  for (const char* state : {"injected", "effective", "reverting", "clean"})
    EXPECT_NE(inject_->output().find("process_kill: " + std::string(state)), std::string::npos)
        << inject_->output();
  EXPECT_FALSE(target.lives());
  EXPECT_TRUE(other.lives());
  expect_nothing_left(target);
}

TEST_F(KillDrills, ATargetThatGoesAwayBeforeItsTurnIsNotOurKill) {
  const Target target = start_target();
  ASSERT_NO_FATAL_FAILURE(begin(target));
  kill_hard(target.outer_pid);
  EXPECT_EQ(inject_->status(seconds(30)), 6) << inject_->output();
  EXPECT_NE(inject_->output().find("process_kill: refused"), std::string::npos)
      << inject_->output();
  EXPECT_EQ(inject_->output().find("effective"), std::string::npos) << inject_->output();
  expect_nothing_left(target);
}

TEST_F(KillDrills, ItsGuardDiesAroundTheInjection) {
  for (const int delay_ms : {0, 10, 40}) {
    const Target target = start_target();
    ASSERT_NO_FATAL_FAILURE(begin(target));
    ASSERT_NO_FATAL_FAILURE(until_guarded());
    std::this_thread::sleep_for(milliseconds(delay_ms));
    ::kill(guard_, SIGKILL);  // it may have ended by itself by now
    const int status = inject_->status(seconds(30));
    const std::string said = inject_->output();
    EXPECT_TRUE(status == 0 || status == 2 || status == 3 || status == 6)
        << delay_ms << ": " << status << "\n"
        << said;
    if (said.find("process_kill: effective") != std::string::npos) {
      EXPECT_FALSE(target.lives()) << delay_ms;
    }
    expect_nothing_left(target);
  }
}

TEST_F(KillDrills, ItsAgentDiesAroundTheInjection) {
  for (const int delay_ms : {0, 20}) {
    const Target target = start_target();
    ASSERT_NO_FATAL_FAILURE(begin(target));
    ASSERT_NO_FATAL_FAILURE(until_guarded());
    std::this_thread::sleep_for(milliseconds(delay_ms));
    kill_hard(agent_);
    EXPECT_EQ(inject_->status(seconds(40)), 3) << delay_ms << "\n" << inject_->output();
    EXPECT_EQ(inject_->output().find("process_kill: dirty"), std::string::npos)
        << inject_->output();
    expect_nothing_left(target);
  }
}

TEST_F(KillDrills, EverythingOfOursDiesAroundTheInjection) {
  for (const int delay_ms : {0, 20}) {
    const Target target = start_target();
    ASSERT_NO_FATAL_FAILURE(begin(target));
    ASSERT_NO_FATAL_FAILURE(until_guarded());
    std::this_thread::sleep_for(milliseconds(delay_ms));
    for (const int pid : {inject_->pid(), agent_, guard_}) ::kill(pid, SIGKILL);
    expect_nothing_left(target);
  }
}

TEST_F(KillDrills, ItsControllerDiesAroundTheInjection) {
  const Target target = start_target();
  ASSERT_NO_FATAL_FAILURE(begin(target));
  ASSERT_NO_FATAL_FAILURE(until_guarded());
  inject_->kill();
  EXPECT_TRUE(
      eventually([this] { return ::kill(agent_, 0) != 0 && ::kill(guard_, 0) != 0; }, seconds(10)));
  expect_nothing_left(target);
}

}  // namespace
}  // namespace mixproof
