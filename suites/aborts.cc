#include "suites/aborts.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "suites/request_metrics.h"
#include "suites/signals.h"
#include "suites/validity.h"

namespace mixproof {
namespace {

using enum VerdictStatus;

std::int64_t ns_of(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }
double seconds_of(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

bool nearer(const AbortPlan& plan, double value, double than) {
  if (!plan.load.empty()) return value < than;
  return plan.at_most ? value > than : value < than;
}

// The requests that a good share at that time rests on: those that ended within over_s, due up to
// their deadline earlier. At least two seconds, so that a client row lies among them.
std::int64_t evidence_begin(const JudgeInput& input, const AbortPlan& plan, std::int64_t at) {
  const double deadline_s = input.plan.load(plan.load)->slo->deadline_s;
  return at - ns_of(std::max(plan.over_s, 2.0) + (std::isfinite(deadline_s) ? deadline_s : 0));
}

// A client that was late or starved makes its users look bad, or hides that they were.
std::string client_trouble(const JudgeInput& input, const AbortPlan& plan, std::int64_t at) {
  if (plan.load.empty()) return "";
  return measurement_trouble(input, plan.load, evidence_begin(input, plan, at), at);
}

void settle(Check& check, VerdictStatus status, const std::string& reason,
            const std::string& detail) {
  check.status = status;
  check.reason = reason;
  check.detail = detail;
}

// What the phases that it is watched in hold for it.
class Replay {
 public:
  Replay(const JudgeInput& input, const AbortPlan& plan)
      : input_(input), plan_(plan), condition_(plan) {}

  void judge(Check& check) {
    for (const PhasePlan& phase : input_.plan.phases)
      if (plan_.watches(phase.name) && !ran(phase, check)) return;
    for (const PhasePlan& phase : input_.plan.phases) {
      if (!plan_.watches(phase.name)) {
        condition_.reset();
        continue;
      }
      const PhaseWindow& window = input_.evidence.phases.at(phase.name);
      const auto trigger = plan_.load.empty() ? samples(window) : requests(window);
      if (!trigger) continue;
      check.figure = Figure::of(trigger->value, condition_.seen());
      if (const std::string trouble = client_trouble(input_, plan_, trigger->at); !trouble.empty())
        return settle(check, kInconclusive, "measurement_invalid",
                      trigger->detail + "; " + trouble);
      return settle(check, kFail, "abort_missed", trigger->detail + "; the run went on");
    }
    if (plan_.load.empty() ? !watched_by_signal(check) : !watched_by_load(check)) return;
    check.figure = condition_.worst() ? Figure::of(*condition_.worst(), condition_.seen())
                                      : Figure::lacks("no_samples");
    if (!condition_.worst())
      return settle(check, kError, "no_samples", "nothing was measured that it watches");
    settle(check, kPass, "abort_quiet",
           "never: " + number_text(*condition_.worst()) + " at worst, " + abort_rule(plan_));
  }

 private:
  bool ran(const PhasePlan& phase, Check& check) const {
    const auto window = input_.evidence.phases.find(phase.name);
    if (window == input_.evidence.phases.end() || !window->second.begun)
      settle(check, kError, "not_run", "phase " + phase.name + " was not run");
    else if (!window->second.complete)
      settle(check, kError, "phase_incomplete", "phase " + phase.name + " was cut short");
    else
      return true;
    return false;
  }

  std::optional<AbortCondition::Trigger> samples(const PhaseWindow& window) {
    const auto found = input_.evidence.signals.find(plan_.signal);
    if (found == input_.evidence.signals.end()) return std::nullopt;
    for (const SignalSample& sample : found->second) {
      if (!sample.value || sample.at < window.begin || sample.at >= window.end) continue;
      if (auto trigger = condition_.sample(sample.at, *sample.value)) return trigger;
    }
    return std::nullopt;
  }

  std::optional<AbortCondition::Trigger> requests(const PhaseWindow& window) {
    const auto found = input_.evidence.loads.find(plan_.load);
    if (found == input_.evidence.loads.end()) return std::nullopt;
    const Slo& slo = *input_.plan.load(plan_.load)->slo;
    std::vector<std::pair<std::int64_t, bool>> ended;
    for (const Request& request : found->second.requests)
      if (request.end >= window.begin && request.end < window.end)
        ended.emplace_back(request.end, is_good(request, slo));
    std::sort(ended.begin(), ended.end());
    for (const auto& [at, good] : ended)
      if (auto trigger = condition_.request(at, good)) return trigger;
    return std::nullopt;
  }

  bool watched_by_signal(Check& check) const {
    if (const std::string trouble = signal_trouble(input_, plan_.signal); !trouble.empty()) {
      settle(check, kInconclusive, "measurement_invalid", trouble);
      return false;
    }
    const SignalPlan& signal = *input_.plan.signal(plan_.signal);
    for (const PhasePlan& phase : input_.plan.phases) {
      if (!plan_.watches(phase.name)) continue;
      const PhaseWindow& window = input_.evidence.phases.at(phase.name);
      const auto expected = expected_samples(signal, seconds_of(window.end - window.begin));
      std::int64_t with_data = 0, last = window.begin, longest = 0;
      if (const auto found = input_.evidence.signals.find(plan_.signal);
          found != input_.evidence.signals.end())
        for (const SignalSample& sample : found->second) {
          if (!sample.value || sample.at < window.begin || sample.at >= window.end) continue;
          longest = std::max(longest, sample.at - last);
          last = sample.at;
          ++with_data;
        }
      longest = std::max(longest, window.end - last);
      const bool silent = plan_.no_data_s > 0 && longest > ns_of(plan_.no_data_s);
      if (enough_samples(with_data, expected) && with_data > 0 && !silent) continue;
      settle(check, kInconclusive, "signal_gaps",
             format("%lld of %lld samples of %s in phase %s, %.1f s without one",
                    static_cast<long long>(with_data), static_cast<long long>(expected),
                    plan_.signal.c_str(), phase.name.c_str(), seconds_of(longest)));
      return false;
    }
    return true;
  }

  // Rows that are missing could be those that would have triggered it.
  bool watched_by_load(Check& check) const {
    for (const PhasePlan& phase : input_.plan.phases) {
      const bool runs =
          std::find(phase.run.begin(), phase.run.end(), plan_.load) != phase.run.end();
      if (!plan_.watches(phase.name) || !runs) continue;
      if (const auto problems = phase_problems(input_, phase.name); !problems.empty()) {
        settle(check, kError, problems.front().reason, problems.front().detail);
        return false;
      }
      const PhaseWindow& window = input_.evidence.phases.at(phase.name);
      const std::string trouble = measurement_trouble(input_, plan_.load, window.begin, window.end);
      if (trouble.empty()) continue;
      settle(check, kInconclusive, "measurement_invalid", trouble);
      return false;
    }
    if (condition_.seen() >= plan_.least_requests) return true;
    settle(check, condition_.seen() == 0 ? kError : kInconclusive,
           condition_.seen() == 0 ? "no_samples" : "signal_gaps",
           format("%lld requests ended, %d decide", static_cast<long long>(condition_.seen()),
                  plan_.least_requests));
    return false;
  }

  const JudgeInput& input_;
  const AbortPlan& plan_;
  AbortCondition condition_;
};

}  // namespace

std::optional<AbortCondition::Trigger> AbortCondition::sample(std::int64_t at, double value) {
  ++seen_;
  if (!worst_ || nearer(plan_, value, *worst_)) worst_ = value;
  const bool within =
      (!plan_.at_most || value <= *plan_.at_most) && (!plan_.at_least || value >= *plan_.at_least);
  if (within) {
    outside_since_.reset();
    return std::nullopt;
  }
  if (!outside_since_) outside_since_ = at;
  if (at - *outside_since_ < ns_of(plan_.for_s)) return std::nullopt;
  return Trigger{
      at, value,
      plan_.signal + " " + number_text(value) +
          (plan_.for_s > 0 ? format(", outside for %.1f s", seconds_of(at - *outside_since_))
                           : "") +
          ", bound: " + abort_rule(plan_)};
}

std::optional<AbortCondition::Trigger> AbortCondition::request(std::int64_t ended, bool good) {
  ++seen_;
  ended_.emplace_back(ended, good);
  good_ += good ? 1 : 0;
  while (ended_.front().first <= ended - ns_of(plan_.over_s)) {
    good_ -= ended_.front().second ? 1 : 0;
    ended_.pop_front();
  }
  const auto n = std::ssize(ended_);
  if (n < plan_.least_requests) return std::nullopt;
  const double share = static_cast<double>(good_) / static_cast<double>(n);
  if (!worst_ || share < *worst_) worst_ = share;
  if (share >= plan_.good_share_at_least) return std::nullopt;
  return Trigger{ended, share,
                 format("%lld of %lld requests of %s good", static_cast<long long>(good_),
                        static_cast<long long>(n), plan_.load.c_str()) +
                     ", bound: " + abort_rule(plan_)};
}

void AbortCondition::reset() {
  outside_since_.reset();
  ended_.clear();
  good_ = 0;
}

std::string abort_rule(const AbortPlan& plan) {
  if (!plan.load.empty())
    return "good share of " + plan.load + " >= " + number_text(plan.good_share_at_least) +
           format(" over %g s", plan.over_s);
  std::string out = plan.signal;
  if (plan.at_least) out = number_text(*plan.at_least) + " <= " + out;
  if (plan.at_most) out += " <= " + number_text(*plan.at_most);
  if (plan.for_s > 0) out += format(", or beyond for less than %g s", plan.for_s);
  if (plan.no_data_s > 0)
    out += format("%s data at least every %g s", plan.at_least || plan.at_most ? "," : ":",
                  plan.no_data_s);
  return out;
}

Check judge_abort(const JudgeInput& input, const AbortPlan& plan) {
  Check check;
  check.limit.id = plan.id;
  check.limit.phase = "abort";
  check.limit.metric = plan.load.empty() ? "signal.value" : "inference.attainment";
  check.limit.load = plan.load;
  check.limit.signal = plan.signal;
  check.limit.method = "direct";
  check.limit.at_most = plan.at_most;
  check.limit.at_least = plan.load.empty() ? plan.at_least : plan.good_share_at_least;
  check.limit.why = plan.why;
  for (const AbortEvent& event : input.evidence.aborts) {
    if (event.id != plan.id) continue;
    check.figure = event.value ? Figure::of(*event.value, 1) : Figure::lacks("no_samples");
    settle(check, event.value ? kFail : kInconclusive, event.value ? "abort_held" : "abort_no_data",
           format("ended the run at %.1f s: ", input.evidence.seconds(event.at)) + event.detail);
    const std::string trouble = client_trouble(input, plan, event.at);
    if (check.status == kFail && !trouble.empty())
      settle(check, kInconclusive, "measurement_invalid", check.detail + "; " + trouble);
    return check;
  }
  check.figure = Figure::lacks("no_samples");
  Replay(input, plan).judge(check);
  return check;
}

Json abort_check_json(const Check& check, const AbortPlan& plan) {
  Json out = check_json(check);
  out["rule"] = abort_rule(plan);
  return out;
}

}  // namespace mixproof
