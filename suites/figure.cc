#include "suites/figure.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "suites/attainment.h"
#include "suites/fault_evidence.h"
#include "suites/recovery.h"
#include "suites/request_metrics.h"
#include "suites/signals.h"
#include "suites/training_metrics.h"
#include "suites/training_survival.h"

namespace mixproof {
namespace {

constexpr const char* kQuantiles[] = {"p50", "p90", "p95", "p99", "p99.9", "max"};

bool runs(const PhasePlan& phase, const std::string& load) {
  return std::find(phase.run.begin(), phase.run.end(), load) != phase.run.end();
}

std::vector<double> samples_of(const JudgeInput& input, const Question& question,
                               std::string_view metric, const std::string& phase) {
  if (question.metric->probe == kSignalMetrics) return signal_values(input, question.signal, phase);
  if (metric.starts_with("training.checkpoint_"))
    return checkpoint_samples(input, question.load, phase, metric);
  if (question.metric->probe == "training")
    return step_samples(measured_steps(input, question.load, phase), metric);
  auto requests = measured_requests(input.evidence, question.load, phase);
  if (question.without_dropped)
    std::erase_if(requests,
                  [](const Request* request) { return request->outcome == "CLIENT_DROPPED"; });
  return request_samples(requests, metric);
}

Figure quantile_figure(const std::vector<double>& samples, const std::string& quantile) {
  const auto n = std::ssize(samples);
  if (n == 0) return Figure::lacks("no_samples");
  const double p = quantile_of(quantile);
  Figure figure;
  figure.n = n;
  if (p < 1) {
    figure.interval = quantile_interval(samples, p);
    if (!figure.interval) return Figure::lacks("n_too_small", n);
  }
  const double value = *nearest_rank(samples, p);
  if (std::isinf(value))
    figure.infinite = true;
  else
    figure.value = value;
  return figure;
}

// "inference.ttft_ratio" -> "inference.ttft"
std::string_view without_ratio(std::string_view id) {
  return id.substr(0, id.size() - std::string_view("_ratio").size());
}

Figure ratio_figure(const JudgeInput& input, const Question& question) {
  const std::string_view metric = without_ratio(question.metric->id);
  const Figure phase =
      quantile_figure(samples_of(input, question, metric, question.phase), question.quantile);
  const Figure reference =
      quantile_figure(samples_of(input, question, metric, question.reference), question.quantile);
  if (!phase.missing.empty()) return phase;
  if (!reference.missing.empty())
    return Figure::lacks(reference.missing == "n_too_small" ? "n_too_small" : "no_reference",
                         phase.n);
  if (reference.infinite || !(*reference.value > 0)) return Figure::lacks("no_reference", phase.n);
  if (phase.infinite) return phase;
  Figure figure = Figure::of(*phase.value / *reference.value, phase.n);
  figure.evidence = {
      {"value", *phase.value}, {"reference_value", *reference.value}, {"reference_n", reference.n}};
  return figure;
}

// Of the faults of the phase, the one with the largest value, or the smallest where sooner is worse
// (and none at all is best); one that could not be measured comes before all.
template <typename FigureOf>
Figure worst_fault(const JudgeInput& input, const Question& question, FigureOf figure_of,
                   bool sooner_is_worse = false) {
  std::optional<Figure> worst;
  for (const FaultFacts& fault : faults_of_phase(input, question.phase)) {
    Figure figure = figure_of(fault);
    if (!figure.evidence.is_object()) figure.evidence = Json::object();
    figure.evidence["fault"] = fault.plan->id;
    const auto badness = [](const Figure& f) {
      if (f.missing == "no_impact") return -1;
      return !f.missing.empty() ? 3 : f.infinite ? 2 : f.censored ? 1 : 0;
    };
    const bool worse =
        !worst || badness(figure) > badness(*worst) ||
        (badness(figure) == badness(*worst) && figure.value && worst->value &&
         (sooner_is_worse ? *figure.value < *worst->value : *figure.value > *worst->value));
    if (worse) worst = std::move(figure);
  }
  return worst ? std::move(*worst) : Figure::lacks("no_fault");
}

Figure fault_interval(const JudgeInput& input, const Question& question, const FaultFacts& fault) {
  const std::string_view id = question.metric->id;
  if (id == "inference.time_to_impact") return time_to_impact(input, question.load, fault);
  if (id == "inference.time_to_drain") return time_to_drain(input, question.load, fault);
  if (id == "inference.time_to_normal_latency")
    return time_to_normal_latency(input, question.load, fault,
                                  {question.reference, question.clean_requests, question.margin});
  return time_to_recover(input, question.load, fault, question.clean_requests);
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

}  // namespace

const PhasePlan* baseline_of(const Plan& plan, const std::string& load) {
  for (const PhasePlan& phase : plan.phases)
    if (runs(phase, load) && phase.faults.empty()) return &phase;
  return nullptr;
}

Stretch stretch_of(const JudgeInput& input, const std::string& load, const std::string& phase) {
  Stretch current;
  bool running = false, found = false;
  for (const PhasePlan& step : input.plan.phases) {
    const auto window = input.evidence.phases.find(step.name);
    const bool begun = window != input.evidence.phases.end() && window->second.begun;
    if (!begun || !runs(step, load)) {
      if (found) return current;
      running = false;
      continue;
    }
    if (!running) current.begin = window->second.begin;
    running = true;
    current.end = window->second.end;
    found = found || step.name == phase;
  }
  return found ? current : Stretch{};
}

Figure derive(const JudgeInput& input, const Question& question) {
  if (question.metric->probe == kSignalMetrics) {
    if (question.metric->kind == MetricKind::kInterval)
      return signal_increase(input, question.signal, question.phase);
    if (std::optional<Figure> gaps = signal_gaps(input, question.signal, question.phase))
      return std::move(*gaps);
  }
  switch (question.metric->kind) {
    case MetricKind::kSamples:
      return quantile_figure(samples_of(input, question, question.metric->id, question.phase),
                             question.quantile);
    case MetricKind::kRatio:
      return question.metric->probe == "training" ? training_number(input, question)
                                                  : ratio_figure(input, question);
    case MetricKind::kShare:
      return attainment_figure(input, question);
    case MetricKind::kNumber:
      return question.metric->probe == "training" ? training_number(input, question)
                                                  : request_number(input, question);
    case MetricKind::kDifference:
      return attainment_change(input, question);
    case MetricKind::kInterval:
      return worst_fault(
          input, question,
          [&](const FaultFacts& fault) { return fault_interval(input, question, fault); },
          question.metric->id == "inference.time_to_impact");
    case MetricKind::kFault:
      return worst_fault(input, question, [&](const FaultFacts& fault) {
        return fault_delay(fault, question.metric->id);
      });
    case MetricKind::kReported:
      break;
  }
  return Figure::lacks("not_judged");
}

Summary summarise(const JudgeInput& input, const Question& question) {
  const std::vector<double> samples =
      samples_of(input, question, question.metric->id, question.phase);
  Summary out;
  out.n = std::ssize(samples);
  out.infinite =
      std::count_if(samples.begin(), samples.end(), [](double value) { return std::isinf(value); });
  out.quantiles = Json::object();
  for (const char* quantile : kQuantiles) {
    Json entry = figure_json(quantile_figure(samples, quantile));
    entry.erase("n");
    out.quantiles[quantile] = std::move(entry);
  }
  return out;
}

Json figure_json(const Figure& figure) {
  Json out = {{"value", figure.value ? Json(*figure.value) : Json(nullptr)}, {"n", figure.n}};
  if (figure.infinite) out["infinite"] = true;
  if (!figure.missing.empty()) out["missing_reason"] = figure.missing;
  if (figure.interval) {
    out["interval"] = {
        {"low", number_or_null(figure.interval->low)},
        {"high", figure.censored ? Json(nullptr) : number_or_null(figure.interval->high)}};
    if (figure.censored)
      out["interval"]["censored"] = true;
    else if (std::isinf(figure.interval->high))
      out["interval"]["infinite"] = true;
  }
  if (figure.evidence.is_object() && !figure.evidence.empty()) out["evidence"] = figure.evidence;
  return out;
}

}  // namespace mixproof
