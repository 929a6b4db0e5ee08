// What is left of a lab when its maker fails or is killed, and what must never be touched.
#include <sys/mount.h>

#include <chrono>

#include "harness/base/cgroup.h"
#include "tests/fake/paths.h"
#include "tests/system/lab_fixture.h"

namespace mixproof {
namespace {

using std::chrono::steady_clock;

int start_up(const std::string& name) {
  const int pid = ::fork();
  if (pid != 0) return pid;
  ::freopen("/dev/null", "w", stderr);
  ::execl(kMixproofBinary, "mixproof", "lab", "up", "--nodes", "4", "--name", name.c_str(),
          nullptr);
  ::_exit(1);
}

int end_of(int pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status;
}

TEST_F(LabSystem, TracesOfALabAreSeenWhileItIsUp) {
  ASSERT_TRUE(lab_up(request()).ok());
  const std::string traces = listed(traces_of(name_));
  for (const char* kind : {"mount: ", "loop: ", "directory: ", "cgroup: ", "process: "})
    EXPECT_NE(traces.find(kind), std::string::npos) << kind << "is what the tests below look for";
}

// How long an undisturbed `lab up` takes; the shortest of three, because the machine may be busy.
std::chrono::microseconds time_of_up(const std::string& name) {
  auto best = std::chrono::microseconds::max();
  for (int i = 0; i < 3; ++i) {
    const auto begin = steady_clock::now();
    EXPECT_EQ(end_of(start_up(name)), 0);
    best = std::min(
        best, std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - begin));
    EXPECT_TRUE(lab_down(name).ok());
  }
  return best;
}

// True when it was killed, not done before.
bool kill_up_after(const std::string& name, std::chrono::microseconds delay) {
  const int maker = start_up(name);
  ::usleep(static_cast<useconds_t>(delay.count()));
  ::kill(maker, SIGKILL);
  return WIFSIGNALED(end_of(maker));
}

TEST_F(LabSystem, DownClearsWhatAKilledUpLeftWheneverItWasKilled) {
  const auto whole = time_of_up(name_);
  constexpr int kTries = 16;
  int killed = 0, with_traces = 0;
  for (int i = 0; i < kTries; ++i) {
    killed += kill_up_after(name_, whole * i / kTries) ? 1 : 0;
    with_traces += traces_of(name_).empty() ? 0 : 1;
    const Outcome down = shell(lab_command("down " + name_));
    ASSERT_EQ(down.status, 0) << down.text;
    EXPECT_EQ(listed(traces_of(name_)), "") << "try " << i;
    ::usleep(50000);
    EXPECT_EQ(listed(traces_of(name_)), "") << "later, try " << i;
  }
  EXPECT_GE(killed, kTries / 4);
  EXPECT_GE(with_traces, kTries / 4);
}

TEST_F(LabSystem, TheNextUpClearsWhatAKilledUpLeft) {
  const auto whole = time_of_up(name_);
  int seen = 0;
  for (int i = 1; i < 6; ++i) {
    kill_up_after(name_, whole * i / 6);
    if (traces_of(name_).empty() ||
        shell(lab_command("status")).text.find(name_ + ": standing") != std::string::npos) {
      ASSERT_TRUE(lab_down(name_).ok());  // killed too early or too late to leave a part of a lab
      continue;
    }
    ++seen;
    EXPECT_EQ(end_of(start_up(name_)), 0) << i;
    EXPECT_EQ(
        shell(lab_command("exec edge-0 --name " + name_ + " -- ping -c 1 -W 2 10.77.0.3")).status,
        0);
    ASSERT_TRUE(lab_down(name_).ok());
  }
  EXPECT_GE(seen, 1);
}

TEST_F(LabSystem, AKilledDownIsFinishedByTheNext) {
  for (const useconds_t delay : {2000u, 5000u, 10000u, 15000u}) {
    ASSERT_EQ(end_of(start_up(name_)), 0);
    const int down = ::fork();
    if (down == 0) {
      ::execl(kMixproofBinary, "mixproof", "lab", "down", name_.c_str(), nullptr);
      ::_exit(1);
    }
    ::usleep(delay);
    ::kill(down, SIGKILL);
    end_of(down);
    EXPECT_EQ(shell(lab_command("down " + name_)).status, 0);
    EXPECT_EQ(listed(traces_of(name_)), "") << delay;
  }
}

TEST_F(LabSystem, ALabWhoseOwnerWasKilledIsStaleAndOthersAreNot) {
  LabRequest standing = request();
  standing.name = name_ + "-two";
  ASSERT_TRUE(lab_up(standing).ok());
  const int owner = ::fork();
  if (owner == 0) {
    LabRequest owned = request();
    owned.standing = false;
    ::_exit(lab_up(owned).ok() && lab_clear_stale().ok() ? 0 : 1);
  }
  ASSERT_EQ(end_of(owner), 0);
  EXPECT_NE(listed(traces_of(name_)).find("--lab " + name_ + " --node"), std::string::npos)
      << "its nodes outlive it";
  const Status cleared = lab_clear_stale();
  EXPECT_TRUE(cleared.ok()) << cleared.error().message;
  int stale = 0, standing_up = 0;
  const std::vector<Lab> all = labs().value();
  for (const Lab& lab : all) {
    stale += lab.name == name_ ? 1 : 0;
    standing_up += lab.name == standing.name && !lab_is_stale(lab) ? 1 : 0;
  }
  EXPECT_EQ(stale, 0);
  EXPECT_EQ(standing_up, 1);
}

TEST_F(LabSystem, ADamagedRecordIsReportedAndTheLabClearedByName) {
  ASSERT_TRUE(lab_up(request()).ok());
  const std::string path = "/run/mixproof/labs/" + name_ + "/lab.json";
  const std::string text = text_of(path);
  for (const std::string& damaged :
       {text.substr(0, text.size() / 2), std::string(), std::string("[]")}) {
    std::ofstream(path) << damaged;
    const Result<std::vector<Lab>> all = labs();
    ASSERT_TRUE(all.ok());
    for (const Lab& lab : all.value()) {
      const bool damage_told = !lab.damage.empty();
      EXPECT_TRUE(lab.name != name_ || damage_told);
    }
    EXPECT_TRUE(lab_clear_stale().ok());
    EXPECT_FALSE(lab_up(request()).ok()) << "it may be somebody's";
    EXPECT_NE(shell(lab_command("status")).text.find(name_ + ": damaged"), std::string::npos);
  }
  const Outcome down = shell(lab_command("down " + name_));
  EXPECT_EQ(down.status, 0) << down.text;
  EXPECT_EQ(listed(traces_of(name_)), "");
}

TEST_F(LabSystem, AFailedUpLeavesNothing) {
  LabRequest wrong = request();
  wrong.init_binary = "/nonexistent/mixproof";
  const Result<Lab> lab = lab_up(wrong);
  ASSERT_FALSE(lab.ok());
  EXPECT_NE(lab.error().message.find("/nonexistent/mixproof"), std::string::npos)
      << lab.error().message;
  EXPECT_EQ(listed(traces_of(name_)), "");

  wrong = request();
  wrong.init_binary = "/bin/true";  // ends without a word
  const Result<Lab> silent = lab_up(wrong);
  ASSERT_FALSE(silent.ok());
  EXPECT_EQ(silent.error().code, Code::kPeerLost) << silent.error().message;
  EXPECT_EQ(listed(traces_of(name_)), "");
}

TEST_F(LabSystem, WhatOnlyResemblesALabIsLeftAlone) {
  const Result<Lab> lab = lab_up(request());
  ASSERT_TRUE(lab.ok()) << lab.error().message;
  const std::string foreign = "/run/mixproof/labs/" + name_ + "x";
  ASSERT_EQ(shell("mkdir -p " + foreign + "/mounted").status, 0);
  ASSERT_EQ(::mount("tmpfs", (foreign + "/mounted").c_str(), "tmpfs", 0, "size=64k"), 0);
  ASSERT_TRUE(cgroup_create("mixproof/" + name_ + "x/node", "").ok());
  const int neighbour = ::fork();
  if (neighbour == 0) {
    if (!cgroup_join("mixproof/" + name_ + "x/node").ok()) ::_exit(1);
    while (true) ::pause();
  }
  // A process whose number and start time the record names, as if the number had been handed on: it
  // lacks the mark.
  const int stranger = ::fork();
  if (stranger == 0) {
    ::execlp("sleep", "mixproof", "1000", nullptr);
    ::_exit(1);
  }
  ::usleep(50000);
  const std::string path = lab->dir + "/lab.json";
  std::string text = text_of(path);
  const std::string pid = "\"pid\": " + std::to_string(lab->nodes[0].init_pid);
  ASSERT_NE(text.find(pid), std::string::npos) << text;
  const std::string ticks = "\"start_ticks\": " + std::to_string(lab->nodes[0].init_start);
  const std::string start =
      shell("cut -d ' ' -f 22 /proc/" + std::to_string(stranger) + "/stat | tr -d '\\n'").text;
  text.replace(text.find(pid), pid.size(), "\"pid\": " + std::to_string(stranger));
  text.replace(text.find(ticks), ticks.size(), "\"start_ticks\": " + start);
  std::ofstream(path) << text;

  const Status down = lab_down(name_);
  EXPECT_TRUE(down.ok()) << down.error().message;
  EXPECT_TRUE(lab_clear_stale().ok());
  EXPECT_EQ(::waitpid(stranger, nullptr, WNOHANG), 0) << "the stranger lives";
  EXPECT_EQ(::waitpid(neighbour, nullptr, WNOHANG), 0) << "the neighbour lives";
  EXPECT_EQ(cgroup_members("mixproof/" + name_ + "x"), std::vector<int>{neighbour});
  EXPECT_EQ(shell("mountpoint -q " + foreign + "/mounted").status, 0);
  EXPECT_FALSE(lab_process_alive(lab->nodes[0].init_pid, lab->nodes[0].init_start))
      << "the real init is gone all the same";

  for (const int process : {stranger, neighbour}) {
    ::kill(process, SIGKILL);
    end_of(process);
  }
  ::umount2((foreign + "/mounted").c_str(), 0);
  std::filesystem::remove_all(foreign);
  EXPECT_TRUE(cgroup_remove("mixproof/" + name_ + "x").ok());
}

}  // namespace
}  // namespace mixproof
