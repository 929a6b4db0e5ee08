#include "suites/metric_rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/base/text.h"
#include "suites/fault_evidence.h"
#include "suites/observed.h"
#include "suites/recovery.h"
#include "suites/request_metrics.h"
#include "suites/signals.h"
#include "suites/training_survival.h"

namespace mixproof {
namespace {

// Of one worker.
Figure arrival_figure(const ArrivalTest& test, std::string_view metric) {
  if (metric == "inference.arrival_moved") {
    Figure figure = Figure::of(test.moved, test.n);
    figure.evidence = {{"gap_distance", test.gap_distance}};
    return figure;
  }
  const bool is_ks = metric == "inference.arrival_ks";
  const ArrivalTest::Gaps &due = test.scheduled, &sent = test.realised;
  const std::optional<double>&value = is_ks ? sent.ks : sent.dispersion,
        &p = is_ks ? sent.ks_p : sent.dispersion_p;
  if (!value || !p) return Figure::lacks("n_too_small", sent.n);
  Figure figure = Figure::of(*value, sent.n);
  figure.evidence = {{"p", *p}, {"process", test.process}};
  if (const auto& planned = is_ks ? due.ks : due.dispersion)
    figure.evidence["scheduled"] = *planned;
  if (const auto& planned = is_ks ? due.ks_p : due.dispersion_p)
    figure.evidence["scheduled_p"] = *planned;
  return figure;
}

// Of the worker whose test fits least; nothing where the times hold no chance to be tested.
std::optional<Figure> worst_arrivals(const std::vector<ArrivalTest>& tests,
                                     const std::string& phase, std::string_view metric) {
  std::optional<Figure> worst;
  const bool is_share = metric == "inference.arrival_moved";
  const auto badness = [&](const Figure& figure) {
    if (!figure.value) return -2.0;
    return is_share ? *figure.value : -number_at(figure.evidence, "p");
  };
  for (const ArrivalTest& test : tests) {
    if (test.phase != phase || (test.deterministic && !is_share)) continue;
    Figure figure = arrival_figure(test, metric);
    if (!worst || badness(figure) > badness(*worst)) worst = std::move(figure);
  }
  return worst;
}

class RowWriter {
 public:
  RowWriter(const JudgeInput& input, const Json& observed) : input_(input), observed_(observed) {}

  void phase(const PhasePlan& phase) {
    for (const std::string& load : phase.run)
      for (const JudgedMetric& metric : judged_metrics())
        if (metric.probe == input_.plan.load(load)->probe) load_metric(metric, phase, load);
    for (const SignalPlan& signal : input_.plan.signals) signal_metrics(signal, phase.name);
    for (const FaultFacts& fault : faults_of_phase(input_, phase.name))
      for (const JudgedMetric& metric : judged_metrics())
        if (metric.kind == MetricKind::kFault &&
            !(fault.plan->one_shot() && metric.id == "fault.revert_delay"))
          add(metric, {{"phase", phase.name}, {"fault", fault.plan->id}},
              fault_delay(fault, metric.id));
  }

  Json take() { return std::move(rows_); }

 private:
  Json row(const JudgedMetric& metric, const Json& labels) const {
    Json out = {{"id", metric.id},
                {"labels", labels},
                {"unit", metric.unit},
                {"better", metric.better},
                {"replicate_unit", "run"}};
    if (metric.probe == "inference")
      out["latency_basis"] = metric.id == "inference.service_ttft" ? "sent" : "scheduled";
    return out;
  }

  void add(const JudgedMetric& metric, const Json& labels, const Figure& figure) {
    Json out = row(metric, labels);
    out.update(figure_json(figure));
    rows_.push_back(std::move(out));
  }

  void load_metric(const JudgedMetric& metric, const PhasePlan& phase, const std::string& load) {
    const Json labels = {{"load", load},
                         {"phase", phase.name},
                         {"backend", backend_of(input_.plan, *input_.plan.load(load), observed_)}};
    const bool has_slo = input_.plan.load(load)->slo.has_value();
    if (metric.needs_slo && !has_slo) return;
    if (!not_applicable(metric, *input_.plan.load(load)).empty()) return;
    Question question{.metric = &metric, .load = load, .phase = phase.name};
    switch (metric.kind) {
      case MetricKind::kSamples:
        return samples(question, labels);
      case MetricKind::kNumber:
      case MetricKind::kShare:
        return add(metric, labels, derive(input_, question));
      case MetricKind::kRatio:
      case MetricKind::kDifference:
        return ratio(question, labels);
      case MetricKind::kInterval:
      case MetricKind::kReported:
        if (metric.id == "inference.outcomes") return outcomes_row(metric, phase, load, labels);
        if (metric.id.starts_with("inference.arrival_"))
          return arrivals(metric, phase, load, labels);
        return fault_intervals(metric, phase, load, labels);
      case MetricKind::kFault:
        return;
    }
  }

