// The real operator of a kill, on real processes.
#include "harness/agent/kill_process.h"

#include <sys/stat.h>

#include <fstream>

#include "harness/base/text.h"
#include "tests/system/victim.h"

namespace mixproof {
namespace {

using std::chrono::seconds;

// A process that only waits. Its parent, the test, does not collect it before the end.
struct Sleeper {
  Sleeper()
      : process([] {
          while (true) ::pause();
        }) {}
  ProcessId id() const { return make_real_host_view()->identify(process.pid()).value(); }
  bool lives() const { return make_real_host_view()->identify(process.pid()).ok(); }
  Forked process;
};

class KillProcessSystem : public testing::Test {
 protected:
  Status apply(const HostOperation& operation) { return kill_->apply(operation, seconds(15)); }

  std::unique_ptr<HostView> host_ = make_real_host_view();
  std::unique_ptr<HostOperator> kill_ = make_kill_process(*host_);
};

TEST_F(KillProcessSystem, KillsExactlyTheProcessesThatAreMeant) {
  Victim victim;
  const Sleeper second, other;
  const HostOperation operation = KillProcess{{victim.id(), second.id()}};
  const auto preimage = kill_->preimage(operation);
  ASSERT_TRUE(preimage.ok());
  EXPECT_NE(preimage->find("2 processes"), std::string::npos) << *preimage;
  EXPECT_TRUE(second.lives()) << "looking kills nobody";
  const Status applied = apply(operation);
  ASSERT_TRUE(applied.ok()) << applied.error().message;
  EXPECT_TRUE(victim.threads().empty()) << "gone when the call returns";
  EXPECT_FALSE(second.lives());
  EXPECT_TRUE(other.lives());
  int status = 0;
  ASSERT_EQ(::waitpid(second.process.pid(), &status, 0), second.process.pid());
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  EXPECT_TRUE(kill_->undo(operation, *preimage).ok());
  EXPECT_TRUE(kill_->undo(operation, *preimage).ok()) << "twice is once";
  EXPECT_TRUE(kill_->verify_undone(operation).ok());
  EXPECT_TRUE(other.lives());
}

TEST_F(KillProcessSystem, AProcessThatHasTakenItsNumberIsLeftAlone) {
  const Sleeper first, second;
  ProcessId replaced = second.id();
  ++replaced.start_ticks;
  const HostOperation operation = KillProcess{{first.id(), replaced}};
  EXPECT_EQ(kill_->preimage(operation).error().code, Code::kUnavailable);
  const Status applied = apply(operation);
  ASSERT_FALSE(applied.ok());
  EXPECT_EQ(applied.error().code, Code::kUnavailable);
  EXPECT_NE(applied.error().message.find("has been replaced"), std::string::npos);
  EXPECT_TRUE(second.lives());
  EXPECT_TRUE(first.lives()) << "all of them or none";
  EXPECT_TRUE(kill_->verify_undone(operation).ok());
}

TEST_F(KillProcessSystem, WhatIsGoneAlreadyIsUnavailable) {
  Sleeper gone;
  const Sleeper other;
  const HostOperation operation = KillProcess{{other.id(), gone.id()}};
  gone.process.end();
  EXPECT_EQ(kill_->preimage(operation).error().code, Code::kUnavailable);
  const Status applied = apply(operation);
  ASSERT_FALSE(applied.ok());
  EXPECT_EQ(applied.error().code, Code::kUnavailable);
  EXPECT_TRUE(other.lives()) << "all of them or none";
  EXPECT_TRUE(kill_->undo(operation, "").ok());
  EXPECT_TRUE(kill_->verify_undone(operation).ok());
}

TEST_F(KillProcessSystem, AZombieIsGone) {
  const Sleeper sleeper;
  const HostOperation operation = KillProcess{{sleeper.id()}};
  sleeper.process.signal(SIGKILL);
  ASSERT_TRUE(eventually([&] { return !sleeper.lives(); }, seconds(5)));
  ASSERT_EQ(::kill(sleeper.process.pid(), 0), 0) << "nobody has collected it";
  const Status applied = apply(operation);
  ASSERT_FALSE(applied.ok()) << "it died before we could kill it";
  EXPECT_EQ(applied.error().code, Code::kUnavailable);
  EXPECT_TRUE(kill_->verify_undone(operation).ok());
}

// A parent that starts its child anew whenever that dies.
TEST_F(KillProcessSystem, AParentHasNoTimeToReplaceItsChild) {
  auto* child = static_cast<std::atomic<int>*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  Forked parent([child] {
    while (true) {
      const int pid = ::fork();
      if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (true) ::pause();
      }
      *child = pid;
      ::waitpid(pid, nullptr, 0);
    }
  });
  ASSERT_TRUE(eventually([&] { return *child != 0; }, seconds(5)));
  const int first = *child;
  const HostOperation operation =
      KillProcess{{host_->identify(parent.pid()).value(), host_->identify(first).value()}};
  const Status applied = apply(operation);
  ASSERT_TRUE(applied.ok()) << applied.error().message;
  EXPECT_FALSE(host_->identify(first).ok());
  EXPECT_EQ(*child, first) << "another one was started";
  ::munmap(child, 4096);
}

// A guard that died between its journal's "begin" and the signal: the process runs on, and nothing
// of ours is about to end it.
TEST_F(KillProcessSystem, AKillThatWasBegunAndNotDoneIsClean) {
  const Sleeper sleeper;
  const HostOperation operation = KillProcess{{sleeper.id()}};
  EXPECT_TRUE(kill_->undo(operation, "").ok());
  EXPECT_TRUE(kill_->verify_undone(operation).ok());
  EXPECT_TRUE(sleeper.lives());
}

// A group of cgroup version 1's freezer, where even a killed process stays until it is thawed.
class Freezer {
 public:
  Freezer() : path_(format("/sys/fs/cgroup/freezer/mixproof-kill-%d", ::getpid())) {
    made_ = ::mkdir(path_.c_str(), 0700) == 0;
  }
  ~Freezer() {
    if (!made_) return;
    set("freezer.state", "THAWED");
    eventually([this] { return ::rmdir(path_.c_str()) == 0; }, seconds(5));
  }
  bool made() const { return made_; }
  void set(const char* file, const std::string& value) const {
    std::ofstream(path_ + "/" + file) << value;
  }
  std::string state() const {
    std::string word;
    std::ifstream(path_ + "/freezer.state") >> word;
    return word;
  }

