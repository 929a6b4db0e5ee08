// The real HostView: /proc.
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "harness/base/cgroup.h"
#include "harness/base/epoll_world.h"
#include "harness/base/text.h"

namespace mixproof {
namespace {

struct Stat {
  char state = '?';
  std::uint64_t start_ticks = 0;
};

// /proc/PID/stat: the command in parentheses may hold anything, so fields are counted from the last ')'.
Result<Stat> read_stat(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  if (!file || !std::getline(file, text, '\0')) return Error{Code::kUnavailable, path + ": no such process"};
  const std::size_t close = text.rfind(')');
  if (close == std::string::npos) return Error{Code::kSystem, path + ": unexpected content"};
  const std::vector<std::string> fields = split(std::string_view(text).substr(close + 2), ' ');
  if (fields.size() < 20) return Error{Code::kSystem, path + ": too few fields"};
  Stat stat;
  stat.state = fields[0].empty() ? '?' : fields[0][0];
  const std::string& ticks = fields[19];   // field 22 of the line
  std::from_chars(ticks.data(), ticks.data() + ticks.size(), stat.start_ticks);
  return stat;
}

std::string directory_of(int pid) { return "/proc/" + std::to_string(pid); }

// False when the thread ended meanwhile.
bool read_status(const std::string& path, ThreadState& thread) {
  std::ifstream file(path);
  if (!file) return false;
  std::string key;
  bool seen_switches = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    words >> key;
    if (key == "State:") words >> thread.state;
    if (key == "TracerPid:") words >> thread.tracer;
    if (key == "voluntary_ctxt_switches:" || key == "nonvoluntary_ctxt_switches:") {
      std::uint64_t count = 0;
      words >> count;
      thread.switches += count;
      seen_switches = true;
    }
  }
  return seen_switches;
}

class RealHostView final : public HostView {
 public:
  Result<ProcessId> identify(int pid) const override {
    const Stat stat = TRY(read_stat(directory_of(pid) + "/stat"));
    if (stat.state == 'Z' || stat.state == 'X')
      return Error{Code::kUnavailable, "process " + std::to_string(pid) + " has ended"};
    return ProcessId{pid, stat.start_ticks};
  }

  Result<std::vector<ThreadState>> threads(const ProcessId& process) const override {
    const ProcessId now = TRY(identify(process.pid));
    if (now != process)
      return Error{Code::kUnavailable, "process " + std::to_string(process.pid) + " has been replaced by another"};
    std::vector<ThreadState> out;
    std::error_code error;
    std::filesystem::directory_iterator it(directory_of(process.pid) + "/task", error);
    for (const std::filesystem::directory_iterator end; !error && it != end; it.increment(error)) {
      ThreadState thread;
      const std::string name = it->path().filename().string();
      std::from_chars(name.data(), name.data() + name.size(), thread.tid);
      if (read_status(it->path().string() + "/status", thread)) out.push_back(thread);
    }
    if (out.empty()) return Error{Code::kUnavailable, "process " + std::to_string(process.pid) + " has ended"};
    return out;
  }

  std::vector<int> members(const std::string& cgroup) const override { return cgroup_members(cgroup); }
};

}  // namespace

std::unique_ptr<HostView> make_real_host_view() { return std::make_unique<RealHostView>(); }

}  // namespace mixproof
