// HostOperation: one change to a node, as data. It is journalled, applied, undone and recognised
// without the code of the fault that planned it. Never a shell string.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "harness/base/json.h"
#include "harness/base/result.h"

namespace mixproof {

// A process that cannot be confused with a later one of the same number. Pids are those of the
// reader's namespace.
struct ProcessId {
  int pid = 0;
  std::uint64_t start_ticks =
      0;  // field 22 of /proc/PID/stat; never changes while the process lives

  bool operator==(const ProcessId&) const = default;
};

struct ThreadState {
  int tid = 0;
  char state =
      '?';  // as in /proc/PID/task/TID/stat: R running, S sleeping, t tracing stop, T stopped, ...
  int tracer = 0;              // pid of the tracer, 0 when not traced
  std::uint64_t switches = 0;  // voluntary and involuntary context switches since the thread began

  bool stopped() const { return state == 't' || state == 'T'; }
};

// Traced and stopped, every thread of it, for as long as the guard lives: the kernel lets go when a
// tracer dies.
struct HoldStopped {
  ProcessId process;
};

using HostOperation = std::variant<HoldStopped>;

Json operation_to_json(const HostOperation& operation);
Result<HostOperation> operation_from_json(const Json& json);  // kCorrupt when it is not one
std::string describe(const HostOperation& operation);         // "stop process 4711 by tracing"

Json process_to_json(const ProcessId& process);
ProcessId process_from_json(const Json& json);

// The node as a planner sees it: everything can be read, nothing changed.
class HostView {
 public:
  virtual ~HostView() = default;
  // kUnavailable when there is no such process (a zombie counts as none); kSystem when it cannot be
  // told.
  virtual Result<ProcessId> identify(int pid) const = 0;
  // All threads. kUnavailable when the process is gone or its number now belongs to another.
  virtual Result<std::vector<ThreadState>> threads(const ProcessId& process) const = 0;
  virtual std::vector<int> members(
      const std::string& cgroup) const = 0;  // pids, of the group and all below it
};

// Implemented once per operation type, in harness/agent/; handed to guards and to `recover`;
// simulated in tests. Calls are bounded: they finish or fail within 2 s. One thread.
class HostOperator {
 public:
  virtual ~HostOperator() = default;
  // What undo will restore, as text for the journal. Changes nothing. Fails when the operation
  // cannot work.
  virtual Result<std::string> preimage(const HostOperation& operation) = 0;
  // On an error, whatever was done half-way still counts as begun: the caller undoes it.
  virtual Status apply(const HostOperation& operation) = 0;
  // Undoes only what still carries our mark. Absent is success; twice is once; foreign is
  // Code::kConflict.
  virtual Status undo(const HostOperation& operation, const std::string& preimage) = 0;
  // ok when nothing of the operation is left; an error says what is. A failed read is never
  // "nothing left".
  virtual Status verify_undone(const HostOperation& operation) = 0;
};

}  // namespace mixproof
