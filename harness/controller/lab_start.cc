#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>

#include "harness/base/cgroup.h"
#include "harness/base/json.h"
#include "harness/controller/lab_files.h"
#include "harness/controller/lab_init.h"

extern char** environ;

namespace mixproof {
namespace {

constexpr int kReportFd = 3;
constexpr std::size_t kReportBytesMax = 64 << 10;

[[noreturn]] void leave(int report, const Error& error) {
  const std::string line = line_of({{"error", error_to_json(error)}}) + "\n";
  if (::write(report, line.data(), line.size()) < 0) ::_exit(126);
  ::_exit(127);
}

// In the child, between fork and exec.
[[noreturn]] void become_init(const InitStart& what, int report, char** argv, char** environment) {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int high =
      ::fcntl(report, F_DUPFD_CLOEXEC, 10);  // out of the way of the numbers that are set below
  const Status joined = cgroup_join(what.cgroup);
  if (!joined.ok()) leave(high, joined.error());
  const int none_fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const int log = ::open(what.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (none_fd < 0 || log < 0) leave(high, system_error("open " + what.log));
  if (::dup2(none_fd, 0) < 0 || ::dup2(none_fd, 1) < 0 || ::dup2(log, 2) < 0 ||
      ::dup2(high, kReportFd) < 0)
    leave(high, system_error("dup2"));
  ::execve(what.binary.c_str(), argv, environment);
  leave(high, system_error("start " + what.binary));
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& string : strings) out.push_back(string.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

Result<StartingInit> StartingInit::start(const InitStart& what) {
  std::vector<std::string> words = {"mixproof", "lab-init", "--lab", what.lab};
  if (what.node.empty()) {
    words.push_back("--fabric");
  } else {
    for (const std::string& word :
         {std::string("--node"), what.node, std::string("--index"), std::to_string(what.index)})
      words.push_back(word);
  }
  std::vector<char*> argv = pointers(words);
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return system_error("pipe2");
  UniqueFd read_end(fds[0]);
  const UniqueFd write_end(fds[1]);
  const int pid = ::fork();
  if (pid < 0) return system_error("fork");
  if (pid == 0) become_init(what, write_end.get(), argv.data(), environ);
  return StartingInit(what.node.empty() ? "fabric" : what.node, pid, read_end.release(), what.log);
}

Error StartingInit::failure(Error error) {
  ::kill(starter_,
         SIGKILL);  // a child of ours that was not waited for: the number is still its own
  while (::waitpid(starter_, nullptr, 0) < 0 && errno == EINTR) continue;
  const Result<std::string> log = read_small_file(log_);
  if (log.ok() && !log->empty()) error.message += "; its log: " + log.value();
  return std::move(error).in(name_);
}

Result<int> StartingInit::wait_ready(std::chrono::steady_clock::time_point until) {
  std::string text;
  int init = 0;
  bool ready = false;
  while (init == 0 || !ready) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now())
            .count();
    pollfd entry{report_.get(), POLLIN, 0};
    const int polled = left <= 0 ? 0 : ::poll(&entry, 1, static_cast<int>(left));
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0) return failure({Code::kTimeout, "not ready in time"});
    char buffer[1024];
    const ssize_t got = ::read(report_.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || text.size() > kReportBytesMax)
      return failure({Code::kPeerLost, "ended before it was ready"});
    text.append(buffer, static_cast<std::size_t>(got));
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
      const Result<Json> line = parse_json(text.substr(0, end), name_);
      text.erase(0, end + 1);
      if (!line.ok()) return failure(line.error());
      if (const Json* error = member(line.value(), "error"))
        return failure(error_from_json(*error));
      if (init == 0) init = static_cast<int>(integer_at(line.value(), "pid"));
      ready = ready || flag_at(line.value(), "ready");
    }
  }
  report_.reset();
  while (::waitpid(starter_, nullptr, 0) < 0 && errno == EINTR) continue;
  return init;
}

}  // namespace mixproof
