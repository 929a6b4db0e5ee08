#include "harness/controller/lab_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <charconv>
#include <csignal>

#include "harness/base/cgroup.h"
#include "harness/base/text.h"
#include "harness/base/unique_fd.h"
#include "harness/controller/lab_files.h"

namespace mixproof {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kToolTime{30000};
constexpr int kExecFailed = 127;

UniqueFd open_pidfd(int pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

bool wait_end(const UniqueFd& pidfd, milliseconds deadline) {
  const auto until = std::chrono::steady_clock::now() + deadline;
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
    pollfd entry{pidfd.get(), POLLIN, 0};
    const int got =
        ::poll(&entry, 1, static_cast<int>(std::max<milliseconds::rep>(0, left.count())));
    if (got > 0) return true;
    if (got == 0 || errno != EINTR) return false;
  }
}

std::string text_in(const UniqueFd& memory) {
  std::string out;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = ::pread(memory.get(), buffer, sizeof buffer, static_cast<off_t>(out.size()))) > 0)
    out.append(buffer, static_cast<std::size_t>(got));
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

// In the child, between fork and exec.
[[noreturn]] void become(const Tool& tool, int parent, int input, int output, int net,
                         char** argv) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kExecFailed);
  ::dup2(input, 0);
  ::dup2(output, 1);
  ::dup2(output, 2);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::setpgid(0, 0);  // a Ctrl-C at the terminal ends the caller, in order, not half of its tools
  const auto leave = [](const std::string& why) {
    if (::write(2, why.data(), why.size()) < 0) ::_exit(kExecFailed - 1);
    ::_exit(kExecFailed);
  };
  if (!tool.cgroup.empty()) {
    const Status joined = cgroup_join(tool.cgroup);
    if (!joined.ok()) leave(joined.error().message);
  }
  if (net >= 0 && ::setns(net, CLONE_NEWNET) != 0)
    leave(system_error("enter network namespace").message);
  ::execvp(argv[0], argv);
  const int error = errno;
  leave(error == ENOENT ? "not installed" : system_error("start", error).message);
  ::_exit(kExecFailed);
}

}  // namespace

std::uint64_t start_ticks_of(int pid) {
  const Result<std::string> stat = read_small_file("/proc/" + std::to_string(pid) + "/stat");
  if (pid <= 0 || !stat.ok()) return 0;
  // The command in parentheses may hold anything, so fields are counted from the last ')'.
  const std::size_t close = stat->rfind(')');
  if (close == std::string::npos) return 0;
  const std::vector<std::string> fields =
      split(std::string_view(stat.value()).substr(close + 2), ' ');
  if (fields.size() < 20 || fields[0] == "Z" || fields[0] == "X") return 0;
  std::uint64_t ticks = 0;
  std::from_chars(fields[19].data(), fields[19].data() + fields[19].size(), ticks);
  return ticks;
}

bool lab_process_alive(int pid, std::uint64_t start) {
  return start != 0 && start_ticks_of(pid) == start;
}

bool is_init_of(int pid, const std::string& lab) {
  const Result<std::string> line = read_small_file("/proc/" + std::to_string(pid) + "/cmdline");
  if (!line.ok()) return false;
  const std::vector<std::string> words = split(line.value(), '\0');
  return words.size() >= 4 && words[0] == "mixproof" && words[1] == "lab-init" &&
         words[2] == "--lab" && words[3] == lab;
}

Status end_init(int pid, std::uint64_t start, const std::string& lab, milliseconds deadline) {
  if (pid <= 0 || start == 0) return ok();
  const UniqueFd pidfd = open_pidfd(pid);
  if (!pidfd)
    return errno == ESRCH ? ok() : Status(system_error("pidfd_open " + std::to_string(pid)));
  // The descriptor stays with the process that had the number when it was opened: checked now, it
  // cannot change.
  if (!lab_process_alive(pid, start) || !is_init_of(pid, lab)) return ok();
  if (::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0) != 0 && errno != ESRCH)
    return system_error("kill init " + std::to_string(pid));
  if (wait_end(pidfd, deadline)) return ok();
  return Error{Code::kTimeout,
               "init " + std::to_string(pid) + " of lab " + lab + " is still there after SIGKILL"};
}

Status run_tool(const Tool& tool) {
  const UniqueFd input(::memfd_create("input", MFD_CLOEXEC)),
      output(::memfd_create("output", MFD_CLOEXEC));
  if (!input || !output) return system_error("memfd_create");
  if (::pwrite(input.get(), tool.input.data(), tool.input.size(), 0) !=
      static_cast<ssize_t>(tool.input.size()))
    return system_error("write input of " + tool.argv[0]);
  UniqueFd net;
  if (tool.net_of_pid != 0) {
    const std::string path = "/proc/" + std::to_string(tool.net_of_pid) + "/ns/net";
    net = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!net) return system_error("open " + path);
  }
  std::vector<std::string> words = tool.argv;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int parent = ::getpid(), pid = ::fork();
  if (pid < 0) return system_error("fork");
  if (pid == 0) become(tool, parent, input.get(), output.get(), net.get(), argv.data());
  const UniqueFd pidfd = open_pidfd(pid);
  const bool ended = pidfd && wait_end(pidfd, kToolTime);
  if (!ended) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  const std::string where = join(tool.argv, " ");
  if (!ended) return Error{Code::kTimeout, where + ": not done within 30 s"};
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ok();
  const std::string said = text_in(output);
  if (said == "not installed") return Error{Code::kUnavailable, tool.argv[0] + " is not installed"};
  return Error{Code::kSystem, where + ": " + (said.empty() ? "failed and said nothing" : said)};
}

}  // namespace mixproof
