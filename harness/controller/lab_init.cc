#include "harness/controller/lab_init.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "harness/base/json.h"
#include "harness/base/text.h"
#include "harness/controller/lab_files.h"
#include "harness/controller/lab_storage.h"

namespace mixproof {
namespace {

constexpr int kReportFd = 3;

struct Options {
  std::string lab, node;
  bool fabric = false;
  std::size_t index = 0;
};

Result<Options> parse(std::span<const std::string> args) {
  Options options;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--fabric") {
      options.fabric = true;
      continue;
    }
    if (i + 1 == args.size())
      return Error{Code::kInvalid, "lab-init: " + args[i] + " needs a value"};
    const std::string& value = args[i + 1];
    if (args[i] == "--lab")
      options.lab = value;
    else if (args[i] == "--node")
      options.node = value;
    else if (args[i] == "--index")
      std::from_chars(value.data(), value.data() + value.size(), options.index);
    else
      return Error{Code::kInvalid, "lab-init: unknown option " + args[i]};
    ++i;
  }
  TRY(check_lab_name(options.lab));
  if (!options.fabric) TRY(check_lab_name(options.node));
  return options;
}

void report(const Json& json) {
  const std::string line = line_of(json) + "\n";
  if (::write(kReportFd, line.data(), line.size()) < 0) ::_exit(1);  // nobody waits for us any more
}

[[noreturn]] void fail(const Error& error) {
  report({{"error", error_to_json(error)}});
  ::_exit(1);
}

struct Namespace {
  int flag;
  const char* name;
};

Status leave_namespace(const Namespace& which) {
  if (::unshare(which.flag) == 0) return ok();
  const int error = errno;
  const Code code =
      error == EINVAL || error == EPERM || error == ENOSPC ? Code::kUnavailable : Code::kSystem;
  const char* hint = error == ENOSPC ? " (a limit in /proc/sys/user/max_*_namespaces)" : "";
  return Error{
      code, system_error("make a " + std::string(which.name) + " namespace", error).message + hint};
}

Status mount_checked(const char* source, const std::string& target, const char* type,
                     unsigned long flags) {
  if (::mount(source, target.c_str(), type, flags, nullptr) == 0) return ok();
  return system_error("mount " + std::string(source == nullptr ? "" : source) + " on " + target);
}

// A file is written in one call, as /proc wants it.
Status write_once(const std::string& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return system_error("open " + path);
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return system_error("write " + path);
  return ok();
}

// Thousands of seconds, different for each node: a program that compares clocks of two nodes is
// wrong at once.
std::string clock_offsets(std::size_t index) {
  const std::size_t monotonic = 2000 + 1117 * index, boottime = 5000 + 1373 * index;
  return format("monotonic %zu 0\nboottime %zu 0\n", monotonic, boottime);
}

