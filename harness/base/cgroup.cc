#include "harness/base/cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <set>
#include <thread>

#include "harness/base/text.h"
#include "harness/base/unique_fd.h"

namespace mixproof {
namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kFreezeWait{
    50};  // a member in uninterruptible sleep may not freeze; it is killed all the same
constexpr milliseconds kRemoveWait{2000};
// Version 2 lets no process into a group whose parent holds processes and passes a controller on.
// So that a group can hold both processes and groups, as in version 1, its own processes sit in
// this leaf of it.
constexpr const char* kLeaf = "/.self";
constexpr int kCreateAttempts =
    20;  // another process may take an empty parent away between our two steps

// Files of cgroups are small and written in one call. Both return an errno, 0 when all went well.
int write_text(const std::string& path, std::string_view text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return errno;
  const ssize_t written = ::write(fd.get(), text.data(), text.size());
  if (written < 0) return errno;
  return static_cast<std::size_t>(written) == text.size() ? 0 : EIO;
}

int read_text(const std::string& path, std::string& out) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return errno;
  out.clear();
  char buffer[16384];
  while (true) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return 0;
    out.append(buffer, static_cast<std::size_t>(got));
  }
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

struct Hierarchies {
  bool v2 = false;
  std::string cpuset, freezer;  // the same directory in v2

  std::vector<std::string> roots() const {
    if (cpuset == freezer) return {cpuset};
    return {cpuset, freezer};
  }
};

bool has_word(const std::string& text, std::string_view wanted) {
  const std::vector<std::string> words = split(text, ' ');
  return std::find(words.begin(), words.end(), wanted) != words.end();
}

Result<Hierarchies> find_hierarchies() {
  std::string mountinfo, controllers;
  if (const int error = read_text("/proc/self/mountinfo", mountinfo))
    return system_error("read /proc/self/mountinfo", error);
  const CgroupMounts mounts = find_cgroup_mounts(mountinfo);
  if (!mounts.unified.empty() &&
      read_text(mounts.unified + "/cgroup.controllers", controllers) == 0 &&
      has_word(trimmed(controllers), "cpuset"))
    return Hierarchies{true, mounts.unified, mounts.unified};
  if (!mounts.cpuset.empty() && !mounts.freezer.empty())
    return Hierarchies{false, mounts.cpuset, mounts.freezer};
  return Error{
      Code::kUnavailable,
      "no usable cgroups: neither version 2 with its cpuset controller nor version 1 cpuset and freezer mounted"};
}

int make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) == 0 || errno == EEXIST) return 0;
  return errno;
}

// Version 1 takes no task into a cpuset whose cpus or mems are empty, which is how a new one is
// born.
int fill_from_parent(const std::string& parent, const std::string& path, const char* file) {
  std::string value;
  if (const int error = read_text(path + "/" + file, value)) return error;
  if (!trimmed(value).empty()) return 0;
  if (const int error = read_text(parent + "/" + file, value)) return error;
  return write_text(path + "/" + file, trimmed(value));
}

struct Failure {
  int error = 0;
  std::string what;
};

Failure apply_cpus(const Hierarchies& at, const std::string& parent, const std::string& path,
                   const std::string& cpus) {
  const std::string file = path + "/cpuset.cpus";
  std::string wanted = cpus, present;
  if (wanted.empty() && !at.v2) {
    if (const int error = read_text(parent + "/cpuset.cpus", wanted))
      return {error, "read cpus of " + parent};
    wanted = trimmed(wanted);
  }
  if (const int error = read_text(file, present)) return {error, "read " + file};
  if (trimmed(present) == wanted) return {};
  // In version 2 an empty list (one newline) means those of the parent.
  const int error = write_text(file, wanted.empty() ? "\n" : wanted);
  return {error, "set cpus \"" + wanted + "\" in " + file};
}

