#include "harness/base/cgroup.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace mixproof {
namespace {

using std::chrono::milliseconds;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class CgroupSystem : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    group_ = "mixproof/test-" + std::to_string(::getpid());
  }

  void TearDown() override {
    if (group_.empty()) return;
    EXPECT_TRUE(cgroup_kill(group_, milliseconds(5000)).ok());
    for (const int pid : children_) ::waitpid(pid, nullptr, 0);
    EXPECT_TRUE(cgroup_remove(group_).ok());
    EXPECT_TRUE(directories().empty()) << "left: " << directories().front();
  }

  // A process that joins and then does what it is told, for as long as this test runs.
  int start_in(const std::string& group, void (*body)() = nullptr) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const int pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const char said = cgroup_join(group).ok() ? 'y' : 'n';
      if (::write(ready[1], &said, 1) == 1 && said == 'y' && body != nullptr) body();
      while (true) ::pause();
    }
    children_.push_back(pid);
    char said = '?';
    EXPECT_EQ(::read(ready[0], &said, 1), 1);
    EXPECT_EQ(said, 'y');
    ::close(ready[0]);
    ::close(ready[1]);
    return pid;
  }

  std::vector<std::string> directories() const {
    const CgroupMounts mounts = find_cgroup_mounts(text_of("/proc/self/mountinfo"));
    std::vector<std::string> out;
    for (const std::string& root : {mounts.cpuset, mounts.freezer, mounts.unified}) {
      if (!root.empty() && std::filesystem::exists(root + "/" + group_))
        out.push_back(root + "/" + group_);
    }
    return out;
  }

  std::string group_;
  std::vector<int> children_;
};

TEST_F(CgroupSystem, MembersOfAllLevelsAreSeenAndKilled) {
  ASSERT_TRUE(cgroup_create(group_, "").ok());
  ASSERT_TRUE(cgroup_create(group_ + "/node/llm.0", "").ok());
  const int outer = start_in(group_), inner = start_in(group_ + "/node/llm.0");
  std::vector<int> expected{outer, inner};
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(cgroup_members(group_), expected);
  EXPECT_EQ(cgroup_members(group_ + "/node"), std::vector<int>{inner});

  ASSERT_TRUE(cgroup_kill(group_ + "/node", milliseconds(5000)).ok());
  int status = 0;
  ASSERT_EQ(::waitpid(inner, &status, 0), inner);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_EQ(cgroup_members(group_), std::vector<int>{outer}) << "the group above keeps its own";
  EXPECT_EQ(::kill(outer, 0), 0);
}

TEST_F(CgroupSystem, NothingForksAwayFromAKill) {
  ASSERT_TRUE(cgroup_create(group_, "").ok());
  // Each process lives for a moment and leaves a successor: a list read once is always out of date.
  start_in(group_, [] {
    while (true) {
      if (::fork() != 0) ::_exit(0);
      ::usleep(200);
    }
  });
  const Status killed = cgroup_kill(group_, milliseconds(5000));
  EXPECT_TRUE(killed.ok()) << killed.error().message;
  ::usleep(20000);
  EXPECT_TRUE(cgroup_members(group_).empty());
}

TEST_F(CgroupSystem, StoppedAndFrozenMembersAreKilledToo) {
  ASSERT_TRUE(cgroup_create(group_ + "/frozen", "").ok());
  const int stopped = start_in(group_ + "/frozen");
  ::kill(stopped, SIGSTOP);
  const CgroupMounts mounts = find_cgroup_mounts(text_of("/proc/self/mountinfo"));
  const bool v1 = !mounts.freezer.empty();
  const std::string file = v1 ? mounts.freezer + "/" + group_ + "/frozen/freezer.state"
                              : mounts.unified + "/" + group_ + "/frozen/cgroup.freeze";
  std::ofstream(file) << (v1 ? "FROZEN" : "1");
  const Status killed = cgroup_kill(group_, milliseconds(5000));
  EXPECT_TRUE(killed.ok()) << killed.error().message;
}