// sysfs shows the network devices of the namespace it was mounted from. A new one is mounted for
// the node, and what is mounted on the old one (cgroups above all) is carried over.
Status renew_sysfs() {
  struct Carried {
    std::string point;
    UniqueFd tree;
  };
  std::vector<Carried> carried;
  const std::vector<std::string> points = TRY(mounts_below("/sys"));
  for (const std::string& point : points) {
    const bool inside = std::any_of(carried.begin(), carried.end(), [&](const Carried& c) {
      return starts_with(point, c.point + "/") || point == c.point;
    });
    if (inside) continue;
    UniqueFd tree(
        ::open_tree(AT_FDCWD, point.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
    if (!tree) return system_error("open_tree " + point);
    carried.push_back({point, std::move(tree)});
  }
  TRY(mount_checked("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC));
  for (const Carried& entry : carried) {
    if (::move_mount(entry.tree.get(), "", AT_FDCWD, entry.point.c_str(),
                     MOVE_MOUNT_F_EMPTY_PATH) != 0)
      return system_error("carry over the mount " + entry.point);
  }
  return ok();
}

// Copies of mounts of this and other labs would keep their loop devices busy after they are taken
// down.
Status drop_lab_mounts() {
  std::vector<std::string> points = TRY(mounts_below(kLabsDir));
  std::reverse(points.begin(), points.end());
  for (const std::string& point : points) {
    // Gone meanwhile: whoever takes a lab down removes its directory, and with it our copy.
    if (::umount2(point.c_str(), MNT_DETACH) != 0 && errno != EINVAL && errno != ENOENT)
      return system_error("unmount " + point);
  }
  return ok();
}

Status make_mounts(const Options& options) {
  const std::string dir = lab_dir(options.lab), node_dir = lab_node_dir(dir, options.node);
  TRY(mount_checked(nullptr, "/", nullptr, MS_REC | MS_PRIVATE));
  TRY(mount_checked("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC));
  TRY(renew_sysfs());
  TRY(mount_checked((node_dir + "/boot_id").c_str(), "/proc/sys/kernel/random/boot_id", nullptr,
                    MS_BIND));
  TRY(mount_checked((node_dir + "/state").c_str(), kNodeStateDir, nullptr, MS_BIND));
  TRY(mount_checked(lab_shared(dir).c_str(), kNodeSharedDir, nullptr, MS_BIND));
  return drop_lab_mounts();
}

Status raise_loopback() {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return system_error("socket");
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) return system_error("set lo up");
  return ok();
}

// Nobody else can have an address of ours, and for the second or two in which the kernel would make
// sure of that nothing answers over IPv6. A kernel without IPv6 has no such file.
Status trust_addresses() {
  for (const char* conf : {"all", "default"}) {
    const std::string path = format("/proc/sys/net/ipv6/conf/%s/accept_dad", conf);
    if (::access(path.c_str(), F_OK) == 0) TRY(write_once(path, "0"));
  }
  return ok();
}

Status become_node(const Options& options) {
  TRY(make_mounts(options));
  TRY(trust_addresses());
  if (::sethostname(options.node.data(), options.node.size()) != 0)
    return system_error("sethostname");
  return raise_loopback();
}

[[noreturn]] void stay() {
  ::close(kReportFd);
  sigset_t child_ended;
  sigemptyset(&child_ended);
  sigaddset(&child_ended, SIGCHLD);
  while (true) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
    ::sigwaitinfo(&child_ended, nullptr);
  }
}

// Keeps nothing of its starter. As PID 1 it is deaf to every signal without a handler anyway, save
// a SIGKILL from outside; the fabric also ends on SIGTERM, which a shutting down machine sends.
void detach() {
  ::close_range(kReportFd + 1, ~0U, 0);
  ::setsid();
  ::prctl(PR_SET_NAME, "mixproof-init");
  if (::chdir("/") != 0) fail(system_error("chdir /"));
  ::umask(022);
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2})
    std::signal(signal, SIG_IGN);
  sigset_t child_ended;
  sigemptyset(&child_ended);
  sigaddset(&child_ended, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &child_ended, nullptr);
}

// The starter leaves, so that whoever called it has no child to wait for.
void become_grandchild() {
  const int pid = ::fork();
  if (pid < 0) fail(system_error("fork"));
  if (pid == 0) return;
  report({{"pid", pid}});
  ::_exit(0);
}

[[noreturn]] void run_fabric() {
  const Status apart = leave_namespace({CLONE_NEWNET, "network"});
  if (!apart.ok()) fail(apart.error());
  become_grandchild();
  report({{"ready", true}});
  stay();
}

[[noreturn]] void run_node(const Options& options) {
  for (const Namespace& which : {Namespace{CLONE_NEWNET, "network"},
                                 {CLONE_NEWUTS, "uts"},
                                 {CLONE_NEWIPC, "ipc"},
                                 {CLONE_NEWPID, "pid"},
                                 {CLONE_NEWNS, "mount"},
                                 {CLONE_NEWTIME, "time"}}) {
    const Status apart = leave_namespace(which);
    if (!apart.ok()) fail(apart.error());
  }
  // Before the first process enters: the offsets are fixed from then on.
  const Status shifted = write_once("/proc/self/timens_offsets", clock_offsets(options.index));
  if (!shifted.ok()) fail(shifted.error());
  become_grandchild();  // as PID 1 of the new pid namespace
  const Status made = become_node(options);
  if (!made.ok()) fail(made.error());
  report({{"ready", true}});
  stay();
}

}  // namespace

int lab_init_main(std::span<const std::string> args) {
  // Run by hand it has no one to report to, and would change the namespaces of a shell for nothing.
  if (::fcntl(kReportFd, F_GETFD) < 0) {
    std::fputs("mixproof lab-init: internal; use `mixproof lab up`\n", stderr);
    return 4;
  }
  detach();
  const Result<Options> options = parse(args);
  if (!options.ok()) fail(options.error());
  if (options->fabric) run_fabric();
  run_node(options.value());
}

}  // namespace mixproof
