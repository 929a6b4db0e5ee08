// Operations on processes.
// What each operation is and needs, its fields as JSON (read_fields: kCorrupt when they cannot be
// an operation's), and in words. host_operation.h has them all behind one type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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

Json process_to_json(const ProcessId& process);
ProcessId process_from_json(const Json& json);

// Traced and stopped, every thread of it, for as long as the guard lives: the kernel lets go when a
// tracer dies.
struct HoldStopped {
  static constexpr std::string_view kType = "hold_stopped";
  ProcessId process;
};

// SIGKILL, once, to all of them at the same time or, when one is not there, to none. Nothing brings
// them back, so undoing has nothing to do: it is over when they are gone.
struct KillProcess {
  static constexpr std::string_view kType = "kill_process";
  std::vector<ProcessId> processes;  // in the order of the signals
};

Json fields_of(const HoldStopped& hold);
Status read_fields(const Json& json, HoldStopped& hold);
std::string describe(const HoldStopped& hold);

Json fields_of(const KillProcess& kill);
Status read_fields(const Json& json, KillProcess& kill);
std::string describe(const KillProcess& kill);

}  // namespace mixproof