TEST_F(CgroupSystem, CpusAreThoseAskedForOrThoseOfTheParent) {
  ASSERT_TRUE(cgroup_create(group_ + "/half", "0").ok());
  ASSERT_TRUE(cgroup_create(group_ + "/half/child", "").ok());
  ASSERT_TRUE(cgroup_create(group_ + "/all", "").ok());
  const auto cpus_of = [](int pid) {
    cpu_set_t set;
    CPU_ZERO(&set);
    ::sched_getaffinity(pid, sizeof set, &set);
    return CPU_COUNT(&set);
  };
  const int here = cpus_of(0);
  EXPECT_EQ(cpus_of(start_in(group_ + "/half")), 1);
  EXPECT_EQ(cpus_of(start_in(group_ + "/half/child")), 1);
  EXPECT_EQ(cpus_of(start_in(group_ + "/all")), here);
  ASSERT_TRUE(cgroup_create(group_ + "/all", "0").ok())
      << "another list is applied to a group that exists";
  EXPECT_EQ(cpus_of(start_in(group_ + "/all")), 1);
  EXPECT_FALSE(cgroup_create(group_ + "/impossible", "4000").ok());
}

TEST_F(CgroupSystem, MembersInAnotherPidNamespaceAreListedAsTheReaderSeesThem) {
  ASSERT_TRUE(cgroup_create(group_, "").ok());
  const int outer = start_in(group_, [] {
    if (::unshare(CLONE_NEWPID) == 0 && ::fork() == 0) ::pause();
  });
  std::vector<int> members;
  for (int i = 0; i < 200 && members.size() < 2; ++i) {
    ::usleep(5000);
    members = cgroup_members(group_);
  }
  ASSERT_EQ(members.size(), 2u);
  EXPECT_NE(members[0], 1);
  EXPECT_TRUE(std::find(members.begin(), members.end(), outer) != members.end());
}

TEST_F(CgroupSystem, RefusesToKillItsCallerAndToRemoveWhatIsInUse) {
  ASSERT_TRUE(cgroup_create(group_, "").ok());
  const int member = start_in(group_);
  EXPECT_FALSE(cgroup_remove(group_).ok());
  EXPECT_EQ(::kill(member, 0), 0);

  const int self = ::fork();
  if (self == 0) {
    const bool refused = cgroup_join(group_).ok() &&
                         cgroup_kill(group_, milliseconds(100)).error().code == Code::kInvalid;
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(self, &status, 0), self);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(CgroupSystem, AGroupIsDroppedWithThoseAboveItOnlyWhereTheyAreEmpty) {
  ASSERT_TRUE(cgroup_create(group_ + "/run/a", "").ok());
  ASSERT_TRUE(cgroup_create(group_ + "/run/b/llm.0", "").ok());
  const auto there = [this](const std::string& below) {
    for (const std::string& group : directories())
      if (std::filesystem::exists(group + below)) return true;
    return false;
  };
  const int member = start_in(group_ + "/run/b/llm.0");
  cgroup_drop_empty(group_ + "/run/b");
  EXPECT_TRUE(there("/run/b/llm.0")) << "a group below is in the way";
  cgroup_drop_empty(group_ + "/run/b/llm.0");
  EXPECT_TRUE(there("/run/b/llm.0"));
  EXPECT_EQ(::kill(member, 0), 0) << "nothing is killed";
  cgroup_drop_empty(group_ + "/run/a");
  EXPECT_FALSE(there("/run/a"));
  EXPECT_TRUE(there("/run/b")) << "the neighbour stays";
  ASSERT_TRUE(cgroup_kill(group_ + "/run", milliseconds(5000)).ok());
  ::waitpid(member, nullptr, 0);
  ASSERT_TRUE(cgroup_remove(group_ + "/run/b/llm.0").ok());
  cgroup_drop_empty(group_ + "/run/b");
  EXPECT_TRUE(directories().empty()) << "all of them were empty";
  cgroup_drop_empty(group_);
}

TEST_F(CgroupSystem, AbsentGroupsAreNoErrorAndNeighboursStay) {
  EXPECT_TRUE(cgroup_kill(group_, milliseconds(100)).ok());
  EXPECT_TRUE(cgroup_remove(group_).ok());
  EXPECT_FALSE(cgroup_join(group_).ok());
  ASSERT_TRUE(cgroup_create(group_, "").ok());
  ASSERT_TRUE(cgroup_create(group_ + "x/y", "").ok());
  ASSERT_TRUE(cgroup_remove(group_).ok());
  const int neighbour = start_in(group_ + "x/y");
  EXPECT_EQ(cgroup_members(group_ + "x"), std::vector<int>{neighbour});
  EXPECT_TRUE(cgroup_kill(group_ + "x", milliseconds(5000)).ok());
  ::waitpid(neighbour, nullptr, 0);
  EXPECT_TRUE(cgroup_remove(group_ + "x").ok());
}

}  // namespace
}  // namespace mixproof