  void samples(const Question& question, const Json& labels) {
    Json out = row(*question.metric, labels);
    const Summary summary = summarise(input_, question);
    out["n"] = summary.n;
    out["summary"] = summary.quantiles;
    if (summary.infinite > 0) out["infinite_samples"] = summary.infinite;
    if (summary.n == 0) out["missing_reason"] = "no_samples";
    rows_.push_back(std::move(out));
  }

  void signal_metrics(const SignalPlan& signal, const std::string& phase) {
    const Json labels = {{"signal", signal.name}, {"phase", phase}};
    const Question question{
        .metric = judged_metric("signal.value"), .phase = phase, .signal = signal.name};
    samples(question, labels);
    if (const std::optional<Figure> gaps = signal_gaps(input_, signal.name, phase)) {
      rows_.back()["missing_reason"] = gaps->missing;
      rows_.back()["evidence"] = gaps->evidence;
    }
    if (signal.is_counter())
      add(*judged_metric("signal.increase"), labels, signal_increase(input_, signal.name, phase));
  }

  // Against the first phase without a fault that runs the load, and against those that limits name.
  void ratio(Question question, const Json& labels) {
    std::set<std::pair<std::string, std::string>> asked;  // reference, quantile
    const PhasePlan* baseline = baseline_of(input_.plan, question.load);
    if (baseline != nullptr)
      asked.emplace(baseline->name, needs_quantile(*question.metric) ? "p50" : "");
    for (const Limit& limit : input_.plan.limits)
      if (limit.metric == question.metric->id && limit.load == question.load &&
          limit.phase == question.phase)
        asked.emplace(limit.reference, limit.quantile);
    for (const auto& [reference, quantile] : asked) {
      if (reference == question.phase) continue;
      question.reference = reference;
      question.quantile = quantile;
      Json with = labels;
      with["reference"] = reference;
      if (!quantile.empty()) with["quantile"] = quantile;
      add(*question.metric, with, derive(input_, question));
    }
  }

  void outcomes_row(const JudgedMetric& metric, const PhasePlan& phase, const std::string& load,
                    const Json& labels) {
    const auto requests = measured_requests(input_.evidence, load, phase.name);
    Json out = row(metric, labels);
    out["n"] = requests.size();
    out["value"] = requests.size();
    out["counts"] = outcome_counts(requests);
    rows_.push_back(std::move(out));
  }

  // A load without such rows has no such figure.
  void arrivals(const JudgedMetric& metric, const PhasePlan& phase, const std::string& load,
                const Json& labels) {
    const auto evidence = input_.evidence.loads.find(load);
    if (evidence == input_.evidence.loads.end()) return;
    const std::optional<Figure> worst =
        worst_arrivals(evidence->second.arrival_tests, phase.name, metric.id);
    if (worst) add(metric, labels, *worst);
  }

  void fault_intervals(const JudgedMetric& metric, const PhasePlan& phase, const std::string& load,
                       const Json& labels) {
    for (const FaultFacts& fault : faults_of_phase(input_, phase.name)) {
      Json with = labels;
      with["fault"] = fault.plan->id;
      if (metric.id == "inference.time_to_impact")
        add(metric, with, time_to_impact(input_, load, fault));
      else if (metric.id == "inference.time_to_drain")
        add(metric, with, time_to_drain(input_, load, fault));
      else
        recoveries(metric, phase, load, fault, with);
    }
  }

  // As the limits ask; by default, as a limit that says no more than it must would.
  void recoveries(const JudgedMetric& metric, const PhasePlan& phase, const std::string& load,
                  const FaultFacts& fault, Json with) {
    std::vector<Limit> asked;
    for (const Limit& limit : input_.plan.limits)
      if (limit.metric == metric.id && limit.load == load && limit.phase == phase.name)
        asked.push_back(limit);
    if (asked.empty()) asked.emplace_back();
    std::set<std::string> done;
    for (const Limit& limit : asked) {
      with["clean_requests"] = std::to_string(limit.clean_requests);
      const bool normal = metric.id == "inference.time_to_normal_latency";
      if (normal) with["margin"] = format("%g", limit.margin);
      if (normal && !limit.reference.empty()) with["reference"] = limit.reference;
      if (!done.insert(with.dump()).second) continue;
      add(metric, with,
          normal ? time_to_normal_latency(input_, load, fault,
                                          {limit.reference, limit.clean_requests, limit.margin})
                 : time_to_recover(input_, load, fault, limit.clean_requests));
    }
  }

  const JudgeInput& input_;
  const Json& observed_;
  Json rows_ = Json::array();
};

}  // namespace

Json metric_rows(const JudgeInput& input, const Json& observed) {
  RowWriter writer(input, observed);
  for (const PhasePlan& phase : input.plan.phases) {
    const auto window = input.evidence.phases.find(phase.name);
    if (window != input.evidence.phases.end() && window->second.begun &&
        window->second.measure_s() > 0)
      writer.phase(phase);
  }
  return writer.take();
}

}  // namespace mixproof
