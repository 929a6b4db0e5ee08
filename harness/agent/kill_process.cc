#include "harness/agent/kill_process.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <ctime>

#include "harness/base/text.h"
#include "harness/base/unique_fd.h"

namespace mixproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kGoneDeadline{1500};

class KillProcessOperator final : public HostOperator {
 public:
  explicit KillProcessOperator(const HostView& host) : host_(host) {}

  Result<std::string> preimage(const HostOperation& operation) override {
    const std::vector<ThreadState> threads = TRY(host_.threads(process_of(operation)));
    return format("%zu threads", threads.size());
  }

  Status apply(const HostOperation& operation, std::chrono::nanoseconds) override {
    const ProcessId process = process_of(operation);
    // The descriptor comes first and the identity is checked after, so that the number cannot
    // change hands in between.
    const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
    if (!pidfd) return Error{Code::kUnavailable, words(process) + " is gone already"};
    const ProcessId now = TRY(host_.identify(process.pid));
    if (now != process) return Error{Code::kUnavailable, words(process) + " has been replaced"};
    if (::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0) != 0)
      return system_error("kill " + words(process));
    return wait_until_gone(process);
  }

  Status undo(const HostOperation&, const std::string&) override { return ok(); }

  // After a crash it may not have been killed at all; either way nothing of ours holds it.
  Status verify_undone(const HostOperation&) override { return ok(); }

 private:
  static ProcessId process_of(const HostOperation& operation) {
    return std::get<KillProcess>(operation).process;
  }
  static std::string words(const ProcessId& process) {
    return "process " + std::to_string(process.pid);
  }

  // A zombie counts as gone: its parent may take its time to collect it.
  Status wait_until_gone(const ProcessId& process) const {
    const auto deadline = steady_clock::now() + kGoneDeadline;
    while (true) {
      const Result<ProcessId> now = host_.identify(process.pid);
      if (now.ok() ? *now != process : now.error().code == Code::kUnavailable) return ok();
      if (steady_clock::now() > deadline)
        return Error{Code::kTimeout, words(process) + " does not die (state D?)"};
      const std::timespec pause{0, 1'000'000};
      ::nanosleep(&pause, nullptr);
    }
  }

  const HostView& host_;
};

}  // namespace

std::unique_ptr<HostOperator> make_kill_process(const HostView& host) {
  return std::make_unique<KillProcessOperator>(host);
}

}  // namespace mixproof
