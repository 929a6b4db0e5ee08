#include "harness/agent/kill_process.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <fstream>

#include "harness/base/text.h"
#include "harness/base/unique_fd.h"

namespace mixproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kGoneDeadline{1500}, kVerifyDeadline{500};

std::string words(const ProcessId& process) { return "process " + std::to_string(process.pid); }

void pause_briefly() {
  const std::timespec pause{0, 1'000'000};
  ::nanosleep(&pause, nullptr);
}

// Whether a SIGKILL is waiting for it: it was killed and cannot die yet, being in an
// uninterruptible sleep or in a frozen group.
bool has_been_killed(int pid) {
  constexpr unsigned long long kKill = 1ULL << (SIGKILL - 1);
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (starts_with(line, "SigPnd:") || starts_with(line, "ShdPnd:"))
      if ((std::stoull("0" + line.substr(line.find('\t') + 1), nullptr, 16) & kKill) != 0)
        return true;
  return false;
}

class KillProcessOperator final : public HostOperator {
 public:
  explicit KillProcessOperator(const HostView& host) : host_(host) {}

  Result<std::string> preimage(const HostOperation& operation) override {
    std::size_t count = 0;
    for (const ProcessId& process : processes_of(operation)) {
      const std::vector<ThreadState> threads = TRY(host_.threads(process));
      count += threads.size();
    }
    return format("%zu processes, %zu threads", processes_of(operation).size(), count);
  }

  Status apply(const HostOperation& operation, std::chrono::nanoseconds) override {
    const std::vector<ProcessId>& processes = processes_of(operation);
    // The descriptors come first and the identities are checked after, so that no number can change
    // hands in between; and all are checked before the first is killed.
    std::vector<UniqueFd> pidfds;
    for (const ProcessId& process : processes) {
      pidfds.emplace_back(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
      if (!pidfds.back() && errno != ESRCH) return system_error("open " + words(process));
      if (!pidfds.back()) return Error{Code::kUnavailable, words(process) + " is gone already"};
    }
    for (const ProcessId& process : processes) {
      const ProcessId now = TRY(host_.identify(process.pid));
      if (now != process) return Error{Code::kUnavailable, words(process) + " has been replaced"};
    }
    Status trouble = ok();
    bool killed_one = false;
    for (std::size_t i = 0; i < processes.size(); ++i) {
      const bool killed =
          ::syscall(SYS_pidfd_send_signal, pidfds[i].get(), SIGKILL, nullptr, 0) == 0;
      // A child may go with its parent, which was killed just before.
      if (!killed && !(errno == ESRCH && killed_one) && trouble.ok())
        trouble = errno == ESRCH
                      ? Error{Code::kUnavailable, words(processes[i]) + " is gone already"}
                      : system_error("kill " + words(processes[i]));
      killed_one = killed_one || killed;
    }
    TRY(trouble);
    return wait_until_gone(processes);
  }

  Status undo(const HostOperation&, const std::string&) override { return ok(); }

  // After a crash it may not have been killed at all. What must not be is a death still to come.
  Status verify_undone(const HostOperation& operation) override {
    const auto deadline = steady_clock::now() + kVerifyDeadline;
    for (const ProcessId& process : processes_of(operation))
      while (true) {
        const bool dying = TRY(is_there(process)) && has_been_killed(process.pid);
        if (!dying) break;
        if (steady_clock::now() > deadline)
          return Error{Code::kConflict, words(process) + " was killed and does not die"};
        pause_briefly();
      }
    return ok();
  }

 private:
  static const std::vector<ProcessId>& processes_of(const HostOperation& operation) {
    return std::get<KillProcess>(operation).processes;
  }

  // A zombie counts as gone: its parent may take its time to collect it.
  Result<bool> is_there(const ProcessId& process) const {
    const Result<ProcessId> now = host_.identify(process.pid);
    if (now.ok()) return *now == process;
    if (now.error().code == Code::kUnavailable) return false;
    return now.error();
  }

  Status wait_until_gone(const std::vector<ProcessId>& processes) const {
    const auto deadline = steady_clock::now() + kGoneDeadline;
    for (const ProcessId& process : processes)
      while (TRY(is_there(process))) {
        if (steady_clock::now() > deadline)
          return Error{Code::kTimeout, words(process) + " does not die"};
        pause_briefly();
      }
    return ok();
  }

  const HostView& host_;
};

}  // namespace

std::unique_ptr<HostOperator> make_kill_process(const HostView& host) {
  return std::make_unique<KillProcessOperator>(host);
}

}  // namespace mixproof