Failure create_once(const Hierarchies& at, const std::string& group, const std::string& cpus) {
  const std::vector<std::string> parts = split(group, '/');
  std::string parent = at.cpuset;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string path = parent + "/" + parts[i];
    if (at.v2) {
      if (const int error = write_text(parent + "/cgroup.subtree_control", "+cpuset"))
        return {error, "pass cpuset on in " + parent};
    }
    if (const int error = make_directory(path)) return {error, "create " + path};
    if (!at.v2) {
      if (const int error = fill_from_parent(parent, path, "cpuset.mems"))
        return {error, "set mems of " + path};
      if (const int error = fill_from_parent(parent, path, "cpuset.cpus"))
        return {error, "set cpus of " + path};
    }
    if (i + 1 == parts.size()) {
      const Failure applied = apply_cpus(at, parent, path, cpus);
      if (applied.error != 0) return applied;
    }
    parent = path;
  }
  if (at.v2) return {};
  parent = at.freezer;
  for (const std::string& part : parts) {
    parent += "/" + part;
    if (const int error = make_directory(parent)) return {error, "create " + parent};
  }
  return {};
}

// The group and all groups below it, parents first; empty when it is absent.
std::vector<std::string> directories(const std::string& root, const std::string& group) {
  const std::string top = root + "/" + group;
  if (!exists(top)) return {};
  std::vector<std::string> out{top};
  std::error_code error;
  std::filesystem::recursive_directory_iterator it(top, error);
  for (const std::filesystem::recursive_directory_iterator end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) out.push_back(it->path().string());
  }
  return out;
}

std::set<int> members_of(const Hierarchies& at, const std::string& group) {
  std::set<int> pids;
  for (const std::string& root : at.roots()) {
    for (const std::string& directory : directories(root, group)) {
      std::string text;
      if (read_text(directory + "/cgroup.procs", text) != 0) continue;
      for (const std::string& line : split(text, '\n')) {
        int pid = 0;
        std::from_chars(line.data(), line.data() + line.size(), pid);
        if (pid > 0)
          pids.insert(pid);  // version 2 shows 0 for a process outside the reader's pid namespace
      }
    }
  }
  return pids;
}

void freeze(const Hierarchies& at, const std::string& group) {
  const std::string path = at.freezer + "/" + group;
  write_text(path + (at.v2 ? "/cgroup.freeze" : "/freezer.state"), at.v2 ? "1" : "FROZEN");
  const auto until = SteadyClock::now() + kFreezeWait;
  std::string state;
  while (SteadyClock::now() < until) {
    if (read_text(path + (at.v2 ? "/cgroup.events" : "/freezer.state"), state) != 0) return;
    if (state.find(at.v2 ? "frozen 1" : "FROZEN") != std::string::npos) return;
    std::this_thread::sleep_for(milliseconds(1));
  }
}

// Every group below as well: a fault may have frozen one by itself.
void thaw(const Hierarchies& at, const std::string& group) {
  for (const std::string& path : directories(at.freezer, group))
    write_text(path + (at.v2 ? "/cgroup.freeze" : "/freezer.state"), at.v2 ? "0" : "THAWED");
}

// A number may pass to another process between reading and signalling: only a process that is still
// a member after its pidfd was opened is signalled.
void signal_members(const Hierarchies& at, const std::string& group) {
  std::vector<std::pair<int, UniqueFd>> opened;
  for (const int pid : members_of(at, group)) {
    UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (fd) opened.emplace_back(pid, std::move(fd));
  }
  const std::set<int> still = members_of(at, group);
  for (const auto& [pid, fd] : opened) {
    if (still.count(pid) != 0) ::syscall(SYS_pidfd_send_signal, fd.get(), SIGKILL, nullptr, 0);
  }
}

}  // namespace

