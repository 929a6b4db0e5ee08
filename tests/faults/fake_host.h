// A node whose processes are what the test says.
#pragma once

#include <map>

#include "harness/base/host_operation.h"

namespace mixproof {

class FakeHost final : public HostView {
 public:
  Result<ProcessId> identify(int pid) const override {
    for (const auto& [start, threads] : processes)
      if (start.first == pid) return ProcessId{pid, start.second};
    return Error{Code::kUnavailable, "process " + std::to_string(pid) + " has ended"};
  }
  Result<int> parent(int) const override { return 0; }
  Result<std::vector<ThreadState>> threads(const ProcessId& process) const override {
    const auto it = processes.find({process.pid, process.start_ticks});
    if (it == processes.end())
      return Error{Code::kUnavailable,
                   "process " + std::to_string(process.pid) + " has been replaced"};
    return it->second;
  }
  std::vector<int> members(const std::string&) const override { return {}; }
  Result<FileSystem> file_system(const std::string& directory) const override {
    const auto it = file_systems.find(directory);
    if (it == file_systems.end())
      return Error{Code::kUnavailable, "there is no directory " + directory};
    return it->second;
  }
  Result<std::uint64_t> net_namespace() const override { return 4026531840; }
  Result<std::vector<std::string>> addresses() const override { return own_addresses; }

  std::map<std::pair<int, std::uint64_t>, std::vector<ThreadState>> processes;
  std::map<std::string, FileSystem> file_systems;  // by directory
  std::vector<std::string> own_addresses;
};

}  // namespace mixproof
