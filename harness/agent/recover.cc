#include "harness/agent/recover.h"

#include <algorithm>
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

// A network namespace ends with its kernel, and so does everything in it; the number that names it
// may be another's after the next boot.
void forget_what_ended_with_its_boot(World& world, const FaultPlan& plan, JournalState& journal) {
  if (journal.boot_id == world.boot_id()) return;
  std::erase_if(journal.begun, [&plan](std::size_t step) {
    return step < plan.steps.size() &&
           std::holds_alternative<DropPackets>(plan.steps[step].operation);
  });
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
  forget_what_ended_with_its_boot(world, *plan, fault.journal);
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

// What carries our mark, and why some could not be looked for.
struct Marked {
  std::vector<HostOperation> operations;
  std::string trouble;
};

template <std::size_t Type = 0>
void look_for_marks(const Operators& operators, Marked& out) {
  if constexpr (Type < std::variant_size_v<HostOperation>) {
    const auto found = operators(HostOperation(std::in_place_index<Type>)).strays();
    if (found.ok())
      out.operations.insert(out.operations.end(), found->begin(), found->end());
    else if (found.error().code != Code::kUnavailable)
      out.trouble = found.error().message;
    look_for_marks<Type + 1>(operators, out);
  }
}

Marked look_for_marks(const Operators& operators) {
  Marked out;
  look_for_marks(operators, out);
  return out;
}

bool has_mark(const std::vector<HostOperation>& operations, const std::string& mark) {
  return std::any_of(operations.begin(), operations.end(),
                     [&mark](const HostOperation& one) { return mark_of(one) == mark; });
}

// A fault that is not over answers for what its plan makes.
bool belongs_to(const FaultOnNode& fault, const std::string& mark) {
  const Result<FaultPlan> plan = fault_plan_from_json(fault.journal.plan);
  if (fault.resolved() || !plan.ok()) return false;
  return std::any_of(plan->steps.begin(), plan->steps.end(),
                     [&mark](const Step& step) { return mark_of(step.operation) == mark; });
}

FaultOnNode end_stray(const Operators& operators, const HostOperation& operation) {
  FaultOnNode out;
  out.journal.fault = mark_of(operation);
  out.journal.reason = "found without a journal: " + mark_of(operation);
  out.journal.state = "clean";
  HostOperator& by = operators(operation);
  const Status undone = by.undo(operation, ""), gone = by.verify_undone(operation);
  for (const Status* status : {&undone, &gone})
    if (!status->ok()) {
      out.journal.state = "dirty";
      out.journal.reason += "; " + status->error().message;
    }
  return out;
}

// `before`: marks seen before the journals were read. A guard journals its plan first and makes its
// mark then, and unmakes it before it journals that it is clean: so what was there before and is
// there now, and is in no journal read between, is nobody's.
void end_strays(const Operators& operators, const Marked& before,
                std::vector<FaultOnNode>& faults) {
  const Marked now = look_for_marks(operators);
  std::vector<FaultOnNode> found;
  for (const HostOperation& operation : now.operations) {
    const std::string mark = mark_of(operation);
    const bool journalled =
        std::any_of(faults.begin(), faults.end(),
                    [&mark](const FaultOnNode& fault) { return belongs_to(fault, mark); });
    if (!journalled && has_mark(before.operations, mark))
      found.push_back(end_stray(operators, operation));
  }
  if (!now.trouble.empty()) {
    FaultOnNode unknown;
    unknown.unreadable = "what carries our mark cannot be looked for: " + now.trouble;
    found.push_back(std::move(unknown));
  }
  faults.insert(faults.end(), found.begin(), found.end());
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
  const Marked marked = look_for_marks(operators);
  std::vector<FaultOnNode> faults = TRY(look(world, state_dir, &operators));
  end_strays(operators, marked, faults);
  return faults;
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
