#include "suites/judge.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "reports/verdict.h"
#include "suites/aborts.h"
#include "suites/fault_evidence.h"
#include "suites/fault_parts.h"
#include "suites/limits.h"
#include "suites/metric_rows.h"
#include "suites/observed.h"
#include "suites/validity.h"

namespace mixproof {
namespace {

constexpr std::string_view kSignalPrefix = "signal ";

double ns_to_s(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

Json phase_timeline(const JudgeInput& input, const PhasePlan& phase) {
  Json out = {{"name", phase.name}, {"loads", phase.run}, {"complete", false}};
  Json problems = Json::array();
  for (const Problem& problem : phase_problems(input, phase.name))
    problems.push_back({{"reason", problem.reason}, {"detail", problem.detail}});
  const auto found = input.evidence.phases.find(phase.name);
  if (found != input.evidence.phases.end() && found->second.begun) {
    const PhaseWindow& window = found->second;
    out["begin_s"] = input.evidence.seconds(window.begin);
    out["settled_s"] = input.evidence.seconds(window.settled);
    out["end_s"] = input.evidence.seconds(window.end);
    out["complete"] = window.complete;
    for (const std::string& load : phase.run)
      if (const std::string trouble = measurement_trouble(input, load, window.settled, window.end);
          !trouble.empty())
        problems.push_back({{"reason", "measurement_invalid"}, {"detail", load + ": " + trouble}});
  }
  out["problems"] = std::move(problems);
  return out;
}

// Losses of ranks that a training went on after, and checkpoints that it could not save.
void add_survival(const Evidence& evidence, Json& events) {
  for (const auto& [name, load] : evidence.loads) {
    for (const NewAttempt& one : load.attempts)
      events.push_back(
          {{"kind", "resume"},
           {"at_s", evidence.seconds(one.at)},
           {"what", name},
           {"detail", format("attempt %lld: ", static_cast<long long>(one.attempt)) + one.why}});
    for (const CheckpointPart& part : load.checkpoints)
      if (!part.good)
        events.push_back(
            {{"kind", "checkpoint"},
             {"at_s", evidence.seconds(part.begin)},
             {"what", name + "[" + std::to_string(part.rank) + "]"},
             {"detail", format("at step %lld not saved: ", static_cast<long long>(part.step)) +
                            part.detail}});
  }
}

Json events_of(const Evidence& evidence) {
  Json events = Json::array();
  for (const auto& [id, states] : evidence.faults)
    for (const FaultState& state : states)
      events.push_back({{"kind", "fault"},
                        {"at_s", evidence.seconds(state.at)},
                        {"what", id},
                        {"node", state.node},
                        {"state", state.state},
                        {"uncertainty_s", ns_to_s(state.uncertainty_ns)},
                        {"detail", state.detail},
                        {"evidence", state.evidence}});
  for (std::size_t i = 0; i < evidence.lost.size(); ++i)
    events.push_back({{"kind", "lost"},
                      {"at_s", evidence.seconds(evidence.lost[i].second)},
                      {"what", evidence.lost[i].first},
                      {"detail", evidence.lost_why[i]}});
  for (const ProcessExit& exit : evidence.exits)
    events.push_back({{"kind", "exit"},
                      {"at_s", evidence.seconds(exit.at)},
                      {"what", exit.what},
                      {"detail", "on " + exit.node + ": " + exit.status}});
  for (const RunError& error : evidence.errors)
    events.push_back({{"kind", "error"},
                      {"at_s", error.at == 0 ? Json(nullptr) : Json(evidence.seconds(error.at))},
                      {"what", error.what},
                      {"detail", std::string(code_name(error.code)) + ": " + error.message}});
  add_survival(evidence, events);
  for (const AbortEvent& abort : evidence.aborts)
    events.push_back({{"kind", "abort"},
                      {"at_s", evidence.seconds(abort.at)},
                      {"what", abort.id},
                      {"detail", abort.detail}});
  if (!evidence.stop_why.empty())
    events.push_back({{"kind", "stop"},
                      {"at_s", evidence.seconds(evidence.stop_at)},
                      {"what", "run"},
                      {"detail", evidence.stop_why}});
  std::stable_sort(events.begin(), events.end(), [](const Json& a, const Json& b) {
    return number_at(a, "at_s") < number_at(b, "at_s");
  });
  return events;
}

Json timeline_of(const JudgeInput& input) {
  Json phases = Json::array();
  for (const PhasePlan& phase : input.plan.phases) phases.push_back(phase_timeline(input, phase));
  return {
      {"phases", phases}, {"events", events_of(input.evidence)}, {"notes", input.evidence.notes}};
}

Json fault_safety(const FaultFacts& fault) {
  Json out = {{"id", fault.plan->id},         {"fault", fault.plan->fault},
              {"target", fault.plan->target}, {"state", fault.state},
              {"injected", fault.injected},   {"effective", fault.not_effective.empty()},
              {"touched", fault.touched},     {"clean", fault.clean},
              {"unsafe", fault.unsafe()}};
  if (!fault.not_effective.empty()) out["not_effective"] = fault.not_effective;
  return out;
}

struct Safety {
  Json json;
  bool unsafe = false;
};

Safety safety_of(const JudgeInput& input) {
  Safety out;
  Json faults = Json::array(), leftovers = Json::array();
  int injected = 0, effective = 0, clean = 0;
  const std::vector<FaultFacts> all = all_faults_of(input);
  for (const FaultFacts& fault : all) {
    faults.push_back(fault_safety(fault));
    injected += fault.injected ? 1 : 0;
    effective += fault.injected && fault.not_effective.empty() ? 1 : 0;
    clean += fault.clean && !fault.dirty ? 1 : 0;
    if (fault.unsafe()) leftovers.push_back(fault.plan->id + " (" + fault_words(*fault.plan) + ")");
  }
  // A fault that the recording names and the plan does not: nobody knows what it was, so it has to
  // be clean too.
  for (const auto& [id, states] : input.evidence.faults) {
    const bool planned =
        std::any_of(all.begin(), all.end(), [&](const FaultFacts& f) { return f.plan->id == id; });
    if (!planned && !states.empty() && states.back().state != "clean" &&
        states.back().state != "planned")
      leftovers.push_back(id + " (not in the plan)");
  }
  out.unsafe = !leftovers.empty();
  out.json = {{"faults", faults}, {"injected", injected},   {"effective", effective},
              {"clean", clean},   {"leftovers", leftovers}, {"safe", !out.unsafe}};
  return out;
}

// "SIGINT" of "signal 2" or "signal SIGINT"; empty when something else ended the run.
std::string signal_of(const std::string& why) {
  if (why.rfind(kSignalPrefix, 0) != 0) return "";
  const std::string word = why.substr(kSignalPrefix.size());
  for (const auto& [number, name] : {std::pair{"1", "SIGHUP"}, {"2", "SIGINT"}, {"15", "SIGTERM"}})
    if (word == number) return name;
  return word;
}

bool accounted_for(const Plan& plan, const RunError& error) {
  const std::string base = error.what.substr(0, error.what.find('['));
  if (plan.service(base) != nullptr) return true;
  if (plan.worker(base) != nullptr && plan.load(base) == nullptr)
    return !plan.aborts.empty() || std::any_of(plan.limits.begin(), plan.limits.end(),
                                               [](const Limit& l) { return !l.signal.empty(); });
  if (plan.load(base) != nullptr)
    return std::any_of(plan.limits.begin(), plan.limits.end(),
                       [&](const Limit& l) { return l.load == base; });
  return std::any_of(plan.phases.begin(), plan.phases.end(), [&](const PhasePlan& phase) {
    return std::any_of(phase.faults.begin(), phase.faults.end(),
                       [&](const FaultPlanEntry& fault) { return fault.id == error.what; });
  });
}

RunOutcome outcome_of(const JudgeInput& input, const std::vector<Check>& checks, bool unsafe) {
  const Evidence& evidence = input.evidence;
  RunOutcome out;
  out.unsafe = unsafe;
  out.incomplete = !evidence.has_end || !evidence.has_begin;
  for (const RunError& error : evidence.errors)
    if (!accounted_for(input.plan, error)) out.incomplete = true;
  for (const AbortEvent& event : evidence.aborts)
    if (std::none_of(input.plan.aborts.begin(), input.plan.aborts.end(),
                     [&](const AbortPlan& abort) { return abort.id == event.id; }))
      out.incomplete = true;
  out.signal = signal_of(evidence.stop_why);
  // What an abort left unmeasured follows from it: the abort's own check decides.
  const auto follows = [&evidence](const Check& check) {
    return !evidence.aborts.empty() && check.status == VerdictStatus::kError &&
           (check.reason == "not_run" || check.reason == "phase_incomplete");
  };
  for (const Check& check : checks)
    out.checks.push_back(
        {check.limit.check_id(), check.status, check.limit.required && !follows(check)});
  return out;
}

Json verdict_json(const JudgeInput& input, const RunOutcome& outcome,
                  const std::vector<Check>& checks) {
  const Verdict verdict = decide(outcome);
  Json counts = Json::object();
  for (const std::string& name : check_status_names()) counts[name] = 0;
  for (const Check& check : checks) {
    Json& count = counts[std::string(status_name(check.status))];
    count = count.get<int>() + 1;
  }
  Json out = {{"status", status_name(verdict.status)},
              {"exit_code", verdict.exit_code},
              {"counts", counts},
              {"deciding", verdict.deciding},
              {"decided", verdict.decided},
              {"judged", verdict.judged}};
  Json reasons = Json::array();
  if (!input.evidence.has_end) reasons.push_back("the recording has no end: the run was cut");
  if (outcome.unsafe) reasons.push_back("a fault is not proved clean");
  if (!outcome.signal.empty()) reasons.push_back("the run was ended by " + outcome.signal);
  for (const AbortEvent& abort : input.evidence.aborts)
    reasons.push_back("the run was ended by abort " + abort.id + ": " + abort.detail);
  if (verdict.judged == 0) reasons.push_back("no required check was judged");
  for (const RunError& error : input.evidence.errors)
    if (!accounted_for(input.plan, error)) reasons.push_back(error.what + ": " + error.message);
  out["reasons"] = std::move(reasons);
  return out;
}

}  // namespace

Judgement judge(const Plan& plan, std::span<const Json> rows) {
  const Evidence evidence = read_evidence(plan, rows);
  const JudgeInput input{plan, evidence};
  std::vector<Check> checks = judge_limits(input);
  for (const AbortPlan& abort : plan.aborts) checks.push_back(judge_abort(input, abort));
  Safety safety = safety_of(input);
  Judgement out;
  out.partial = !evidence.has_end;
  out.observed = observed(plan, rows);
  out.metrics = metric_rows(input, out.observed);
  out.checks = Json::array();
  for (std::size_t i = 0; i < checks.size(); ++i)
    out.checks.push_back(i < plan.limits.size()
                             ? check_json(checks[i])
                             : abort_check_json(checks[i], plan.aborts[i - plan.limits.size()]));
  out.timeline = timeline_of(input);
  out.verdict = verdict_json(input, outcome_of(input, checks, safety.unsafe), checks);
  out.safety = std::move(safety.json);
  return out;
}

}  // namespace mixproof
