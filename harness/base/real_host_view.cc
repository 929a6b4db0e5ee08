// The real HostView: /proc and system calls. Only ENOENT and ESRCH mean that a process is gone; any
// other failure to read is not known.
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <charconv>
#include <memory>
#include <set>
#include <sstream>

#include "harness/base/cgroup.h"
#include "harness/base/epoll_world.h"
#include "harness/base/text.h"
#include "harness/base/unique_fd.h"

namespace mixproof {
namespace {

struct Stat {
  char state = '?';
  int parent = 0;
  std::uint64_t start_ticks = 0;
};

Error proc_error(const std::string& path, int error) {
  if (error == ENOENT || error == ESRCH) return {Code::kUnavailable, path + ": no such process"};
  return system_error("read " + path, error);
}

Result<std::string> read_proc(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return proc_error(path, errno);
  std::string out;
  char buffer[4096];
  while (true) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return proc_error(path, errno);
    if (got == 0) return out;
    out.append(buffer, static_cast<std::size_t>(got));
  }
}

// /proc/PID/stat: the command in parentheses may hold anything, so fields are counted from the last
// ')'.
Result<Stat> read_stat(const std::string& path) {
  const std::string text = TRY(read_proc(path));
  const std::size_t close = text.rfind(')');
  if (close == std::string::npos || close + 2 > text.size())
    return Error{Code::kSystem, path + ": unexpected content"};
  const std::vector<std::string> fields = split(std::string_view(text).substr(close + 2), ' ');
  if (fields.size() < 20) return Error{Code::kSystem, path + ": too few fields"};
  Stat stat;
  stat.state = fields[0].empty() ? '?' : fields[0][0];
  const std::string& parent = fields[1];  // field 4 of the line
  if (std::from_chars(parent.data(), parent.data() + parent.size(), stat.parent).ec != std::errc())
    return Error{Code::kSystem, path + ": unexpected content"};
  const std::string& ticks = fields[19];  // field 22 of the line
  std::from_chars(ticks.data(), ticks.data() + ticks.size(), stat.start_ticks);
  return stat;
}

std::string directory_of(int pid) { return "/proc/" + std::to_string(pid); }

// kUnavailable when the thread ended meanwhile: gone, or only waiting to be reaped.
Result<ThreadState> read_status(const std::string& path, int tid) {
  const std::string text = TRY(read_proc(path));
  ThreadState thread;
  thread.tid = tid;
  bool seen_switches = false;
  std::istringstream lines(text);
  std::string key;
  for (std::string line; std::getline(lines, line);) {
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
  if (thread.state == 'Z' || thread.state == 'X')
    return Error{Code::kUnavailable, path + ": ended"};
  if (!seen_switches) return Error{Code::kSystem, path + ": unexpected content"};
  return thread;
}

Result<std::vector<int>> list_threads(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
  if (!directory) return proc_error(path, errno);
  std::vector<int> out;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) break;
    const std::string_view name(entry->d_name);
    int tid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), tid).ec == std::errc())
      out.push_back(tid);
  }
  if (errno != 0) return proc_error(path, errno);
  return out;
}

class RealHostView final : public HostView {
 public:
  Result<ProcessId> identify(int pid) const override {
    const Stat stat = TRY(read_stat(directory_of(pid) + "/stat"));
    if (stat.state == 'Z' || stat.state == 'X')
      return Error{Code::kUnavailable, "process " + std::to_string(pid) + " has ended"};
    return ProcessId{pid, stat.start_ticks};
  }

  Result<int> parent(int pid) const override {
    const Stat stat = TRY(read_stat(directory_of(pid) + "/stat"));
    return stat.parent;
  }

  Result<std::vector<ThreadState>> threads(const ProcessId& process) const override {
    const ProcessId now = TRY(identify(process.pid));
    if (now != process)
      return Error{Code::kUnavailable,
                   "process " + std::to_string(process.pid) + " has been replaced by another"};
    std::vector<ThreadState> out;
    const std::string directory = directory_of(process.pid) + "/task/";
    const std::vector<int> tids = TRY(list_threads(directory));
    for (const int tid : tids) {
      const Result<ThreadState> thread =
          read_status(directory + std::to_string(tid) + "/status", tid);
      if (thread.ok())
        out.push_back(*thread);
      else if (thread.error().code != Code::kUnavailable)
        return thread.error();
    }
    if (out.empty())
      return Error{Code::kUnavailable, "process " + std::to_string(process.pid) + " has ended"};
    return out;
  }

  std::vector<int> members(const std::string& cgroup) const override {
    return cgroup_members(cgroup);
  }

  Result<FileSystem> file_system(const std::string& directory) const override {
    struct stat place {};
    struct statvfs space {};
    if (::stat(directory.c_str(), &place) != 0 || !S_ISDIR(place.st_mode)) {
      if (errno == ENOENT || errno == ENOTDIR || S_ISREG(place.st_mode))
        return Error{Code::kUnavailable, "there is no directory " + directory};
      return system_error("stat " + directory);
    }
    if (::statvfs(directory.c_str(), &space) != 0) return system_error("statvfs " + directory);
    const auto bytes = [&space](fsblkcnt_t blocks) {
      return static_cast<std::int64_t>(blocks) * static_cast<std::int64_t>(space.f_frsize);
    };
    return FileSystem{
        .device = place.st_dev, .bytes = bytes(space.f_blocks), .free_bytes = bytes(space.f_bfree)};
  }

  Result<std::uint64_t> net_namespace() const override {
    struct stat file {};
    if (::stat("/proc/self/ns/net", &file) != 0) return system_error("stat /proc/self/ns/net");
    return static_cast<std::uint64_t>(file.st_ino);
  }

  Result<std::vector<std::string>> addresses() const override {
    ifaddrs* first = nullptr;
    if (::getifaddrs(&first) != 0) return system_error("getifaddrs");
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, ::freeifaddrs);
    std::set<std::string> out;
    for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0 ||
          (one->ifa_flags & IFF_LOOPBACK) != 0)
        continue;
      char text[INET6_ADDRSTRLEN] = "";
      const int family = one->ifa_addr->sa_family;
      const void* bytes = nullptr;
      if (family == AF_INET)
        bytes = &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr;
      else if (family == AF_INET6)
        bytes = &reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr;
      if (bytes != nullptr && ::inet_ntop(family, bytes, text, sizeof text) != nullptr)
        out.insert(text);
    }
    return std::vector<std::string>(out.begin(), out.end());
  }
};

}  // namespace

std::unique_ptr<HostView> make_real_host_view() { return std::make_unique<RealHostView>(); }

}  // namespace mixproof
