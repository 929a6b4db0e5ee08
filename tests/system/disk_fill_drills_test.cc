// Drills of disk_fill on the shared storage of a lab: whatever of ours is killed while it is full,
// the space is back in time, `recover` proves it, and the node is as it was.
#include "harness/controller/lab_files.h"
#include "tests/system/drill_fixture.h"
#include "tests/system/own_mounts.h"

namespace mixproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

class FillDrills : public Drills {
 protected:
  void SetUp() override {
    Drills::SetUp();
    if (IsSkipped()) return;
    ASSERT_NO_FATAL_FAILURE(bring_up(1));
    shared_ = lab_shared(lab_.dir);
    ASSERT_EQ(write_error(shared_), 0);
    free_before_ = free_bytes(shared_);
    ASSERT_NO_FATAL_FAILURE(take_before());
  }

  bool full() const { return write_error(shared_) == ENOSPC; }
  bool back() const { return free_bytes(shared_) == free_before_; }
  void inject(const std::string& length, const std::string& lease = "15s") {
    ASSERT_NO_FATAL_FAILURE(Drills::inject("disk_fill", {"--for", length, "--lease", lease}));
    ASSERT_TRUE(full());
  }
  double ms_until_back(milliseconds limit) const {
    return ms_until([this] { return back(); }, limit);
  }
  void expect_clean() {
    EXPECT_TRUE(back()) << free_bytes(shared_) << " of " << free_before_;
    EXPECT_EQ(write_error(shared_, 1 << 20), 0);
    expect_recovered();
  }

  std::string shared_;
  std::int64_t free_before_ = 0;
};

TEST_F(FillDrills, WritersInTheNodeMeetNoSpaceUntilItIsOver) {
  ASSERT_EQ(shell(format("head -c 1048576 /dev/zero > %s/theirs", shared_.c_str())).status, 0);
  ASSERT_NO_FATAL_FAILURE(inject("6s"));
  const Outcome refused = in_node(node_, "dd if=/dev/zero of=/run/mixproof/shared/x bs=4k count=1");
  EXPECT_NE(refused.status, 0);
  EXPECT_NE(refused.text.find("No space left on device"), std::string::npos) << refused.text;
  // What others delete meanwhile is taken as well.
  std::filesystem::remove(shared_ + "/theirs");
  std::filesystem::remove(shared_ + "/x");
  EXPECT_TRUE(eventually([this] { return full(); }, seconds(3)));
  EXPECT_EQ(inject_->status(seconds(30)), 0) << inject_->output();
  EXPECT_NE(inject_->output().find("disk_fill: clean"), std::string::npos) << inject_->output();
  expect_clean();
}

TEST_F(FillDrills, AFullDiskIsNotFilledAgain) {
  shell(format("head -c 100000000 /dev/zero > %s/theirs", shared_.c_str()));
  ASSERT_TRUE(full());
  auto inject = Command(fault_command("disk_fill", {"--for", "2s"}), directory_ + "/full.log");
  EXPECT_EQ(inject.status(seconds(30)), 2) << inject.output();
  EXPECT_NE(inject.output().find("disk_fill: not_effective"), std::string::npos);
  EXPECT_NE(inject.output().find("already within"), std::string::npos) << inject.output();
  EXPECT_EQ(inject.output().find("disk_fill: effective"), std::string::npos) << inject.output();
  std::filesystem::remove(shared_ + "/theirs");
  expect_clean();
}

TEST_F(FillDrills, TheFileSystemsOfRootAndOfTheJournalsAreNoTargets) {
  for (const char* path : {"/", "/var/lib/mixproof"}) {
    auto inject =
        Command(fault_command("disk_fill", {"--param", std::string("path=") + path, "--dry-run"}),
                directory_ + "/refused.log");
    EXPECT_EQ(inject.status(seconds(30)), 4) << path << "\n" << inject.output();
    EXPECT_NE(inject.output().find("which no fault may touch"), std::string::npos)
        << inject.output();
  }
}

TEST_F(FillDrills, KillingControllerAgentAndGuardTogether) {
  std::vector<double> took_ms;
  for (int i = 0; i < 3; ++i) {
    ASSERT_NO_FATAL_FAILURE(inject("60s"));
    for (const int pid : {inject_->pid(), agent_, guard_}) kill_hard(pid);
    took_ms.push_back(ms_until_back(seconds(1)));
    EXPECT_GE(took_ms.back(), 0) << "still full after a second";
    inject_.reset();
    expect_clean();
  }
  std::sort(took_ms.begin(), took_ms.end());
  std::printf(
      "from SIGKILL of controller, agent and guard to all space: median %.1f ms, worst %.1f ms\n",
      took_ms[1], took_ms[2]);
}

TEST_F(FillDrills, KillingTheControllerAlone) {
  ASSERT_NO_FATAL_FAILURE(inject("60s"));
  inject_->kill();
  const double took_ms = ms_until_back(seconds(5));
  EXPECT_GE(took_ms, 0) << "the agent reverts when nobody talks to it any more";
  std::printf("from SIGKILL of the controller to all space: %.1f ms\n", took_ms);
  EXPECT_TRUE(
      eventually([this] { return ::kill(agent_, 0) != 0 && ::kill(guard_, 0) != 0; }, seconds(5)));
  EXPECT_EQ(journal_states(), "clean");
  expect_clean();
}

TEST_F(FillDrills, KillingTheAgentAlone) {
  ASSERT_NO_FATAL_FAILURE(inject("60s", "3s"));
  const auto injected = steady_clock::now();
  kill_hard(agent_);
  EXPECT_GE(ms_until_back(seconds(8)), 0) << "its lease was 3 s";
  EXPECT_GT(steady_clock::now() - injected, milliseconds(500)) << "its guard held it for the lease";
  EXPECT_EQ(inject_->status(seconds(30)), 3) << inject_->output();
  EXPECT_NE(inject_->output().find("clean (proved by a new agent on " + node_ + ")"),
            std::string::npos)
      << inject_->output();
  expect_clean();
}

TEST_F(FillDrills, KillingTheGuardAlone) {
  ASSERT_NO_FATAL_FAILURE(inject("60s"));
  kill_hard(guard_);
  const double took_ms = ms_until_back(seconds(1));
  EXPECT_GE(took_ms, 0);
  std::printf("from SIGKILL of the guard to all space: %.1f ms\n", took_ms);
  EXPECT_EQ(inject_->status(seconds(20)), 3) << "it did not last: " << inject_->output();
  EXPECT_NE(inject_->output().find("disk_fill: guard_lost"), std::string::npos)
      << inject_->output();
  EXPECT_NE(inject_->output().find("disk_fill: clean"), std::string::npos) << inject_->output();
  expect_clean();
}

}  // namespace
}  // namespace mixproof
