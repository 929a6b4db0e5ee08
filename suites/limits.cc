#include "suites/limits.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/base/check.h"
#include "harness/base/text.h"
#include "suites/fault_evidence.h"
#include "suites/interval.h"
#include "suites/interval_text.h"
#include "suites/recovery.h"
#include "suites/request_metrics.h"
#include "suites/signals.h"
#include "suites/validity.h"

namespace mixproof {
namespace {

using enum VerdictStatus;

// An excess of this many times what the client may have added is not the client's doing.
constexpr double kFarBeyond = 10;

constexpr ReasonRow kReasons[] = {
    {"skipped_by_suite", "the suite declares it skipped"},
    {"not_run", "the run ended before its phase began"},
    {"phase_incomplete", "its phase was cut short"},
    {"lost_node", "a node was lost during its phase"},
    {"process_exit", "a process that it needs ended by itself"},
    {"service_absent", "a service instance never answered"},
    {"load_absent", "a load that its phase should run left no evidence"},
    {"no_clock", "the clock of a node was never measured"},
    {"bad_rows", "rows of the recording contradict themselves"},
    {"missing_rows", "rows that must be there are missing"},
    {"missing_ranks", "a rank that must take part did not"},
    {"no_samples", "nothing was measured"},
    {"no_reference", "the reference phase gives no figure to compare with"},
    {"no_slo", "the load has no slo"},
    {"no_bound", "the slo has no bound for it"},
    {"no_deadline", "a request without answer has no deadline"},
    {"no_fault", "the phase has no fault"},
    {"one_shot", "the fault is over at once; nothing reverts it"},
    {"no_loss", "no rank was lost in the phase"},
    {"not_resumed",
     "training had not begun again after the loss of a rank when the evidence ended"},
    {"loss_not_seen", "no process of the load was seen to end: the time of the loss is not known"},
    {"not_injected", "the fault was never injected"},
    {"not_clean", "the revert of the fault was not proved"},
    {"not_finite", "the figure is not a finite number"},
    {"not_effective", "the fault was not proved effective for its time"},
    {"measurement_invalid", "the figures may be the load generator's or the clock's own doing"},
    {"n_too_small", "too few samples for a 95 % interval of that quantile"},
    {"signal_gaps",
     "fewer than four of five samples of the signal had data, or it was silent for too long"},
    {"signal_reset",
     "a counter began anew or samples were missed: only the least that it grew by is known"},
    {"abort_no_data", "the run was ended because the signal had no data"},
    {"abort_held", "the run was ended: the condition held"},
    {"abort_missed", "by the recording the condition held, but the run went on"},
    {"abort_quiet", "watched to the end; the condition never held"},
    {"too_few_blocks", "a phase holds fewer than 20 blocks: how much they differ is not known"},
    {"no_noise",
     "the second baseline, which shows how far apart equal phases lie, was not measured"},
    {"drift",
     "two phases that should be equal are not: what lies between them cannot be compared either"},
    {"rise_too_small",
     "beyond the margin, but the rise is too small to be told from the client's own error"},
    {"needs_more_samples", "the confidence bounds lie on both sides of the limit"},
    {"not_recovered", "recovery had not been shown when the evidence ended, within the limit"},
    {"interval_straddles_limit", "the interval lies on both sides of the limit"},
    {"outside_limit", "measured, outside the limit"},
    {"within_limit", "measured, within the limit"},
};

struct Judged {
  VerdictStatus status;
  std::string reason;
};

Judged compare_value(double value, const Limit& limit) {
  if (!std::isfinite(value)) return {kError, "not_finite"};
  const bool over = limit.at_most && !(value <= *limit.at_most);
  const bool under = limit.at_least && !(value >= *limit.at_least);
  return over || under ? Judged{kFail, "outside_limit"} : Judged{kPass, "within_limit"};
}

// A value that is only known to lie in an interval.
Judged compare_interval(const Interval& interval, bool censored, const Limit& limit) {
  if (!std::isfinite(interval.low) || !std::isfinite(interval.high)) return {kError, "not_finite"};
  const double high = censored ? HUGE_VAL : interval.high;
  const bool surely_over = limit.at_most && interval.low > *limit.at_most;
  const bool surely_under = limit.at_least && high < *limit.at_least;
  if (surely_over || surely_under) return {kFail, "outside_limit"};
  const bool maybe_over = limit.at_most && !(high <= *limit.at_most);
  const bool maybe_under = limit.at_least && !(interval.low >= *limit.at_least);
  if (maybe_over || maybe_under)
    return {kInconclusive, !censored              ? "interval_straddles_limit"
                           : limit.signal.empty() ? "not_recovered"
                                                  : "signal_reset"};
  return {kPass, "within_limit"};
}

Judged compare_binomial(const Figure& figure, const Limit& limit) {
  const double p = *limit.at_least;
  if (figure.interval->low >= p) return {kPass, "within_limit"};
  if (figure.interval->high < p) return {kFail, "outside_limit"};
  return {kInconclusive, "needs_more_samples"};
}

Judged compare(const Figure& figure, const Limit& limit, MetricKind kind) {
  if (figure.missing == "n_too_small" || figure.missing == "too_few_blocks" ||
      figure.missing == "signal_gaps")
    return {kInconclusive, figure.missing};
  if (!figure.missing.empty()) return {kError, figure.missing};
  if (limit.method == "interval") {
    const IntervalVerdict verdict = judge_interval(figure, limit);
    return {verdict.status, verdict.reason};
  }
  if (figure.infinite)
    return limit.at_most ? Judged{kFail, "outside_limit"} : compare_value(HUGE_VAL, limit);
  if (limit.method == "binomial") return compare_binomial(figure, limit);
  if (kind == MetricKind::kInterval)
    return compare_interval(*figure.interval, figure.censored, limit);
  return compare_value(*figure.value, limit);
}

std::string noun_of(const Limit& limit) {
  std::string out = limit.metric.substr(limit.metric.find('.') + 1);
  std::replace(out.begin(), out.end(), '_', ' ');
  if (!limit.signal.empty()) out = limit.signal + " " + out;
  return limit.quantile.empty() ? out : out + " " + limit.quantile;
}

std::string with_unit(double value, std::string_view unit) {
  const std::string number = number_text(value);
  return unit == "1" || unit == "count" ? number : number + " " + std::string(unit);
}

std::string figure_text(const Limit& limit, const Figure& figure) {
  if (limit.method == "interval" && figure.interval)
    return noun_of(limit) + " " + interval_text(limit, figure);
  const std::string_view unit = judged_metric(limit.metric)->unit;
  const auto n = static_cast<long long>(figure.n);
  const std::string noun = noun_of(limit);
  if (!figure.missing.empty()) return noun + format(" has no value (n %lld)", n);
  if (figure.infinite)
    return noun + format(" is infinite: a request got no complete answer (n %lld)", n);
  if (figure.evidence.is_object() && figure.evidence.contains("good"))
    return noun + " " + number_text(*figure.value) +
           format(" (%lld of %lld good)",
                  static_cast<long long>(integer_at(figure.evidence, "good")), n);
  if (figure.censored && limit.signal.empty())
    return noun + " more than " + with_unit(figure.interval->low, unit) +
           format(" (%lld clean requests seen of %lld)",
                  static_cast<long long>(integer_at(figure.evidence, "clean_seen")),
                  static_cast<long long>(integer_at(figure.evidence, "clean_requests")));
  if (limit.metric == "inference.time_to_recover")
    return noun + " " + with_unit(*figure.value, unit) + " (between " +
           number_text(figure.interval->low) + " and " + number_text(figure.interval->high) + ")";
  return noun + " " + with_unit(*figure.value, unit) + (figure.n > 1 ? format(" (n %lld)", n) : "");
}

double offered_rate(const JudgeInput& input, const Limit& limit) {
  const auto requests = measured_requests(input.evidence, limit.load, limit.phase);
  const double window_s = input.evidence.phases.at(limit.phase).measure_s();
  return window_s > 0 ? static_cast<double>(requests.size()) / window_s : 0;
}

void set_resolve(const JudgeInput& input, Check& check) {
  const Limit& limit = check.limit;
  const Figure& figure = check.figure;
  if (limit.method == "interval") {
    const Advice advice = interval_advice(input, limit, figure, check.reason);
    check.resolve = advice.text;
    check.resolve_numbers = advice.numbers;
  }
  std::int64_t missing = 0;
  if (check.reason == "needs_more_samples")
    missing = clean_trials_needed(integer_at(figure.evidence, "good"), figure.n, *limit.at_least,
                                  limit.confidence);
  if (check.reason == "not_recovered")
    missing =
        integer_at(figure.evidence, "clean_requests") - integer_at(figure.evidence, "clean_seen");
  if (check.reason == "n_too_small")
    missing = least_samples(quantile_of(limit.quantile)) - figure.n;
  if (missing > 0) {
    const double rate =
        judged_metric(limit.metric)->probe == "inference" ? offered_rate(input, limit) : 0;
    const bool clean = check.reason != "n_too_small";
    check.resolve = format("needs %lld more %s", static_cast<long long>(missing),
                           clean ? "clean requests" : "samples");
    check.resolve_numbers = {{clean ? "clean_requests" : "samples", missing}};
    if (rate > 0) {
      const double seconds = static_cast<double>(missing) / rate;
      check.resolve += format(": about %.0f s more at %.3g requests/s", std::ceil(seconds), rate);
      check.resolve_numbers["seconds"] = seconds;
    }
  }
  if (check.reason == "interval_straddles_limit" && limit.method != "interval")
    check.resolve = "needs a higher request rate: it narrows the interval";
  if (check.reason == "measurement_invalid") check.resolve = "needs a run without that disturbance";
  if (check.reason == "not_effective")
    check.resolve = "needs a run in which the fault takes hold for its whole time";
}

// The times that the figure rests on.
std::pair<std::int64_t, std::int64_t> evidence_range(const JudgeInput& input, const Limit& limit) {
  const PhaseWindow& window = input.evidence.phases.at(limit.phase);
  std::int64_t until = window.end;
  if (limit.metric == "inference.time_to_recover")
    for (const FaultFacts& fault : faults_of_phase(input, limit.phase))
      until = std::max(until, recovery_horizon(input, limit.load, fault));
  return {window.settled, until};
}

Question question_of(const Limit& limit) {
  return {.metric = judged_metric(limit.metric),
          .load = limit.load,
          .phase = limit.phase,
          .reference = limit.reference,
          .quantile = limit.quantile,
          .signal = limit.signal,
          .clean_requests = limit.clean_requests,
          .confidence = limit.method == "binomial" ? limit.confidence : 0.95};
}

bool fails_beyond_client_error(const JudgeInput& input, const Limit& limit, const Check& check,
                               double client_error) {
  const JudgedMetric& metric = *judged_metric(limit.metric);
  if (check.status != kFail || limit.method != "direct" || !limit.at_most || metric.unit != "s")
    return false;
  Figure figure = check.figure;
  if (figure.infinite) {  // what the client dropped proves nothing about the server
    Question question = question_of(limit);
    question.without_dropped = true;
    figure = derive(input, question);
    if (figure.infinite) return true;
  }
  if (!figure.value) return false;
  const double surely = metric.kind == MetricKind::kInterval ? figure.interval->low : *figure.value;
  return surely - *limit.at_most > kFarBeyond * client_error;
}

// The second baseline of method interval; null for other methods and where there is none.
const PhasePlan* noise_phase(const JudgeInput& input, const Limit& limit) {
  return limit.method == "interval" ? second_baseline(input.plan, limit) : nullptr;
}

void apply_trust(const JudgeInput& input, Check& check) {
  const Limit& limit = check.limit;
  if (check.status == kError && check.figure.missing != "not_injected") return;
  std::vector<std::string> phases = {limit.phase};
  if (!limit.reference.empty()) phases.push_back(limit.reference);
  if (const PhasePlan* second = noise_phase(input, limit)) phases.push_back(second->name);
  for (const std::string& phase : phases)
    for (const FaultFacts& fault : faults_of_phase(input, phase))
      if (!fault.not_effective.empty()) {
        check.status = kInconclusive;
        check.reason = "not_effective";
        check.detail += "; " + fault.not_effective;
        return;
      }
  const auto [from, until] = evidence_range(input, limit);
  std::string trouble = limit.signal.empty() ? measurement_trouble(input, limit.load, from, until)
                                             : signal_trouble(input, limit.signal);
  for (const std::string& phase : phases)
    if (trouble.empty() && phase != limit.phase) {
      const PhaseWindow& window = input.evidence.phases.at(phase);
      trouble = measurement_trouble(input, limit.load, window.settled, window.end);
    }
  const double client_error = client_error_s(input, limit.load, from, until);
  if (trouble.empty() && check.status == kFail && limit.quantile == "max" && check.figure.value &&
      *check.figure.value - client_error <= limit.at_most.value_or(-HUGE_VAL))
    trouble = format("the load generator itself may have added %.1f ms", client_error * 1e3);
  if (trouble.empty()) return;
  if (fails_beyond_client_error(input, limit, check, client_error)) {
    check.detail += format(
        "; fails although %s: the excess is more than 10 x the %.1f ms that it may have added",
        trouble.c_str(), client_error * 1e3);
    return;
  }
  check.status = kInconclusive;
  check.reason = "measurement_invalid";
  check.detail += "; " + trouble;
}

bool not_measured(const JudgeInput& input, Check& check) {
  std::vector<std::string> phases = {check.limit.phase};
  if (!check.limit.reference.empty()) phases.push_back(check.limit.reference);
  for (const std::string& phase : phases) {
    const std::vector<Problem> problems = phase_problems(input, phase);
    if (problems.empty()) continue;
    const Problem& first = problems.front();
    const bool own = !first.load.empty() && first.load == check.limit.load;
    check.status = own ? check_status(first.code)
                       : kError;  // wrong data fails the load that made it, no other
    check.reason = first.reason;
    check.detail = first.detail;
    return true;
  }
  if (const PhasePlan* second = noise_phase(input, check.limit)) {
    const std::vector<Problem> problems = phase_problems(input, second->name);
    if (problems.empty()) return false;
    check.status = kInconclusive;
    check.reason = "no_noise";
    check.detail = "the second baseline was not measured: " + problems.front().detail;
    check.resolve = "needs a run in which " + second->name + " is measured too";
    check.resolve_numbers = Json::object();
    return true;
  }
  return false;
}

}  // namespace

std::vector<ReasonRow> check_reasons() { return {std::begin(kReasons), std::end(kReasons)}; }

std::string number_text(double value) { return format("%.3g", value); }

std::string bound_text(const Limit& limit) {
  const std::string_view unit = judged_metric(limit.metric)->unit;
  if (limit.method == "binomial")
    return "needs " + number_text(*limit.at_least) +
           format(" at %g %% confidence", limit.confidence * 100);
  std::string out;
  if (limit.at_most) out = "limit " + with_unit(*limit.at_most, unit);
  if (limit.at_least)
    out += (out.empty() ? "" : ", ") + std::string("needs at least ") +
           with_unit(*limit.at_least, unit);
  if (limit.method == "interval") out += format(" at %g %% confidence", limit.confidence * 100);
  return out;
}

std::string rule_text(const Limit& limit) {
  const std::string_view unit = judged_metric(limit.metric)->unit;
  std::string what = limit.metric + (limit.quantile.empty() ? "" : " " + limit.quantile) +
                     (limit.load.empty() ? "" : " of " + limit.load) +
                     (limit.signal.empty() ? "" : " of " + limit.signal) + " in " + limit.phase +
                     (limit.reference.empty() ? "" : " against " + limit.reference);
  std::string out;
  if (limit.at_least) out = with_unit(*limit.at_least, unit) + " <= " + what;
  if (limit.at_most) out = (out.empty() ? what : out) + " <= " + with_unit(*limit.at_most, unit);
  if (limit.method != "direct") out += format(" at %g %% confidence", limit.confidence * 100);
  return out;
}

Check judge_limit(const JudgeInput& input, const Limit& limit) {
  Check check;
  check.limit = limit;
  if (!limit.skip.empty()) {
    check.status = kSkipped;
    check.reason = "skipped_by_suite";
    check.detail = limit.skip;
    return check;
  }
  if (not_measured(input, check)) return check;
  check.figure = limit.method == "interval" ? interval_figure(input, limit)
                                            : derive(input, question_of(limit));
  const Judged judged = compare(check.figure, limit, judged_metric(limit.metric)->kind);
  check.status = judged.status;
  check.reason = judged.reason;
  check.detail = figure_text(limit, check.figure) + ", " + bound_text(limit);
  apply_trust(input, check);
  if (check.status == kInconclusive) {
    set_resolve(input, check);
    if (!check.resolve.empty()) check.detail += "; " + check.resolve;
  }
  return check;
}

Json check_json(const Check& check) {
  const Limit& limit = check.limit;
  Json bounds = {{"unit", judged_metric(limit.metric)->unit}};
  if (limit.at_most) bounds["at_most"] = *limit.at_most;
  if (limit.at_least) bounds["at_least"] = *limit.at_least;
  Json out = {
      {"id", limit.check_id()}, {"required", limit.required}, {"metric", limit.metric},
      {"phase", limit.phase},   {"method", limit.method},     {"rule", rule_text(limit)},
      {"limit", bounds},        {"why", limit.why},           {"status", status_name(check.status)},
      {"reason", check.reason}, {"detail", check.detail}};
  for (const auto& [key, value] : {std::pair{"load", &limit.load},
                                   {"signal", &limit.signal},
                                   {"reference", &limit.reference},
                                   {"owner", &limit.owner},
                                   {"quantile", &limit.quantile},
                                   {"dependence", &limit.dependence}})
    if (!value->empty()) out[key] = *value;
  if (limit.method != "direct") out["confidence"] = limit.confidence;
  if (check.reason != "skipped_by_suite") out["observed"] = figure_json(check.figure);
  if (!check.resolve.empty())
    out["resolve"] = {{"text", check.resolve}, {"numbers", check.resolve_numbers}};
  return out;
}

}  // namespace mixproof
