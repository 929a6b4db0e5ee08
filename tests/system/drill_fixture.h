// Drills with a real lab, real agents and real guards: a fault by hand on a node, whatever of ours
// killed meanwhile, `recover`, and the node as it was.
#pragma once

#include <fcntl.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/base/cgroup.h"
#include "harness/base/json.h"
#include "tests/fake/paths.h"
#include "tests/system/lab_fixture.h"
#include "tests/system/snapshot.h"
#include "tests/system/victim.h"

namespace mixproof {

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
  bool says(const std::string& text, std::chrono::milliseconds deadline) const {
    return eventually([&] { return text_of(log_).find(text) != std::string::npos; }, deadline);
  }
  std::string output() const { return text_of(log_); }
  // Its exit status, or -1 when it has not ended in time or not by itself.
  int status(std::chrono::milliseconds deadline) {
    int status = 0;
    const bool ended =
        eventually([&] { return ::waitpid(process_.pid(), &status, WNOHANG) > 0; }, deadline);
    return ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  std::string log_;
  Forked process_;
};

inline std::vector<int> children_of(int pid) {
  std::vector<int> out;
  std::istringstream words(text_of(format("/proc/%d/task/%d/children", pid, pid)));
  for (int child = 0; words >> child;) out.push_back(child);
  return out;
}

inline int parent_of(int pid) {
  std::istringstream status(text_of(format("/proc/%d/status", pid)));
  for (std::string line; std::getline(status, line);)
    if (starts_with(line, "PPid:")) return std::atoi(line.c_str() + 5);
  return 0;
}

inline void kill_hard(int pid) {
  ASSERT_GT(pid, 1) << "0 would be every process of our group";
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
}

// The descendant that was started as `mixproof ROLE`; 0 when there is none.
inline int find_role(int pid, const std::string& role) {
  for (const int child : children_of(pid)) {
    const std::vector<std::string> words = split(text_of(format("/proc/%d/cmdline", child)), '\0');
    if (words.size() > 1 && words[0] == kMixproofBinary && words[1] == role) return child;
    if (const int found = find_role(child, role)) return found;
  }
  return 0;
}

class Drills : public LabSystem {
 protected:
  // A lab with these nodes, the first of them the one that faults are injected on. Names are unique
  // on this machine: `fault inject` finds nodes of all labs.
  void bring_up(int nodes) {
    directory_ = "/tmp/" + name_;
    std::filesystem::create_directories(directory_);
    LabRequest wanted = request();
    wanted.nodes.clear();
    for (int i = 0; i < nodes; ++i)
      wanted.nodes.emplace_back(format("drill-%d-%d", ::getpid(), i), "drill");
    const Result<Lab> lab = lab_up(wanted);
    ASSERT_TRUE(lab.ok()) << lab.error().message;
    lab_ = *lab;
    node_ = lab_.nodes[0].name;
    // The group of agents that are started by hand stays with the lab.
    for (const LabNode& node : lab_.nodes)
      ASSERT_TRUE(cgroup_create(node.cgroup + "/by-hand", "").ok());
  }

  // The node as it is, with the processes that a test watches; taken once it has settled.
  virtual std::string snapshot() const { return node_snapshot(lab_, lab_.nodes[0], {}); }
  void take_before() {
    // The kernel takes a second or two to find its own IPv6 addresses unique.
    ASSERT_TRUE(
        eventually([this] { return (before_ = snapshot()).find("tentative") == std::string::npos; },
                   std::chrono::seconds(10)));
  }

  void TearDown() override {
    inject_.reset();
    LabSystem::TearDown();
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }

  std::vector<std::string> fault_command(const std::string& fault,
                                         const std::vector<std::string>& more) const {
    std::vector<std::string> words = {kMixproofBinary, "fault", "inject", fault,
                                      "--on",          node_,   "--yes"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // `mixproof fault inject`, up to the given state; then its agent and guard are known.
  void inject(const std::string& fault, const std::vector<std::string>& more,
              const std::string& state = "effective") {
    inject_ = std::make_unique<Command>(
        fault_command(fault, more), format("%s/inject%d.log", directory_.c_str(), ++injections_));
    ASSERT_TRUE(inject_->says(fault + ": " + state, std::chrono::seconds(15))) << inject_->output();
    // There is an agent on every node that takes part; that of the guard is meant.
    guard_ = find_role(inject_->pid(), "guard");
    agent_ = parent_of(guard_);
    ASSERT_NE(agent_, 0);
    ASSERT_NE(guard_, 0);
  }

  // From now until it holds; negative when it takes longer than the limit.
  static double ms_until(const std::function<bool()>& holds, std::chrono::milliseconds limit) {
    const auto begin = std::chrono::steady_clock::now();
    if (!eventually(holds, limit)) return -1;
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
        .count();
  }

  // `recover` says that the node is clean, the journal agrees, and the node is as it was.
  void expect_recovered() {
    const Outcome recovered =
        shell(format("timeout 30 %s fault recover --on %s", kMixproofBinary, node_.c_str()));
    EXPECT_EQ(recovered.status, 0) << recovered.text;
    EXPECT_EQ(journal_states().find_first_not_of("clean,"), std::string::npos) << journal_states();
    EXPECT_EQ(snapshot(), before_);
  }
  std::string journal_states() const {
    const Outcome status =
        shell(format("timeout 30 %s fault status --json --on %s", kMixproofBinary, node_.c_str()));
    std::string out;
    for (const std::string& line : split(status.text, '\n')) {
      const Result<Json> fault = parse_json(line, "status");
      if (fault.ok()) out += (out.empty() ? "" : ",") + text_at(*fault, "state");
    }
    EXPECT_FALSE(out.empty()) << status.text;
    return out;
  }

  std::string directory_, node_, before_;
  Lab lab_;
  std::unique_ptr<Command> inject_;
  int agent_ = 0, guard_ = 0, injections_ = 0;
};

}  // namespace mixproof
