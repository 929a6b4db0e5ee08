// For tests of real labs: runs commands, and finds everything on this machine that carries a lab's
// name.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "harness/base/text.h"
#include "harness/controller/lab.h"
#include "tests/fake/paths.h"

namespace mixproof {

struct Outcome {
  int status = -1;
  std::string text;  // stdout and stderr
};

inline Outcome shell(const std::string& command) {
  Outcome outcome;
  std::FILE* pipe = ::popen(("( " + command + " ) 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  char buffer[4096];
  for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    outcome.text.append(buffer, got);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) outcome.status = WEXITSTATUS(status);
  return outcome;
}

inline std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Processes, mounts, loop devices, cgroups and directories that mention the name. Other labs may be
// up meanwhile.
inline std::vector<std::string> traces_of(const std::string& name) {
  std::vector<std::string> out;
  const auto lines_of = [&](const std::string& kind, const std::string& command) {
    std::string line;
    for (const char c : shell(command).text) {
      if (c != '\n') {
        line += c;
        continue;
      }
      if (line.find(name) != std::string::npos) out.push_back(kind + ": " + line);
      line.clear();
    }
  };
  lines_of("mount", "cat /proc/self/mounts");
  lines_of("loop", "cat /sys/block/loop*/loop/backing_file");
  lines_of("directory", "ls -1 -a /run/mixproof/labs");
  lines_of("cgroup", "find /sys/fs/cgroup -path '*/mixproof/*' -type d");
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    std::string line = text_of(entry.path().string() + "/cmdline");
    std::replace(line.begin(), line.end(), '\0', ' ');
    if (line.find("lab-init --lab " + name + " ") != std::string::npos)
      out.push_back("process: " + line);
  }
  return out;
}

inline std::string listed(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

class LabSystem : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0)
      GTEST_SKIP() << "needs root: a lab is made of namespaces, mounts and cgroups";
    name_ = "test-" + std::to_string(::getpid());
    links_before_ = shell("ip -o link").text;
  }

  void TearDown() override {
    if (name_.empty()) return;
    for (const std::string& name : {name_, name_ + "-two"}) {
      const Status down = lab_down(name);
      EXPECT_TRUE(down.ok()) << down.error().message;
    }
    EXPECT_EQ(listed(traces_of(name_)), "");
    EXPECT_EQ(shell("ip -o link").text, links_before_) << "the machine's own devices are as before";
  }

  LabRequest request(const std::string& nodes = "edge=1,serve=1") const {
    LabRequest request;
    request.name = name_;
    request.standing = true;
    request.nodes = parse_lab_nodes(nodes).value();
    request.shared_bytes = 32 << 20;
    request.init_binary = kMixproofBinary;
    return request;
  }

  static std::string lab_command(const std::string& words) {
    return format("%s lab %s", kMixproofBinary, words.c_str());
  }
  Outcome in_node(const std::string& node, const std::string& command) const {
    return shell(lab_command("exec " + node + " --name " + name_ + " -- sh -c '" + command + "'"));
  }

  std::string name_, links_before_;
};

}  // namespace mixproof
