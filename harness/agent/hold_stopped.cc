#include "harness/agent/hold_stopped.h"

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <iterator>
#include <map>

#include "harness/base/text.h"

namespace mixproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kStopDeadline{1500};
constexpr milliseconds kUndoDeadline{1000};
constexpr int kRoundsMax = 50;  // a process that forks threads faster than we seize them

void pause_briefly() {
  const std::timespec pause{0, 200'000};
  ::nanosleep(&pause, nullptr);
}

long trace(int request, int tid, unsigned long data) {
  return ::ptrace(static_cast<__ptrace_request>(request), tid, nullptr,
                  reinterpret_cast<void*>(data));
}

class HoldStoppedOperator final : public HostOperator {
 public:
  explicit HoldStoppedOperator(const HostView& host) : host_(host) {}

  Result<std::string> preimage(const HostOperation& operation) override {
    const ProcessId process = std::get<HoldStopped>(operation).process;
    const std::vector<ThreadState> threads = TRY(host_.threads(process));
    for (const ThreadState& thread : threads)
      if (thread.tracer != 0)
        return Error{Code::kUnavailable, "thread " + std::to_string(thread.tid) +
                                             " is already traced by process " +
                                             std::to_string(thread.tracer)};
    return format("%zu threads, not traced", threads.size());
  }

  Status apply(const HostOperation& operation, std::chrono::nanoseconds) override {
    const ProcessId process = std::get<HoldStopped>(operation).process;
    const auto deadline = steady_clock::now() + kStopDeadline;
    // New threads may appear while the first ones are being stopped: go round until a look finds
    // none that is free.
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
    return Error{Code::kTimeout, "process " + std::to_string(process.pid) +
                                     " makes threads faster than they can be stopped"};
  }

  Status undo(const HostOperation& operation, const std::string&) override {
    const ProcessId process = std::get<HoldStopped>(operation).process;
    const auto deadline = steady_clock::now() + kUndoDeadline;
    std::string trouble;
    // In rounds, because a dead leader can be collected only after the last of its threads.
    while (true) {
      bool waiting = false;
      for (auto it = held_.begin(); it != held_.end();) {
        if (it->second.process != process) {
          ++it;
          continue;
        }
        const Result<bool> free = release(it->first, it->second);
        if (!free.ok()) trouble = free.error().message;
        const bool over = !free.ok() || *free;
        waiting = waiting || !over;
        it = over ? held_.erase(it) : std::next(it);
      }
      if (!waiting) break;
      if (steady_clock::now() > deadline) {
        trouble = "some threads of process " + std::to_string(process.pid) +
                  " did not reach their stop and cannot be let go";
        break;
      }
      pause_briefly();
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
        if (threads.error().code == Code::kUnavailable)
          return ok();  // gone, and no fault of ours holds the dead
        return threads.error();
      }
      int held = 0;
      // Traced by us and running still counts: it may be about to stop.
      for (const ThreadState& thread : *threads)
        held += thread.state == 't' || thread.tracer == ::getpid() ? 1 : 0;
      if (held == 0) return ok();
      if (steady_clock::now() > deadline)
        return Error{Code::kConflict, format("%d threads of process %d are still in a tracing stop",
                                             held, process.pid)};
      pause_briefly();
    }
  }

 private:
  struct Held {
    ProcessId process;
    bool stopped = false;
    int signal =
        0;  // one that was about to be delivered when the thread stopped; given back on release
  };

  Status seize(int tid, const ProcessId& process) {
    if (trace(PTRACE_SEIZE, tid, 0) != 0) {
      const Error error = system_error("trace thread " + std::to_string(tid));
      if (!still_there(tid, process))
        return ok();  // ended between the look and the call; EPERM while it does
      return error;
    }
    held_[tid] = Held{process};
    if (trace(PTRACE_INTERRUPT, tid, 0) != 0 && errno != ESRCH)
      return system_error("interrupt thread " + std::to_string(tid));
    return ok();
  }

  bool still_there(int tid, const ProcessId& process) const {
    const Result<std::vector<ThreadState>> threads = host_.threads(process);
    if (!threads.ok()) return threads.error().code != Code::kUnavailable;
    return std::any_of(threads->begin(), threads->end(),
                       [tid](const ThreadState& thread) { return thread.tid == tid; });
  }

  // True when the thread is free or has ended. The kernel lets go only of a thread that is in its
  // stop: one that has not arrived there yet is false. The dead are collected here, or their parent
  // would not hear of it while we live.
  static Result<bool> release(int tid, Held& held) {
    if (trace(PTRACE_DETACH, tid, static_cast<unsigned long>(held.signal)) == 0) return true;
    if (errno != ESRCH) return system_error("let go of thread " + std::to_string(tid));
    return arrived(tid, held) == Arrival::kEnded;
  }

  enum class Arrival { kNotYet, kStopped, kEnded };
  static Arrival arrived(int tid, Held& held) {
    int status = 0;
    const int got = ::waitpid(tid, &status, __WALL | WNOHANG);
    if ((got < 0 && errno == ECHILD) || (got > 0 && !WIFSTOPPED(status))) return Arrival::kEnded;
    if (got <= 0) return Arrival::kNotYet;
    held.stopped = true;
    // An event stop carries no signal; any other stop is a signal on its way, which must not get
    // lost.
    if ((status >> 16) != PTRACE_EVENT_STOP) held.signal = WSTOPSIG(status);
    return Arrival::kStopped;
  }

  Status wait_for_stops(steady_clock::time_point deadline) {
    while (true) {
      bool waiting = false;
      for (auto it = held_.begin(); it != held_.end();) {
        if (it->second.stopped) {
          ++it;
          continue;
        }
        const Arrival arrival = arrived(it->first, it->second);
        if (arrival == Arrival::kEnded) {
          it = held_.erase(it);
          continue;
        }
        waiting = waiting || arrival == Arrival::kNotYet;
        ++it;
      }
      if (!waiting) return ok();
      if (steady_clock::now() > deadline)
        return Error{Code::kTimeout, "some threads did not stop in time"};
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