 private:
  std::string path_;
  bool made_ = false;
};

TEST_F(KillProcessSystem, ADeathStillToComeIsNotClean) {
  const Freezer freezer;
  if (!freezer.made()) GTEST_SKIP() << "needs root and the freezer of cgroup version 1";
  Sleeper sleeper;
  const HostOperation operation = KillProcess{{sleeper.id()}};
  freezer.set("cgroup.procs", std::to_string(sleeper.process.pid()));
  freezer.set("freezer.state", "FROZEN");
  ASSERT_TRUE(eventually([&] { return freezer.state() == "FROZEN"; }, seconds(5)));
  const Status applied = apply(operation);
  ASSERT_FALSE(applied.ok()) << "it cannot die";
  EXPECT_EQ(applied.error().code, Code::kTimeout);
  EXPECT_TRUE(kill_->undo(operation, "").ok());
  const Status verified = kill_->verify_undone(operation);
  ASSERT_FALSE(verified.ok()) << "it will die when it is thawed";
  EXPECT_EQ(verified.error().code, Code::kConflict);
  freezer.set("freezer.state", "THAWED");
  EXPECT_TRUE(eventually([&] { return !sleeper.lives(); }, seconds(5)));
  EXPECT_TRUE(kill_->verify_undone(operation).ok());
  sleeper.process.end();  // collected, or its group would stay
}

}  // namespace
}  // namespace mixproof
