#include "harness/agent/recover.h"

#include <csignal>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"

namespace mixproof {
namespace {

constexpr std::string_view kEnding = ".journal";

Result<FaultOnNode> read_fault(World& world, const std::string& path) {
  FaultOnNode fault;
  fault.path = path;
  const std::string bytes = TRY(world.files().read(path));
  const Result<JournalRecords> records = decode_journal(bytes, path);
  if (records.ok())
    fault.journal = journal_state(*records);
  else
    fault.unreadable = records.error().message;
  return fault;
}

// Only with the lock held: the guard is gone.
void undo_orphan(World& world, const Operators& operators, FaultOnNode& fault) {
  const Result<FaultPlan> plan = fault_plan_from_json(fault.journal.plan);
  if (!plan.ok()) {
    fault.unreadable = plan.error().message;
    return;
  }
  Journal journal(world, fault.path);
  fault.journal.reason = undo_steps(journal, *plan, fault.journal.preimages, fault.journal.begun, operators);
  fault.journal.state = fault.journal.reason.empty() ? "clean" : "dirty";
}

Result<std::vector<FaultOnNode>> look(World& world, const std::string& state_dir, const Operators* operators) {
  const std::string directory = journal_directory(state_dir);
  const std::vector<std::string> names = TRY(world.files().list(directory));
  std::vector<FaultOnNode> out;
  for (const std::string& name : names) {
    if (name.size() < kEnding.size() || name.substr(name.size() - kEnding.size()) != kEnding) continue;
    FaultOnNode fault = TRY(read_fault(world, directory + "/" + name));
    if (!fault.resolved()) {
      const Result<ProcessId> guard = world.host().identify(fault.journal.guard.pid);
      fault.guarded = guard.ok() && *guard == fault.journal.guard;
    }
    if (operators != nullptr && !fault.resolved() && fault.unreadable.empty() && !fault.guarded) {
      // The lock and not the process table decides: a guard that has just begun holds it.
      const bool ours = TRY(world.files().try_lock(journal_lock(fault.path)));
      if (ours)
        undo_orphan(world, *operators, fault);
      else
        fault.guarded = true;
    }
    out.push_back(std::move(fault));
  }
  return out;
}

}  // namespace

Json fault_on_node_to_json(const FaultOnNode& fault) {
  const std::string state = fault.unreadable.empty() ? fault.journal.state : "dirty";
  return {{"run", fault.journal.run},
          {"fault", fault.journal.fault},
          {"state", state},
          {"reason", fault.unreadable.empty() ? fault.journal.reason : fault.unreadable},
          {"guarded", fault.guarded},
          {"resolved", fault.resolved()},
          {"lease_end_ns", fault.journal.lease_end.count()},
          {"guard_pid", fault.journal.guard.pid},
          {"journal", fault.path}};
}

Result<std::vector<FaultOnNode>> recover_faults(World& world, const std::string& state_dir, const Operators& operators) {
  return look(world, state_dir, &operators);
}

Result<std::vector<FaultOnNode>> survey_faults(World& world, const std::string& state_dir) {
  return look(world, state_dir, nullptr);
}

void end_guarded_faults(World& world, const std::vector<FaultOnNode>& faults) {
  for (const FaultOnNode& fault : faults)
    // A guard that is gone by now is what we want; the next survey says so.
    if (fault.guarded) static_cast<void>(world.signal(fault.journal.guard, SIGTERM));
}

}  // namespace mixproof
