#include "harness/agent/guard.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/agent/recover.h"
#include "harness/base/text.h"

namespace mixproof {
namespace {

constexpr Time kLeaseMax = std::chrono::minutes(5);
constexpr Time kSpecDeadline = std::chrono::seconds(10);

Time lease_of(const Json& json) {
  return std::min<Time>(std::chrono::milliseconds(integer_at(json, "lease_ms")), kLeaseMax);
}

}  // namespace

std::string undo_steps(Journal& journal, const FaultPlan& plan,
                       const std::vector<std::string>& preimages, std::vector<std::size_t> begun,
                       const Operators& operators) {
  std::vector<std::string> troubles;
  std::reverse(begun.begin(), begun.end());
  for (const std::size_t step : begun) {
    if (step >= plan.steps.size()) {
      troubles.push_back("the journal tells of step " + std::to_string(step) +
                         ", which the plan lacks");
      continue;
    }
    const HostOperation& operation = plan.steps[step].operation;
    // A journal that cannot be written (full disk) must not keep a fault in place.
    static_cast<void>(journal.write("undo_begin", {{"step", step}}));
    const Status undone =
        operators(operation).undo(operation, step < preimages.size() ? preimages[step] : "");
    if (undone.ok())
      static_cast<void>(journal.write("undo_done", {{"step", step}}));
    else
      troubles.push_back(undone.error().message);
  }
  for (const std::size_t step : begun) {
    if (step >= plan.steps.size()) continue;
    const Status gone =
        operators(plan.steps[step].operation).verify_undone(plan.steps[step].operation);
    if (!gone.ok()) troubles.push_back(gone.error().message);
  }
  const std::string reason = join(troubles, "; ");
  const Status last = reason.empty() ? journal.write("clean", Json::object())
                                     : journal.write("dirty", {{"reason", reason}});
  // Clean on the node but not in its journal: `recover` will look again and find nothing to undo.
  if (!last.ok() && !reason.empty()) return reason + "; " + last.error().message;
  return reason;
}

Guard::Guard(World& world, Operators operators) : world_(world), operators_(std::move(operators)) {}

void Guard::start() {
  world_.listen({.on_line = [this](std::string_view line) { on_line(line); },
                 .on_end =
                     [this] {
                       if (!started_) done_ = true;  // nothing was asked, nothing was done
                     },
                 .on_signal = [this](int signal) { revert("signal " + std::to_string(signal)); }});
  world_.after(kSpecDeadline, [this] {
    if (!started_) done_ = true;
  });
}

void Guard::on_line(std::string_view line) {
  if (done_) return;
  const Result<Json> message = parse_json(line, "guard");
  if (!message.ok()) return refuse(message.error());
  if (const Json* spec = member(*message, "guard"); spec != nullptr && !started_) {
    started_ = true;
    const Status begun = begin(*spec);
    if (!begun.ok()) refuse(begun.error());
    return;
  }
  const std::string order = text_at(*message, "do");
  if (order == "renew") renew(lease_of(*message));
  if (order == "revert") revert(text_at(*message, "why", "ordered"));
}

Status Guard::begin(const Json& spec) {
  fault_ = text_at(spec, "fault");
  const std::string state_dir = text_at(spec, "state_dir"), run = text_at(spec, "run");
  const Json* plan = member(spec, "plan");
  if (fault_.empty() || state_dir.empty() || plan == nullptr)
    return Error{Code::kInvalid, "incomplete guard order"};
  plan_ = TRY(fault_plan_from_json(*plan));
  if (plan_.steps.empty()) return Error{Code::kInvalid, "a fault plan without steps"};
  const Time lease = lease_of(spec);
  if (lease <= Time(0)) return Error{Code::kInvalid, "no lease"};
  TRY(world_.files().make_directories(journal_directory(state_dir)));
  const std::string path = journal_path(state_dir, run, fault_);
  const bool locked = TRY(world_.files().try_lock(journal_lock(path)));
  if (!locked) return Error{Code::kRefused, "fault " + fault_ + " already has a guard"};
  // Ids of runs and faults are used once; an older journal under this name would speak for us.
  const std::vector<std::string> names = TRY(world_.files().list(journal_directory(state_dir)));
  for (const std::string& name : names)
    if (journal_directory(state_dir) + "/" + name == path)
      return Error{Code::kRefused, path + " is there already"};
  journal_.emplace(world_, path);
  // No journal, no injection.
  TRY(journal_->write("plan", {{"run", run},
                               {"fault", fault_},
                               {"node", text_at(spec, "node")},
                               {"plan", *plan},
                               {"guard", process_to_json(world_.self())},
                               {"cgroup", text_at(spec, "cgroup")}}));
  TRY(be_alone(state_dir));
  lease_end_ = world_.now(Clock::kBoottime) + lease;
  TRY(journal_->write("lease", {{"end_ns", lease_end_.count()}}));
  set_deadline();
  const Status injected = inject();
  // What it was to hit is not there: nothing was done, and there is nothing to prove.
  if (!injected.ok() && begun_.empty() && injected.error().code == Code::kUnavailable)
    return injected.error();
  if (!injected.ok()) {
    revert("injection failed: " + injected.error().message);
    return ok();
  }
  tell("injected", "");
  return ok();
}

// Two controllers may have asked two agents at once. Each guard has journalled its plan by now, so
// at least one of them sees the other; it leaves, having done nothing.
Status Guard::be_alone(const std::string& state_dir) {
  const std::vector<FaultOnNode> faults = TRY(survey_faults(world_, state_dir));
  for (const FaultOnNode& other : faults)
    if (other.path != journal_->path() && !other.resolved())
      return Error{Code::kRefused, "another fault is on this node: " + other.path};
  return ok();
}

Status Guard::inject() {
  tell("injecting", "");
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    const HostOperation& operation = plan_.steps[i].operation;
    std::string preimage = TRY(operators_(operation).preimage(operation));
    TRY(journal_->write("preimage", {{"step", i}, {"value", preimage}}));
    preimages_.push_back(std::move(preimage));
    if (world_.now(Clock::kBoottime) >= lease_end_)
      return Error{Code::kTimeout, "its lease ended meanwhile"};
    TRY(journal_->write("begin", {{"step", i}}));
    begun_.push_back(i);
    TRY(operators_(operation).apply(operation, lease_end_ - world_.now(Clock::kBoottime)));
    TRY(journal_->write("done", {{"step", i}}));
  }
  tend();
  return ok();
}

