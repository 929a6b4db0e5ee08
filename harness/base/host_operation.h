// HostOperation: one change to a node, as data. It is journalled, applied, undone and recognised
// without the code of the fault that planned it. Never a shell string.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/base/json.h"
#include "harness/base/network_operations.h"
#include "harness/base/process_operations.h"
#include "harness/base/result.h"
#include "harness/base/storage_operations.h"

namespace mixproof {

struct ThreadState {
  int tid = 0;
  char state =
      '?';  // as in /proc/PID/task/TID/stat: R running, S sleeping, t tracing stop, T stopped, ...
  int tracer = 0;              // pid of the tracer, 0 when not traced
  std::uint64_t switches = 0;  // voluntary and involuntary context switches since the thread began

  bool stopped() const { return state == 't' || state == 'T'; }
};

// Names of everything that a fault makes on a node begin with this; the rest is of plain small
// letters and digits.
inline constexpr std::string_view kMarkPrefix = "mixproof_";

// Those of one medium are declared together, in *_operations.h, each with its kType, fields_of(),
// read_fields(), describe() and, if it leaves something under a name, mark_of().
using HostOperation = std::variant<HoldStopped, KillProcess, DropPackets, FillDisk>;

struct FileSystem {
  std::uint64_t device = 0;                // st_dev
  std::int64_t bytes = 0, free_bytes = 0;  // free for root
};

Json operation_to_json(const HostOperation& operation);
Result<HostOperation> operation_from_json(const Json& json);  // kCorrupt when it is not one
std::string describe(const HostOperation& operation);         // "stop process 4711 by tracing"
// The name under which it stands on the node, unlike any other's; empty when it has none.
std::string mark_of(const HostOperation& operation);

// The node as a planner sees it: everything can be read, nothing changed.
class HostView {
 public:
  virtual ~HostView() = default;
  // kUnavailable when there is no such process (a zombie counts as none); kSystem when it cannot be
  // told.
  virtual Result<ProcessId> identify(int pid) const = 0;
  // The number of its parent; 0 when that is none, or outside our pid namespace. kUnavailable when
  // there is no such process.
  virtual Result<int> parent(int pid) const = 0;
  // All threads. kUnavailable when the process is gone or its number now belongs to another.
  virtual Result<std::vector<ThreadState>> threads(const ProcessId& process) const = 0;
  virtual std::vector<int> members(
      const std::string& cgroup) const = 0;  // pids, of the group and all below it
  // kUnavailable when there is no such directory.
  virtual Result<FileSystem> file_system(const std::string& directory) const = 0;
  virtual Result<std::uint64_t> net_namespace() const = 0;  // inode of ours
  // Numeric addresses of every interface that is up but loopback, IPv4 and IPv6, sorted; those of
  // IPv6's link scope without their interface.
  virtual Result<std::vector<std::string>> addresses() const = 0;
};

inline constexpr std::chrono::milliseconds kTendEvery{10};

// Implemented once per operation type, in harness/agent/; handed to guards and to `recover`;
// simulated in tests. Calls are bounded: they finish or fail within 2 s. One thread.
// `lease`: from now until the effect must end by itself where the kernel can see to that.
class HostOperator {
 public:
  virtual ~HostOperator() = default;
  // What undo will restore, and how it is recognised, as text for the journal. Changes nothing that
  // anyone else could notice. Fails when the operation cannot work.
  virtual Result<std::string> preimage(const HostOperation& operation) = 0;
  // On an error, whatever was done half-way still counts as begun: the caller undoes it.
  virtual Status apply(const HostOperation& operation, std::chrono::nanoseconds lease) = 0;
  // Of an applied operation. kUnavailable when its lease has ended in the kernel: it is over.
  virtual Status renew(const HostOperation&, std::chrono::nanoseconds) { return ok(); }
  // Whether tend() wants to be called, about every kTendEvery, while it is in effect.
  virtual bool needs_tending() const { return false; }
  virtual void tend(const HostOperation&) {}
  // What the mechanism itself has counted since it was applied ("packets", "bytes"); an empty
  // object when it counts nothing.
  virtual Result<Json> counted(const HostOperation& operation);
  // Undoes only what still carries our mark. Absent is success; twice is once; foreign is
  // Code::kConflict.
  virtual Status undo(const HostOperation& operation, const std::string& preimage) = 0;
  // ok when nothing of the operation is left; an error says what is. A failed read is never
  // "nothing left".
  virtual Status verify_undone(const HostOperation& operation) = 0;
  // What carries our mark on this node, whatever journals say, and as operations that undo() takes;
  // without what the kernel knows to be held by a living process. Changes nothing. kUnavailable
  // where this node has no such thing at all.
  virtual Result<std::vector<HostOperation>> strays() { return std::vector<HostOperation>(); }
};

}  // namespace mixproof
