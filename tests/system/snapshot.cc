#include "tests/system/snapshot.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "harness/base/epoll_world.h"
#include "harness/base/text.h"
#include "tests/fake/paths.h"
#include "tests/system/lab_fixture.h"

namespace mixproof {
namespace {

namespace fs = std::filesystem;

// Everything that the node's own tools tell. Each command's failure is part of the text.
constexpr const char* kInside =
    "echo \"# links\"; ip -d link; echo \"# addresses\"; ip addr | grep -v valid_lft; "
    "echo \"# routes\"; ip route show table all; ip -6 route show table all | sed \"s/ expires [0-9]*sec//\"; "
    "echo \"# rules\"; ip rule; ip -6 rule; echo \"# neighbours\"; ip neigh show nud permanent; "
    "echo \"# queues\"; tc qdisc; echo \"# packet filter\"; nft -s list ruleset; "
    "echo \"# mounts\"; cut -d \" \" -f 4- /proc/self/mountinfo | sed \"s/ [a-z]*:[0-9]*//g\" | sort; "
    "echo \"# shared storage\"; ls -lAnR --time-style=+ /run/mixproof/shared";

std::string cgroups_of(const LabNode& node) {
  std::vector<std::string> lines;
  const std::string suffix = "/" + node.cgroup;
  std::error_code error;
  for (const auto& hierarchy : fs::directory_iterator("/sys/fs/cgroup", error)) {
    const std::string top = hierarchy.path().string() + suffix;
    if (!fs::is_directory(top, error)) continue;
    const auto add = [&](const std::string& path) {
      std::string cpus = text_of(path + "/cpuset.cpus");
      std::replace(cpus.begin(), cpus.end(), '\n', ' ');
      lines.push_back(path + " " + cpus + text_of(path + "/freezer.state"));
    };
    add(top);
    for (const auto& entry : fs::recursive_directory_iterator(top, error))
      if (entry.is_directory(error)) add(entry.path().string());
  }
  std::sort(lines.begin(), lines.end());
  return listed(lines);
}

std::string threads_of(int pid) {
  const std::unique_ptr<HostView> host = make_real_host_view();
  const Result<ProcessId> process = host->identify(pid);
  if (!process.ok()) return "process " + std::to_string(pid) + " is gone\n";
  const Result<std::vector<ThreadState>> threads = host->threads(*process);
  if (!threads.ok())
    return "process " + std::to_string(pid) + ": " + threads.error().message + "\n";
  std::string out = format("process %d, %zu threads\n", pid, threads->size());
  for (const ThreadState& thread : *threads)
    out += format("  %d %s traced by %d\n", thread.tid, thread.stopped() ? "stopped" : "runs",
                  thread.tracer);
  return out;
}

}  // namespace

std::string node_snapshot(const Lab& lab, const LabNode& node, const std::vector<int>& pids) {
  const Outcome inside = shell(format("%s lab exec %s --name %s -- sh -c '%s'", kMixproofBinary,
                                      node.name.c_str(), lab.name.c_str(), kInside));
  std::string out = inside.text + "# cgroups\n" + cgroups_of(node) + "# threads\n";
  for (const int pid : pids) out += threads_of(pid);
  return out;
}

}  // namespace mixproof
