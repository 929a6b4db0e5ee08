#include "suites/services/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "harness/base/handle.h"
#include "harness/base/text.h"

namespace mixproof {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostOutput = 64 * 1024;

struct DescriptorTraits {
  using Raw = int;
  static Raw null() { return -1; }
  static void close(Raw raw) noexcept { ::close(raw); }
};
using Descriptor = Handle<DescriptorTraits>;

struct Started {
  pid_t pid;
  Descriptor output;
};

Result<Started> start(const std::vector<std::string>& argv) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("pipe");
  Descriptor read_end(ends[0]);
  const Descriptor write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int failed = posix_spawn(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return system_error("start " + argv[0], failed);
  return Started{pid, std::move(read_end)};
}

// Reads until the program closes its output; false when the deadline came first.
bool read_all(int descriptor, Clock::time_point deadline, std::string& out) {
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd waiting{descriptor, POLLIN, 0};
    if (left <= 0 || poll(&waiting, 1, static_cast<int>(left)) == 0) return false;
    std::array<char, 4096> buffer{};
    const ssize_t count = read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    if (out.size() < kMostOutput) out.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

// A program may close its output and go on, so its end has the same deadline. False when it came
// first.
bool reap(pid_t pid, Clock::time_point deadline, int& status) {
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (Clock::now() >= deadline) return false;
    usleep(2000);
  }
  return true;
}

}  // namespace

Result<ProgramOutput> run_program(const std::vector<std::string>& argv,
                                  std::chrono::milliseconds deadline) {
  const Clock::time_point end = Clock::now() + deadline;
  Started program = TRY(start(argv));
  ProgramOutput result;
  int status = 0;
  if (!read_all(program.output.get(), end, result.out) || !reap(program.pid, end, status)) {
    kill(program.pid, SIGKILL);
    waitpid(program.pid, &status, 0);
    return Error{Code::kTimeout, format("%s did not end within %lld ms", argv[0].c_str(),
                                        static_cast<long long>(deadline.count()))};
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::string first_line(const std::string& text) { return split(text, '\n').front(); }

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::vector<std::string> folders = split(path == nullptr ? "" : path, ':');
  folders.insert(folders.end(), {"/usr/sbin", "/usr/bin", "/sbin", "/bin"});
  for (const std::string& folder : folders) {
    const std::string candidate = folder + "/" + name;
    if (!folder.empty() && access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

}  // namespace mixproof
