#include "probes/inference/own_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "harness/base/text.h"
#include "probes/inference/clock.h"

namespace mixproof::inference {

Result<Pipe> make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return system_error("pipe2");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

bool readable_by(int fd, std::int64_t deadline_ns) {
  while (true) {
    const std::int64_t left = deadline_ns - monotonic_ns();
    if (left <= 0) return false;
    pollfd waiting{fd, POLLIN, 0};
    const timespec timeout = timespec_of(left);
    if (::ppoll(&waiting, 1, &timeout, nullptr) > 0) return true;
  }
}

Result<pid_t> fork_child(const std::function<void()>& body) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return system_error("fork");
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  body();
  ::_exit(1);
}

void end_child(pid_t pid) {
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace mixproof::inference
