// World: everything outside itself that a controller, an agent or a guard may touch. Two
// implementations: the real one (epoll, timerfd, pidfd; epoll_world.h) and one simulated from a
// seed (tests/simulation/), in which processes die, lines are cut, leases come late and clocks
// differ. Those three roles are single-threaded and call the system nowhere else. A role is a set
// of callbacks: it never waits, the World calls it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/host_operation.h"
#include "harness/base/result.h"

namespace mixproof {

using Time = std::chrono::nanoseconds;
using TimerId = std::uint64_t;

// Monotonic: rows and waits. Boot time: leases (goes on during suspend). UTC: names and reports
// only.
enum class Clock { kMonotonic, kBoottime, kUtc };

struct ChildSpec {
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;  // added to ours
  std::string cgroup;                              // created when missing; empty: ours
  std::string cpus;                                // of that cgroup: "0-1"; empty: its parent's
  std::string log;  // file that its stderr is appended to; empty: our stderr
  bool lines =
      true;  // we talk over its stdin and stdout; else stdin is empty and stdout goes to the log
  bool outlives_parent = false;  // guards: own session; all others die with us
};

// What a child tells its parent. Callbacks come from the event loop, never from within a call.
struct ChildEvents {
  std::function<void(std::string_view line)>
      on_line;                                   // one line of its stdout, without the newline
  std::function<void(int wait_status)> on_exit;  // exactly once, after the last line
};

class Child {
 public:
  virtual ~Child() = default;  // forgets the child and closes its input; does not kill it
  virtual Status send(
      std::string_view line) = 0;  // never blocks; kPeerLost when it is gone or 64 MiB are waiting
  virtual void close_input() = 0;  // after what was sent
  virtual void kill(int signal) = 0;
  virtual ProcessId id() const = 0;
};

// Durable small files: journals, leases, recordings, reports.
class Files {
 public:
  virtual ~Files() = default;
  virtual Status make_directories(const std::string& path) = 0;
  virtual Status append(const std::string& path, std::string_view bytes) = 0;  // whole or an error
  virtual Status append_synced(const std::string& path,
                               std::string_view bytes) = 0;  // file and directory on disk
  virtual Status replace(const std::string& path,
                         std::string_view bytes) = 0;  // temp, sync, rename, sync
  virtual Status remove(const std::string& path) = 0;  // absent: nothing to do
  virtual Result<std::string> read(const std::string& path) = 0;
  virtual Result<std::vector<std::string>> list(
      const std::string& directory) = 0;  // names, sorted; absent: none
  // True when we hold it now, until this process ends; false when another process does.
  virtual Result<bool> try_lock(const std::string& path) = 0;
};

// What reaches a process from above: lines from its parent, end of input, SIGTERM and its like.
struct ParentEvents {
  std::function<void(std::string_view line)> on_line;
  std::function<void()> on_end;
  std::function<void(int signal)> on_signal;
};

class World {
 public:
  virtual ~World() = default;
  virtual Time now(Clock clock) = 0;
  virtual std::string boot_id() = 0;  // of this node; lab nodes have their own
  virtual std::uint64_t random() = 0;
  virtual ProcessId self() = 0;
  virtual TimerId at(Clock clock, Time when,
                     std::function<void()> task) = 0;  // runs once, never early
  virtual void cancel(TimerId timer) = 0;              // unknown or past: nothing
  virtual Result<std::unique_ptr<Child>> spawn(const ChildSpec& spec, ChildEvents events) = 0;
  virtual void listen(ParentEvents events) = 0;
  virtual Status tell_parent(
      std::string_view line) = 0;  // never blocks; kPeerLost when nobody reads
  virtual Status signal(const ProcessId& process, int signal) = 0;  // kUnavailable when it is gone
  virtual Status clear_cgroup(
      const std::string& cgroup) = 0;  // kills what is in it and removes it; within 2 s
  // Removes it and those above it as far as they are empty; kills nothing.
  virtual void drop_cgroup(const std::string&) {}
  virtual Files& files() = 0;
  virtual const HostView& host() = 0;

  TimerId after(Time delay, std::function<void()> task) {
    return at(Clock::kMonotonic, now(Clock::kMonotonic) + delay, std::move(task));
  }
};

}  // namespace mixproof