Status cgroup_create(const std::string& group, const std::string& cpus) {
  TRY(check_cgroup_name(group));
  const Hierarchies at = TRY(find_hierarchies());
  Failure failure;
  for (int attempt = 0; attempt < kCreateAttempts; ++attempt) {
    failure = create_once(at, group, cpus);
    if (failure.error == 0) return ok();
    if (failure.error != ENOENT && failure.error != ENODEV) break;
  }
  Error error = system_error(failure.what, failure.error);
  if (failure.error == EROFS || failure.error == EACCES || failure.error == EPERM)
    error.code = Code::kUnavailable;
  return std::move(error).in("cgroup " + group);
}

Status cgroup_join(const std::string& group) {
  TRY(check_cgroup_name(group));
  const Hierarchies at = TRY(find_hierarchies());
  for (const std::string& root : at.roots()) {
    std::string path = root + "/" + group;
    if (at.v2) {
      path += kLeaf;
      if (const int error = make_directory(path)) return system_error("create " + path, error);
    }
    const std::string file = path + "/cgroup.procs";
    if (const int error = write_text(file, "0")) return system_error("join " + file, error);
  }
  return ok();
}

std::vector<int> cgroup_members(const std::string& group) {
  if (!check_cgroup_name(group).ok()) return {};
  const Result<Hierarchies> at = find_hierarchies();
  if (!at.ok()) return {};
  const std::set<int> pids = members_of(at.value(), group);
  return {pids.begin(), pids.end()};
}

Status cgroup_kill(const std::string& group, milliseconds deadline) {
  TRY(check_cgroup_name(group));
  const Hierarchies at = TRY(find_hierarchies());
  const auto until = SteadyClock::now() + deadline;
  std::set<int> left = members_of(at, group);
  if (left.empty()) return ok();
  if (left.count(::getpid()) != 0)
    return Error{Code::kInvalid,
                 "cgroup " + group + " holds the process that was asked to kill it"};
  freeze(at, group);
  signal_members(at, group);
  thaw(at, group);
  for (milliseconds pause(1); !left.empty(); pause = std::min(2 * pause, milliseconds(20))) {
    std::this_thread::sleep_for(pause);
    left = members_of(at, group);
    if (left.empty()) break;
    if (SteadyClock::now() >= until) {
      std::string pids;
      for (const int pid : left) pids += " " + std::to_string(pid);
      return Error{Code::kTimeout, "cgroup " + group + ": still there after SIGKILL:" + pids};
    }
    signal_members(at, group);
  }
  return ok();
}

Status cgroup_remove(const std::string& group) {
  TRY(check_cgroup_name(group));
  const Hierarchies at = TRY(find_hierarchies());
  const auto until = SteadyClock::now() + kRemoveWait;
  Status first = ok();
  for (const std::string& root : at.roots()) {
    std::vector<std::string> paths = directories(root, group);
    std::reverse(paths.begin(), paths.end());
    for (const std::string& path : paths) {
      int error = 0;
      // A process that has just been killed keeps its group busy until the kernel has taken it
      // apart.
      while ((error = ::rmdir(path.c_str()) == 0 ? 0 : errno) == EBUSY &&
             SteadyClock::now() < until)
        std::this_thread::sleep_for(milliseconds(5));
      if (error != 0 && error != ENOENT && first.ok())
        first = system_error("remove cgroup " + path, error);
    }
    ::rmdir((root + "/mixproof").c_str());  // fails while anything else is in it, as it should
  }
  return first;
}

void cgroup_drop_empty(const std::string& group) {
  const Result<Hierarchies> at = find_hierarchies();
  if (!at.ok() || !check_cgroup_name(group).ok()) return;
  for (const std::string& root : at->roots())
    for (std::string path = group; !path.empty();) {
      if (at->v2) ::rmdir((root + "/" + path + kLeaf).c_str());
      if (::rmdir((root + "/" + path).c_str()) != 0) break;
      const std::size_t slash = path.rfind('/');
      path.resize(slash == std::string::npos ? 0 : slash);
    }
}

}  // namespace mixproof
