#include "harness/agent/recover.h"

#include <csignal>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"

namespace mixproof {
namespace {

constexpr std::string_view kEnding = ".journal";

// The lease's end plus every undo budget in use and some more.
constexpr Time kHungAfter = std::chrono::seconds(10);

struct ReadFault {
  FaultOnNode fault;
  std::string bytes;
  JournalRecords records;
};

ReadFault read_fault(World& world, const std::string& path) {
  ReadFault read;
  read.fault.path = path;
  const Result<std::string> bytes = world.files().read(path);
  if (!bytes.ok()) {
    read.fault.unreadable = bytes.error().message;
    return read;
  }
  read.bytes = *bytes;
  const Result<JournalRecords> records = decode_journal(read.bytes, path);
  if (!records.ok()) {
    read.fault.unreadable = records.error().message;
    return read;
  }
  read.records = *records;
  read.fault.journal = journal_state(read.records);
  return read;
}

// Its process number and start time say little about a guard of an earlier boot.
bool guard_lives(World& world, const JournalState& journal) {
  if (journal.boot_id != world.boot_id()) return false;
  const Result<ProcessId> guard = world.host().identify(journal.guard.pid);
  if (!guard.ok()) return guard.error().code != Code::kUnavailable;  // not known is not gone
  return *guard == journal.guard;
}

// Only with the lock held: the guard is gone.
void undo_orphan(World& world, const Operators& operators, ReadFault& read) {
  FaultOnNode& fault = read.fault;
  const Result<FaultPlan> plan = fault_plan_from_json(fault.journal.plan);
  if (!plan.ok()) {
    fault.unreadable = plan.error().message;
    return;
  }
  // What a crash left of a last record would swallow everything that is appended behind it. Cut off
  // or not, undo.
  if (read.records.torn)
    static_cast<void>(world.files().replace(
        fault.path, std::string_view(read.bytes).substr(0, read.records.sound)));
  Journal journal(world, fault.path);
  fault.journal.reason =
      undo_steps(journal, *plan, fault.journal.preimages, fault.journal.begun, operators);
  fault.journal.state = fault.journal.reason.empty() ? "clean" : "dirty";
}

void recover_fault(World& world, const Operators& operators, ReadFault& read) {
  // The lock and not the process table decides: a guard holds it from before its first record to
  // its end.
  const Result<bool> ours = world.files().try_lock(journal_lock(read.fault.path));
  if (!ours.ok()) {
    read.fault.unreadable = ours.error().message;
    return;
  }
  if (!*ours) {
    read.fault.guarded = true;
    return;
  }
  // What was read before the lock was ours may have changed since.
  read = read_fault(world, read.fault.path);
  if (!read.fault.resolved() && read.fault.unreadable.empty()) undo_orphan(world, operators, read);
}

Result<std::vector<FaultOnNode>> look(World& world, const std::string& state_dir,
                                      const Operators* operators) {
  const std::string directory = journal_directory(state_dir);
  const std::vector<std::string> names = TRY(world.files().list(directory));
  std::vector<FaultOnNode> out;
  for (const std::string& name : names) {
    if (name.size() < kEnding.size() || name.substr(name.size() - kEnding.size()) != kEnding)
      continue;
    ReadFault read = read_fault(world, directory + "/" + name);
    const bool lives = read.fault.unreadable.empty() && guard_lives(world, read.fault.journal);
    read.fault.guarded = lives && read.fault.journal.state != "clean";
    if (operators != nullptr && !read.fault.resolved() && read.fault.unreadable.empty())
      recover_fault(world, *operators, read);
    // Nobody else clears the group of a guard whose agent died before it. A failure leaves an empty
    // group, no fault.
    if (operators != nullptr && !lives && !read.fault.guarded && !read.fault.journal.cgroup.empty())
      static_cast<void>(world.clear_cgroup(read.fault.journal.cgroup));
    out.push_back(std::move(read.fault));
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

Result<std::vector<FaultOnNode>> recover_faults(World& world, const std::string& state_dir,
                                                const Operators& operators) {
  return look(world, state_dir, &operators);
}

Result<std::vector<FaultOnNode>> survey_faults(World& world, const std::string& state_dir) {
  return look(world, state_dir, nullptr);
}

void end_guarded_faults(World& world, const std::vector<FaultOnNode>& faults) {
  const Time now = world.now(Clock::kBoottime);
  for (const FaultOnNode& fault : faults) {
    const bool hung =
        fault.journal.lease_end != Time(0) && now > fault.journal.lease_end + kHungAfter;
    // A guard that is gone by now is what we want; the next survey says so.
    if (fault.guarded)
      static_cast<void>(world.signal(fault.journal.guard, hung ? SIGKILL : SIGTERM));
  }
}

}  // namespace mixproof
