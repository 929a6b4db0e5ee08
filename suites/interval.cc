#include "suites/interval.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "suites/attainment.h"
#include "suites/request_metrics.h"
#include "suites/series.h"
#include "suites/training_metrics.h"

namespace mixproof {
namespace {

using enum VerdictStatus;

constexpr double kLeastRiseS = 0.005, kClientErrors = 5;
// A longer run than this many times the measured one is no advice.
constexpr double kMostGrowth = 100;

struct Ratio {
  Figure figure;  // of the metric against the reference
  int blocks = 0, reference_blocks = 0;
};

struct RatioMaker {
  const JudgeInput& input;
  const Limit& limit;
  const JudgedMetric& metric;
  double block_s;
  int tests;                                 // that share the confidence
  std::vector<double> reference_draws = {};  // made once, for the phase and for the second baseline

  bool is_difference() const { return metric.kind == MetricKind::kDifference; }

  Segment series(const std::string& phase, bool is_reference) const {
    if (is_difference()) return good_series(input, limit.load, phase);
    if (metric.probe == "inference")
      return request_series(input, limit.load, phase,
                            metric.id.substr(0, metric.id.size() - 6));  // less "_ratio"
    if (is_reference && metric.id == "training.goodput")
      return step_time_series(input, limit.load, phase);
    return step_series(input, limit.load, phase);
  }

  std::vector<double> draws(const Segment& segment, bool is_reference, const Random& random) const {
    const std::span<const Segment> one(&segment, 1);
    if (is_difference()) return resampled_means(one, block_s, kBootstrapDraws, random);
    if (metric.probe == "inference")
      return resampled_quantiles(one, block_s, quantile_of(limit.quantile), kBootstrapDraws,
                                 random);
    if (!is_reference || metric.id != "training.goodput")
      return resampled_rates(one, block_s, kBootstrapDraws, random);
    std::vector<double> out = resampled_quantiles(one, block_s, 0.5, kBootstrapDraws, random);
    for (double& step_s : out) step_s = 1 / step_s;  // goodput: rate x median step
    return out;
  }

  Interval attainment_bounds(const std::string& phase, double confidence) const {
    return effective_bounds(
        effective_counts(dependence_of(block_counts(input, limit.load, phase, block_s))),
        confidence);
  }

  Interval ends(const std::string& phase, const Figure& figure, const std::vector<double>& own,
                double confidence) const {
    if (!is_difference()) return ratio_interval(own, reference_draws, confidence);
    const Interval drawn = difference_interval(own, reference_draws, confidence);
    const Interval exact =
        difference_bounds(number_at(figure.evidence, "value"), attainment_bounds(phase, confidence),
                          number_at(figure.evidence, "reference_value"),
                          attainment_bounds(limit.reference, confidence));
    return {std::min(drawn.low, exact.low), std::max(drawn.high, exact.high)};
  }

