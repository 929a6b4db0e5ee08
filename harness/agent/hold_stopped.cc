#include "harness/agent/hold_stopped.h"

#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <map>

#include "harness/base/text.h"

namespace mixproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kStopDeadline{1500};
constexpr int kRoundsMax = 50;   // a process that forks threads faster than we seize them

void pause_briefly() {
  const std::timespec pause{0, 200'000};
  ::nanosleep(&pause, nullptr);
}

long trace(int request, int tid, unsigned long data) {
  return ::ptrace(static_cast<__ptrace_request>(request), tid, nullptr, reinterpret_cast<void*>(data));
}

class HoldStoppedOperator final : public HostOperator {
 public:
  explicit HoldStoppedOperator(const HostView& host) : host_(host) {}

  Result<std::string> preimage(const HostOperation& operation) override {
    const ProcessId process = std::get<HoldStopped>(operation).process;
    const std::vector<ThreadState> threads = TRY(host_.threads(process));
    for (const ThreadState& thread : threads)
      if (thread.tracer != 0)
        return Error{Code::kUnavailable, "thread " + std::to_string(thread.tid) + " is already traced by process " +
                                             std::to_string(thread.tracer)};
    return format("%zu threads, not traced", threads.size());
  }

  Status apply(const HostOperation& operation) override {
    const ProcessId process = std::get<HoldStopped>(operation).process;
    const auto deadline = steady_clock::now() + kStopDeadline;
    // New threads may appear while the first ones are being stopped: go round until a look finds none that is free.
    for (int round = 0; round < kRoundsMax; ++round) {
      const std::vector<ThreadState> threads = TRY(host_.threads(process));
      bool seized_one = false;
      for (const ThreadState& thread : threads)
        if (held_.count(thread.tid) == 0) {
          TRY(seize(thread.tid, process));
          seized_one = true;
        }
      TRY(wait_for_stops(deadline));
      if (!seized_one) return ok();
    }
    return Error{Code::kTimeout, "process " + std::to_string(process.pid) + " makes threads faster than they can be stopped"};
  }

  Status undo(const HostOperation& operation, const std::string&) override {
    const ProcessId process = std::get<HoldStopped>(operation).process;
    std::string trouble;
    for (auto it = held_.begin(); it != held_.end();) {
      if (it->second.process != process) {
        ++it;
        continue;
      }
      // ESRCH: the thread has died (or been killed) meanwhile; there is nothing left to let go.
      if (trace(PTRACE_DETACH, it->first, static_cast<unsigned long>(it->second.signal)) != 0 && errno != ESRCH)
        trouble = system_error("let go of thread " + std::to_string(it->first)).message;
      it = held_.erase(it);
    }
    if (!trouble.empty()) return Error{Code::kSystem, trouble};
    return ok();
  }

  Status verify_undone(const HostOperation& operation) override {
    const ProcessId process = std::get<HoldStopped>(operation).process;
    const auto deadline = steady_clock::now() + milliseconds(500);
    while (true) {
      const Result<std::vector<ThreadState>> threads = host_.threads(process);
      if (!threads.ok()) {
        if (threads.error().code == Code::kUnavailable) return ok();   // gone, and no fault of ours holds the dead
        return threads.error();
      }
      int held = 0;
      for (const ThreadState& thread : *threads) held += thread.state == 't' ? 1 : 0;
      if (held == 0) return ok();
      if (steady_clock::now() > deadline)
        return Error{Code::kConflict,
                     format("%d threads of process %d are still in a tracing stop", held, process.pid)};
      pause_briefly();
    }
  }

 private:
  struct Held {
    ProcessId process;
    bool stopped = false;
    int signal = 0;   // one that was about to be delivered when the thread stopped; given back on release
  };

  Status seize(int tid, const ProcessId& process) {
    if (trace(PTRACE_SEIZE, tid, 0) != 0) {
      if (errno == ESRCH) return ok();   // ended between the look and the call
      return system_error("trace thread " + std::to_string(tid));
    }
    held_[tid] = Held{process};
    if (trace(PTRACE_INTERRUPT, tid, 0) != 0 && errno != ESRCH)
      return system_error("interrupt thread " + std::to_string(tid));
    return ok();
  }

  Status wait_for_stops(steady_clock::time_point deadline) {
    while (true) {
      bool waiting = false;
      for (auto it = held_.begin(); it != held_.end();) {
        if (it->second.stopped) {
          ++it;
          continue;
        }
        int status = 0;
        const int got = ::waitpid(it->first, &status, __WALL | WNOHANG);
        if ((got < 0 && errno == ECHILD) || (got > 0 && !WIFSTOPPED(status))) {
          it = held_.erase(it);   // the thread ended
          continue;
        }
        if (got > 0) {
          it->second.stopped = true;
          // An event stop carries no signal; any other stop is a signal on its way, which must not get lost.
          if ((status >> 16) != PTRACE_EVENT_STOP) it->second.signal = WSTOPSIG(status);
        } else {
          waiting = true;
        }
        ++it;
      }
      if (!waiting) return ok();
      if (steady_clock::now() > deadline) return Error{Code::kTimeout, "some threads did not stop in time"};
      pause_briefly();
    }
  }

  const HostView& host_;
  std::map<int, Held> held_;
};

}  // namespace

std::unique_ptr<HostOperator> make_hold_stopped(const HostView& host) {
  return std::make_unique<HoldStoppedOperator>(host);
}

}  // namespace mixproof