void Guard::refuse(const Error& error) {
  if (!begun_.empty()) return;  // a damaged line while the fault is on: the deadline still stands
  tell("refused", error.message);
  done_ = true;
}

void Guard::renew(Time lease) {
  // A lease that has ended is over: the deadline timer is about to revert, and must not be outrun.
  if (world_.now(Clock::kBoottime) >= lease_end_ || lease <= Time(0)) return;
  const Time end = world_.now(Clock::kBoottime) + lease;
  if (!journal_->write("lease", {{"end_ns", end.count()}}).ok())
    return;  // not written, not renewed
  for (const std::size_t step : begun_) {
    const HostOperation& operation = plan_.steps[step].operation;
    const Status renewed = operators_(operation).renew(operation, lease);
    if (!renewed.ok()) return revert("its lease could not be renewed: " + renewed.error().message);
  }
  lease_end_ = end;
  set_deadline();
}

void Guard::tend() {
  bool needed = false;
  for (const std::size_t step : begun_) {
    const HostOperation& operation = plan_.steps[step].operation;
    HostOperator& by = operators_(operation);
    if (!by.needs_tending()) continue;
    needed = true;
    by.tend(operation);
  }
  if (needed) tend_timer_ = world_.after(kTendEvery, [this] { tend(); });
}

void Guard::set_deadline() {
  world_.cancel(deadline_);
  deadline_ = world_.at(Clock::kBoottime, lease_end_, [this] { revert("lease ended"); });
}

void Guard::revert(const std::string& why) {
  if (done_) return;
  if (!journal_) {
    done_ = true;
    return;
  }
  world_.cancel(deadline_);
  world_.cancel(tend_timer_);
  tell("reverting", why);
  const std::string trouble = undo_steps(*journal_, plan_, preimages_, begun_, operators_);
  clean_ = trouble.empty();
  tell(clean_ ? "clean" : "dirty", clean_ ? why : trouble);
  done_ = true;
}

void Guard::tell(const std::string& state, const std::string& detail) {
  Json line = {{"fault", fault_},
               {"state", state},
               {"at_ns", world_.now(Clock::kMonotonic).count()},
               {"detail", detail}};
  if (state == "reverting") line["counted"] = counted();
  // Nobody may be listening any more; the journal says the same.
  static_cast<void>(world_.tell_parent(line_of(line)));
}

// Taken before anything is undone, when the counters are still there.
Json Guard::counted() {
  Json out = Json::array();
  for (const std::size_t step : begun_) {
    const HostOperation& operation = plan_.steps[step].operation;
    const Result<Json> counts = operators_(operation).counted(operation);
    out.push_back(counts.ok() ? *counts : Json{{"trouble", counts.error().message}});
  }
  return out;
}

}  // namespace mixproof
