#include "suites/limits.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/base/check.h"
#include "harness/base/text.h"
#include "suites/check_power.h"
#include "suites/fault_evidence.h"
#include "suites/holm.h"
#include "suites/interval.h"
#include "suites/interval_text.h"
#include "suites/recovery.h"
#include "suites/resolve.h"
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
    {"baseline_unanswered",
     "so many requests of the baseline got no answer that the length of a block is not known"},
    {"no_noise",
     "the second baseline, which shows how far apart equal phases lie, was not measured"},
    {"drift",
     "two phases that should be equal are not: what lies between them cannot be compared either"},
    {"rise_too_small",
     "beyond the margin, but the rise is too small to be told from the client's own error"},
    {"needs_more_samples", "the confidence bounds lie on both sides of the limit"},
    {"no_impact", "no impact had been seen when the evidence ended, within the limit"},
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
  // A time that had not come by the lower end lies beyond it; a counter grew by it at least.
  const bool beyond = censored && limit.signal.empty();
  const bool surely_over =
      limit.at_most && (beyond ? interval.low >= *limit.at_most : interval.low > *limit.at_most);
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

// Later than everything that was watched.
Judged compare_no_impact(const Figure& figure, const Limit& limit) {
  const double watched_s = number_at(figure.evidence, "watched_s");
  const Judged judged = compare_interval({watched_s, watched_s}, true, limit);
  return judged.status == kInconclusive ? Judged{kInconclusive, "no_impact"} : judged;
}

Judged compare_binomial(const Figure& figure, const Limit& limit) {
  const double p = *limit.at_least;
  if (figure.interval->low >= p) return {kPass, "within_limit"};
  if (figure.interval->high < p) return {kFail, "outside_limit"};
  return {kInconclusive, "needs_more_samples"};
}