  Ratio of(const std::string& phase, const std::string& stream) {
    Ratio out;
    out.figure = derive(input, {.metric = &metric,
                                .load = limit.load,
                                .phase = phase,
                                .reference = limit.reference,
                                .quantile = limit.quantile});
    const Segment own = series(phase, false), reference = series(limit.reference, true);
    out.blocks = whole_blocks({&own, 1}, block_s);
    out.reference_blocks = whole_blocks({&reference, 1}, block_s);
    if (!out.figure.missing.empty() && out.figure.missing != "n_too_small") return out;
    if (out.blocks < kLeastBlocks || out.reference_blocks < kLeastBlocks) {
      out.figure = Figure::lacks("too_few_blocks", out.figure.n);
      return out;
    }
    if (!out.figure.missing.empty()) return out;
    const std::string name = "bootstrap " + limit.check_id() + " ";
    if (reference_draws.empty())
      reference_draws = draws(reference, true, Random(input.plan.seed, name + "reference"));
    const std::vector<double> own_draws = draws(own, false, Random(input.plan.seed, name + stream));
    for (int divisor = 1; divisor <= tests; ++divisor)
      out.figure.by_divisor.push_back(
          ends(phase, out.figure, own_draws, 1 - (1 - limit.confidence) / divisor));
    out.figure.interval = out.figure.by_divisor.front();
    return out;
  }
};

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json interval_json(const Interval& interval) {  // null: infinity
  return {{"low", number_or_null(interval.low)}, {"high", number_or_null(interval.high)}};
}

bool is_difference(const Limit& limit) {
  return judged_metric(limit.metric)->kind == MetricKind::kDifference;
}

// The wider of the bound and the noise, in the direction of the bound.
double margin_of(const Limit& limit, const Ratio* noise) {
  if (noise == nullptr || !noise->figure.value || !noise->figure.interval)
    return limit.at_most.value_or(limit.at_least.value_or(1));
  if (is_difference(limit)) return std::min(*limit.at_least, -std::fabs(*noise->figure.value));
  const double ratio = *noise->figure.value;
  const double apart = ratio > 0 ? std::max(ratio, 1 / ratio) : 1;
  return limit.at_most ? std::max(*limit.at_most, apart) : std::min(*limit.at_least, 1 / apart);
}

bool is_drift(const Limit& limit, const Ratio& noise) {
  if (noise.figure.infinite) return true;
  if (!noise.figure.interval) return false;
  if (is_difference(limit))
    return noise.figure.interval->low > -*limit.at_least ||
           noise.figure.interval->high < *limit.at_least;
  const double bound = limit.at_most ? *limit.at_most : 1 / *limit.at_least;
  return noise.figure.interval->low > bound || noise.figure.interval->high < 1 / bound;
}

Json noise_json(const Limit& limit, const PhasePlan& second, const Ratio& noise) {
  Json out = {{"phase", second.name}, {"blocks", noise.blocks}, {"drift", is_drift(limit, noise)}};
  if (!noise.figure.missing.empty()) out["missing_reason"] = noise.figure.missing;
  if (noise.figure.infinite) out["infinite"] = true;
  if (noise.figure.value) out["ratio"] = *noise.figure.value;
  if (noise.figure.interval) out["interval"] = interval_json(*noise.figure.interval);
  return out;
}

// The p99 of what the client itself may have added, in the phase or its reference.
double client_error_p99_s(const JudgeInput& input, const Limit& limit) {
  double worst = 0;
  for (const std::string& phase : {limit.phase, limit.reference}) {
    std::vector<double> errors;
    for (const Request* request : measured_requests(input.evidence, limit.load, phase))
      errors.push_back(std::max(request->client_delay.value_or(0), request->lag.value_or(0)));
    std::sort(errors.begin(), errors.end());
    worst = std::max(worst, nearest_rank(errors, 0.99).value_or(0));
  }
  return worst;
}

void add_rise(const JudgeInput& input, const Limit& limit, Figure& figure) {
  Json& evidence = figure.evidence;
  evidence["least_rise_s"] =
      std::max(kLeastRiseS, kClientErrors * client_error_p99_s(input, limit));
  if (figure.value)
    evidence["rise_s"] = number_at(evidence, "value") - number_at(evidence, "reference_value");
}

void add_missing_seconds(const JudgeInput& input, const Limit& limit, const RatioMaker& maker,
                         const Ratio& ratio, Json& evidence) {
  Json& missing = evidence["seconds_missing"] = Json::object();
  for (const auto& [phase, blocks] :
       {std::pair{limit.phase, ratio.blocks}, {limit.reference, ratio.reference_blocks}})
    if (blocks < kLeastBlocks)
      missing[phase] = kLeastBlocks * maker.block_s - input.evidence.phases.at(phase).measure_s();
}

}  // namespace

bool takes_interval(const JudgedMetric& metric) {
  return metric.kind == MetricKind::kRatio || metric.kind == MetricKind::kDifference ||
         metric.id == "training.goodput";
}

const PhasePlan* second_baseline(const Plan& plan, const Limit& limit) {
  const auto loads_of = [](const PhasePlan& phase) {
    std::vector<std::string> loads = phase.run;
    std::sort(loads.begin(), loads.end());
    return loads;
  };
  const PhasePlan* reference = plan.phase(limit.reference);
  if (reference == nullptr || !reference->faults.empty()) return nullptr;
  for (auto phase = plan.phases.rbegin(); phase != plan.phases.rend(); ++phase)
    if (phase->name != limit.reference && phase->name != limit.phase && phase->faults.empty() &&
        loads_of(*phase) == loads_of(*reference))
      return &*phase;
  return nullptr;
}

Figure interval_figure(const JudgeInput& input, const Limit& limit, int tests) {
  const std::optional<double> block_s = known_block_length_s(input, limit.load);
  if (!block_s) return Figure::lacks("baseline_unanswered");
  RatioMaker maker{input, limit, *judged_metric(limit.metric), *block_s, tests};
  Ratio ratio = maker.of(limit.phase, "phase");
  Figure& figure = ratio.figure;
  if (!figure.evidence.is_object()) figure.evidence = Json::object();
  Json& evidence = figure.evidence;
  evidence["block_s"] = maker.block_s;
  evidence["blocks"] = ratio.blocks;
  evidence["reference_blocks"] = ratio.reference_blocks;
  if (figure.missing == "too_few_blocks") add_missing_seconds(input, limit, maker, ratio, evidence);
  if (!figure.missing.empty()) return figure;
  evidence["draws"] = kBootstrapDraws;
  evidence["confidence"] = limit.confidence;
  evidence["bounds"] =
      is_difference(limit)
          ? "the wider of moving-block bootstrap and exact bounds of effective counts, each end "
            "one-sided at the confidence"
          : "moving-block bootstrap, percentiles of the ratio, each end one-sided at the confidence";
  const PhasePlan* second = second_baseline(input.plan, limit);
  if (second == nullptr) {
    evidence["margin"] = margin_of(limit, nullptr);
  } else {
    maker.tests = 1;
    const Ratio noise = maker.of(second->name, "a/a");
    evidence["margin"] = margin_of(limit, &noise);
    evidence["a_a"] = noise_json(limit, *second, noise);
  }
  if (maker.metric.probe == "inference" && !is_difference(limit)) add_rise(input, limit, figure);
  return figure;
}

bool within_margin(const Interval& interval, const Figure& figure, const Limit& limit) {
  const double margin = number_at(figure.evidence, "margin");
  return limit.at_most ? interval.high <= margin : interval.low >= margin;
}

bool beyond_margin(const Interval& interval, const Figure& figure, const Limit& limit) {
  const double margin = number_at(figure.evidence, "margin");
  return limit.at_most ? interval.low > margin : interval.high < margin;
}

IntervalVerdict judge_interval(const Figure& figure, const Limit& limit) {
  const Json& evidence = figure.evidence;
  if (const Json* a_a = member(evidence, "a_a"); a_a != nullptr && flag_at(*a_a, "drift"))
    return {kInconclusive, "drift"};
  const double margin = number_at(evidence, "margin");
  const Interval& interval = *figure.interval;
  if (std::isnan(interval.low) || std::isnan(interval.high) ||
      !(is_difference(limit) ? margin <= 0 : margin > 0))
    return {kError, "not_finite"};
  if (within_margin(interval, figure, limit)) return {kPass, "within_limit"};
  if (!beyond_margin(interval, figure, limit)) return {kInconclusive, "interval_straddles_limit"};
  const bool is_latency = member(evidence, "least_rise_s") != nullptr;
  if (is_latency && !figure.infinite &&
      !(number_at(evidence, "rise_s") > number_at(evidence, "least_rise_s")))
    return {kInconclusive, "rise_too_small"};
  return {kFail, "outside_limit"};
}

double seconds_to_decide(const Figure& figure, const Limit& limit, double measured_s) {
  const bool ratio = !is_difference(limit);
  if (!figure.value || !figure.interval || (ratio && !(*figure.value > 0))) return 0;
  const auto scale = [&](double x) { return ratio ? std::log(x) : x; };
  const double value = scale(*figure.value), margin = scale(number_at(figure.evidence, "margin"));
  const double end = scale(value < margin ? figure.interval->high : figure.interval->low);
  const double growth = std::pow((end - value) / (margin - value), 2);
  if (!std::isfinite(growth) || !(growth > 1) || growth > kMostGrowth) return 0;
  return measured_s * (growth - 1);
}

}  // namespace mixproof
