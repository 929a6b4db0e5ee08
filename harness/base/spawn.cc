#include "harness/base/spawn.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "harness/base/cgroup.h"
#include "harness/base/check.h"

extern char** environ;

namespace mixproof {
namespace {

struct Pipe {
  UniqueFd read, write;
};

Result<Pipe> make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return system_error("pipe2");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

struct Failure {
  int error;
  char step[56];
};

// In the child, after fork. Reports and leaves on the first failure.
class ChildSide {
 public:
  ChildSide(const ChildSpec& spec, int report) : spec_(spec), report_(report) {}

  [[noreturn]] void run(int input, int output, int log, pid_t parent, char** argv,
                        char** environment) {
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    for (const int signal : {SIGPIPE, SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
    if (spec_.outlives_parent) {
      ::setsid();
    } else {
      ::setpgid(0, 0);  // a Ctrl-C at the terminal reaches us alone; we end our children in order
      if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail("prctl", errno);
      if (::getppid() != parent) ::_exit(0);
    }
    // What we start to be measured runs at the default priority, whatever we have; guards keep
    // ours.
    if (!spec_.outlives_parent && ::getpriority(PRIO_PROCESS, 0) < 0)
      ::setpriority(PRIO_PROCESS, 0, 0);
    if (!spec_.cgroup.empty()) {
      const Status joined = cgroup_join(spec_.cgroup);
      if (!joined.ok()) fail(joined.error().message.c_str(), 0);
    }
    if (::dup2(input, 0) < 0 || ::dup2(output, 1) < 0 || ::dup2(log, 2) < 0) fail("dup2", errno);
    ::execvpe(argv[0], argv, environment);
    fail("exec", errno);
  }

 private:
  [[noreturn]] void fail(const char* step, int error) {
    Failure failure{error, {}};
    std::strncpy(failure.step, step, sizeof failure.step - 1);
    if (::write(report_, &failure, sizeof failure) < 0) ::_exit(126);
    ::_exit(127);
  }

  const ChildSpec& spec_;
  int report_;
};

std::vector<std::string> merged_environment(const ChildSpec& spec) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string name(text.substr(0, text.find('=')));
    if (spec.environment.count(name) == 0) out.emplace_back(text);
  }
  for (const auto& [name, value] : spec.environment) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& string : strings) out.push_back(string.data());
  out.push_back(nullptr);
  return out;
}

Result<UniqueFd> open_log(const ChildSpec& spec) {
  if (spec.log.empty()) return UniqueFd(::fcntl(2, F_DUPFD_CLOEXEC, 3));
  UniqueFd fd(::open(spec.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd) return system_error("open " + spec.log);
  return fd;
}

}  // namespace

Result<Spawned> spawn_process(const ChildSpec& spec) {
  CHECK(!spec.argv.empty());
  if (!spec.cgroup.empty()) TRY(cgroup_create(spec.cgroup, spec.cpus));
  UniqueFd log = TRY(open_log(spec));
  Pipe input, output;
  if (spec.lines) {
    input = TRY(make_pipe());
    output = TRY(make_pipe());
  } else {
    input.read = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    output.write = UniqueFd(::fcntl(log.get(), F_DUPFD_CLOEXEC, 3));
  }
  Pipe report = TRY(make_pipe());
  std::vector<std::string> arguments = spec.argv;
  std::vector<std::string> variables = merged_environment(spec);
  std::vector<char*> argv = pointers(arguments), environment = pointers(variables);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return system_error("fork");
  if (pid == 0)
    ChildSide(spec, report.write.get())
        .run(input.read.get(), output.write.get(), log.get(), parent, argv.data(),
             environment.data());
  report.write.reset();
  Failure failure{};
  ssize_t got = 0;
  do got = ::read(report.read.get(), &failure, sizeof failure);
  while (got < 0 && errno == EINTR);
  if (got > 0) {
    ::waitpid(pid, nullptr, 0);
    std::string message = "start " + spec.argv[0] + ": ";
    message += failure.error == 0 || std::string_view(failure.step) == "exec"
                   ? ""
                   : std::string(failure.step) + ": ";
    const bool no_program =
        std::string_view(failure.step) == "exec" &&
        (failure.error == ENOENT || failure.error == EACCES || failure.error == ENOEXEC);
    return Error{no_program ? Code::kInvalid : Code::kSystem,
                 message + (failure.error == 0 ? failure.step : std::strerror(failure.error))};
  }
  Spawned spawned;
  spawned.pid = pid;
  spawned.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!spawned.pidfd) return system_error("pidfd_open");
  spawned.input = std::move(input.write);
  spawned.output = std::move(output.read);
  return spawned;
}

}  // namespace mixproof