Judged compare(const Figure& figure, const Limit& limit, MetricKind kind) {
  if (figure.missing == "n_too_small" || figure.missing == "too_few_blocks" ||
      figure.missing == "baseline_unanswered" || figure.missing == "signal_gaps")
    return {kInconclusive, figure.missing};
  if (figure.missing == "no_impact") return compare_no_impact(figure, limit);
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

std::string attainment_text(const Limit& limit, const Figure& figure) {
  const std::int64_t good = integer_at(figure.evidence, "good");
  std::string out = noun_of(limit) + " " +
                    number_text(static_cast<double>(good) / static_cast<double>(figure.n)) +
                    format(" (%lld of %lld good)", static_cast<long long>(good),
                           static_cast<long long>(figure.n));
  const Json* seen = member(figure.evidence, "dependence");
  if (limit.dependence != "blocks" || seen == nullptr) return out;
  const auto blocks = static_cast<long long>(integer_at(*seen, "blocks"));
  if (!figure.missing.empty()) return out + format(" in %lld blocks", blocks);
  return out +
         format(" in %lld blocks, worth %lld trials at variance inflation ", blocks,
                static_cast<long long>(integer_at(*seen, "n_eff"))) +
         number_text(number_at(*seen, "variance_inflation"));
}

std::string figure_text(const Limit& limit, const Figure& figure) {
  if (limit.method == "interval" && figure.interval)
    return noun_of(limit) + " " + interval_text(limit, figure);
  const std::string_view unit = judged_metric(limit.metric)->unit;
  const auto n = static_cast<long long>(figure.n);
  const std::string noun = noun_of(limit);
  if (figure.evidence.is_object() && figure.evidence.contains("good"))
    return attainment_text(limit, figure);
  if (figure.missing == "no_impact")
    return noun + ": no impact in " + with_unit(number_at(figure.evidence, "watched_s"), unit);
  if (!figure.missing.empty()) return noun + format(" has no value (n %lld)", n);
  if (figure.infinite)
    return noun + format(" is infinite: a request got no complete answer (n %lld)", n);
  if (figure.censored && limit.signal.empty())
    return noun + " more than " + with_unit(figure.interval->low, unit) +
           (member(figure.evidence, "clean_seen") == nullptr
                ? std::string()
                : format(" (%lld clean requests seen of %lld)",
                         static_cast<long long>(integer_at(figure.evidence, "clean_seen")),
                         static_cast<long long>(integer_at(figure.evidence, "clean_requests"))));
  if (counts_from_fault(*judged_metric(limit.metric)))
    return noun + " " + with_unit(*figure.value, unit) + " (between " +
           number_text(figure.interval->low) + " and " + number_text(figure.interval->high) + ")";
  return noun + " " + with_unit(*figure.value, unit) + (figure.n > 1 ? format(" (n %lld)", n) : "");
}

// The times that the figure rests on.
std::pair<std::int64_t, std::int64_t> evidence_range(const JudgeInput& input, const Limit& limit) {
  const PhaseWindow& window = input.evidence.phases.at(limit.phase);
  std::int64_t until = window.end;
  if (counts_from_fault(*judged_metric(limit.metric)) && limit.metric != "inference.time_to_impact")
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
          .margin = limit.margin,
          .by_blocks = limit.dependence == "blocks",
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

// The phases that a figure rests on: its own, its reference, and the baseline where that says what
// is usual or how long a block is.
std::vector<std::string> phases_of(const JudgeInput& input, const Limit& limit) {
  std::vector<std::string> out = {limit.phase};
  if (!limit.reference.empty()) out.push_back(limit.reference);
  const bool from_usual = counts_from_fault(*judged_metric(limit.metric)) &&
                          limit.metric != "inference.time_to_recover";
  if (!from_usual && limit.dependence != "blocks") return out;
  const PhasePlan* baseline = baseline_of(input.plan, limit.load);
  if (baseline != nullptr && limit.reference.empty() && baseline->name != limit.phase)
    out.push_back(baseline->name);
  return out;
}

void apply_trust(const JudgeInput& input, Check& check) {
  const Limit& limit = check.limit;
  if (check.status == kError && check.figure.missing != "not_injected") return;
  std::vector<std::string> phases = phases_of(input, limit);
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
  for (const std::string& phase : phases_of(input, check.limit)) {
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

// The figure of a check; false when its status stands without one.
bool measure(const JudgeInput& input, Check& check) {
  const Limit& limit = check.limit;
  if (!limit.skip.empty()) {
    check.status = kSkipped;
    check.reason = "skipped_by_suite";
    check.detail = limit.skip;
    return false;
  }
  check.power = check_power(input.plan, limit);
  if (not_measured(input, check)) return false;
  const int tests = is_primary(limit) ? primary_limits(input.plan, limit.phase) : 1;
  check.figure = limit.method == "interval" ? interval_figure(input, limit, tests)
                                            : derive(input, question_of(limit));
  return true;
}

void decide(const JudgeInput& input, Check& check) {
  const Limit& limit = check.limit;
  const Judged judged = compare(check.figure, limit, judged_metric(limit.metric)->kind);
  check.status = judged.status;
  check.reason = judged.reason;
  check.detail = figure_text(limit, check.figure) + ", " + bound_text(limit);
  apply_trust(input, check);
  if (check.status != kInconclusive) return;
  set_resolve(input, check);
  if (!check.resolve.empty()) check.detail += "; " + check.resolve;
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

std::vector<Check> judge_limits(const JudgeInput& input) {
  std::vector<Check> out;
  std::vector<bool> judged;
  for (const Limit& limit : input.plan.limits) {
    out.emplace_back();
    out.back().limit = limit;
    judged.push_back(measure(input, out.back()));
  }
  for (const PhasePlan& phase : input.plan.phases) {
    std::vector<PrimaryFigure> primaries;
    for (Check& check : out)
      if (check.limit.phase == phase.name && is_primary(check.limit))
        primaries.push_back({&check.limit, &check.figure});
    share_confidence(primaries);
  }
  for (std::size_t i = 0; i < out.size(); ++i)
    if (judged[i]) decide(input, out[i]);
  return out;
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
  if (!check.power.numbers.is_null())
    out["power"] = {{"text", check.power.text}, {"numbers", check.power.numbers}};
  if (!check.resolve.empty())
    out["resolve"] = {{"text", check.resolve}, {"numbers", check.resolve_numbers}};
  return out;
}

}  // namespace mixproof
