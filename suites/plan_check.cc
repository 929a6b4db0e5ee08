#include "suites/plan_check.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "suites/figure.h"
#include "suites/holm.h"
#include "suites/interval.h"
#include "suites/metrics.h"
#include "suites/signal_check.h"
#include "suites/training_survival.h"

namespace mixproof {
namespace {

template <typename Items>
std::vector<std::string> names_of(const Items& items) {
  std::vector<std::string> out;
  for (const auto& item : items) out.push_back(item.name);
  return out;
}

bool runs(const PhasePlan& phase, const std::string& load) {
  return std::find(phase.run.begin(), phase.run.end(), load) != phase.run.end();
}

bool share_a_node(const FaultPlanEntry& a, const FaultPlanEntry& b) {
  return std::any_of(a.parts.begin(), a.parts.end(), [&b](const FaultPlanEntry::Part& one) {
    return std::any_of(b.parts.begin(), b.parts.end(), [&one](const FaultPlanEntry::Part& other) {
      return one.node == other.node;
    });
  });
}

Status check_fault(const FaultPlanEntry& fault, const std::string& pointer, const PhasePlan& phase,
                   const Plan& plan, const Catalogue& catalogue) {
  const bool one_shot = catalogue.faults.at(fault.fault).one_shot;
  if (one_shot && fault.for_s != 0)
    return invalid_at(pointer + "/for_s", fault.fault + " is over at once");
  if (!one_shot && !(fault.for_s > 0))
    return invalid_at(pointer, "\"for_s\" is missing: how long is it to stay in effect?");
  if (one_shot && fault.at_s >= phase.length_s())
    return invalid_at(pointer + "/at_s",
                      format("phase \"%s\" is %g s long", phase.name.c_str(), phase.length_s()));
  if (fault.at_s + fault.for_s > phase.length_s())
    return invalid_at(pointer,
                      format("ends %g s after the begin of phase \"%s\", which is %g s long",
                             fault.at_s + fault.for_s, phase.name.c_str(), phase.length_s()));
  const std::size_t open = fault.target.find('[');
  const bool on_load =
      open != std::string::npos && plan.load(fault.target.substr(0, open)) != nullptr;
  if (on_load && !runs(phase, fault.target.substr(0, open)))
    return invalid_at(pointer + "/target",
                      "\"" + fault.target + "\" does not run in phase \"" + phase.name + "\"");
  for (const FaultPlanEntry& other : phase.faults)
    if (&other < &fault && share_a_node(other, fault) && other.at_s <= fault.at_s + fault.for_s &&
        fault.at_s <= other.at_s + other.for_s)
      return invalid_at(
          pointer, "overlaps fault " + other.id + " on the same node: one fault a node at a time");
  return ok();
}

// What the limit says about its metric: quantile, reference, bounds, method.
struct LimitCheck {
  const RawLimit& raw;
  const std::string& pointer;
  const Plan& plan;
  const JudgedMetric& metric;
  Limit limit;

  Error at(const std::string& key, const std::string& what) const {
    return invalid_at(pointer + "/" + key, what);
  }
  Error here(const std::string& what) const { return invalid_at(pointer, what); }

  Status check_load() const {
    if (metric.probe == kSignalMetrics) return check_signal_limit(limit, pointer, plan);
    if (!limit.signal.empty()) return at("signal", limit.metric + " is not taken from a signal");
    if (metric.probe.empty()) {
      if (!limit.load.empty())
        return at("load", limit.metric + " belongs to faults, not to a load");
      if (plan.phase(limit.phase)->faults.empty())
        return at("phase", "phase \"" + limit.phase + "\" has no fault to measure");
      return ok();
    }
    if (limit.load.empty()) return here("\"load\" is missing");
    TRY(check_known(pointer + "/load", "load", limit.load, names_of(plan.loads)));
    const LoadPlan& load = *plan.load(limit.load);
    if (load.probe != metric.probe)
      return at("metric", "load \"" + limit.load + "\" is \"" + load.probe +
                              "\" and does not measure " + limit.metric);
    if (!runs(*plan.phase(limit.phase), limit.load))
      return at("phase", "phase \"" + limit.phase + "\" does not run load \"" + limit.load + "\"");
    if (const std::string why = not_applicable(metric, load); !why.empty())
      return at("metric", limit.metric + " is not measured: " + why);
    if (metric.needs_slo && !load.slo)
      return here(limit.metric + " needs an \"slo\" on load \"" + limit.load + "\"");
    return ok();
  }

  Status check_reference() {
    if (limit.method == "interval" && metric.id == "training.goodput" && limit.reference.empty()) {
      const PhasePlan* baseline =
          baseline_of(plan, limit.load);  // what goodput is measured against anyway
      if (baseline == nullptr)
        return at("method", "no phase without a fault runs \"" + limit.load + "\" to compare with");
      if (baseline->name == limit.phase)
        return at("phase",
                  "is the first that runs \"" + limit.load + "\": nothing to compare with");
      limit.reference = baseline->name;
      return ok();
    }
    const bool optional = metric.id == "inference.time_to_normal_latency";
    if (!needs_reference(metric) && !optional) {
      if (!limit.reference.empty())
        return at("reference", limit.metric + " takes no reference phase");
      return ok();
    }
    if (optional && limit.reference.empty()) return ok();
    if (limit.reference.empty()) return here(limit.metric + " needs a \"reference\" phase");
    TRY(check_known(pointer + "/reference", "phase", limit.reference, names_of(plan.phases)));
    if (limit.reference == limit.phase) return at("reference", "is the judged phase itself");
    if (!runs(*plan.phase(limit.reference), limit.load))
      return at("reference",
                "phase \"" + limit.reference + "\" does not run load \"" + limit.load + "\"");
    return ok();
  }

  Status check_quantile() {
    if (!needs_quantile(metric)) {
      if (!limit.quantile.empty()) return at("quantile", limit.metric + " takes no quantile");
      return ok();
    }
    if (limit.quantile.empty() && limit.metric == "inference.longest_wait") limit.quantile = "max";
    if (limit.quantile.empty()) return here(limit.metric + " needs a \"quantile\"");
    return ok();
  }

  // Margins: 1 is "no worse than the reference", so they lie on the worse side of it.
  Status check_interval() {
    if (!takes_interval(metric))
      return at("method",
                "interval judges ratios to a reference phase, inference.attainment_change and "
                "training.goodput, not " +
                    limit.metric);
    if (!limit.dependence.empty()) return at("dependence", "belongs to method binomial");
    if (limit.quantile == "max")
      return at("quantile", "method interval cannot bound a maximum; name a quantile below it");
    const bool lower = metric.better == "lower";
    if (lower ? raw.has_at_least : raw.has_at_most)
      return at(lower ? "at_least" : "at_most",
                format("method interval takes \"%s\" of ", lower ? "at_most" : "at_least") +
                    limit.metric);
    const bool difference = metric.kind == MetricKind::kDifference;
    if (difference && raw.has_at_least && !(raw.at_least > -1 && raw.at_least <= 0))
      return at("at_least", "a margin of " + limit.metric + " lies above -1 and is 0 at most");
    if (lower && raw.has_at_most && !(raw.at_most >= 1))
      return at("at_most", "a margin of method interval is 1 or more");
    if (!lower && !difference && raw.has_at_least && !(raw.at_least > 0 && raw.at_least <= 1))
      return at("at_least", "a margin of method interval lies above 0 and is 1 at most");
    if (!raw.has_confidence) limit.confidence = 0.95;
    if (!(limit.confidence > 0.5)) return at("confidence", "must lie above 0.5");
    return ok();
  }

  Status check_method() {
    if (limit.method == "direct") {
      if (raw.has_confidence) return at("confidence", "belongs to methods binomial and interval");
      if (!limit.dependence.empty()) return at("dependence", "belongs to method binomial");
      return ok();
    }
    if (limit.method == "interval") return check_interval();
    if (metric.kind != MetricKind::kShare)
      return at("method", "binomial judges inference.attainment only, not " + limit.metric);
    if (!raw.has_confidence) return here("method binomial needs a \"confidence\"");
    if (limit.dependence.empty()) return here("method binomial needs a \"dependence\"");
    if (!raw.has_at_least) return here("method binomial needs \"at_least\"");
    if (raw.has_at_most) return at("at_most", "method binomial takes \"at_least\" only");
    if (!(raw.at_least > 0 && raw.at_least < 1))
      return at("at_least", "must lie between 0 and 1, both excluded");
    if (limit.dependence == "blocks" && baseline_of(plan, limit.load) == nullptr)
      return at("dependence",
                "blocks are as long as the baseline says, and no phase without a "
                "fault runs \"" +
                    limit.load + "\"");
    return ok();
  }

  // Times that count from a fault.
  Status check_fault_times() const {
    const bool recovers = metric.id == "inference.time_to_recover",
               normal = metric.id == "inference.time_to_normal_latency";
    if (raw.has_clean_requests && !recovers && !normal)
      return at("clean_requests",
                "belongs to inference.time_to_recover and inference.time_to_normal_latency");
    if (raw.has_margin && !normal)
      return at("margin", "belongs to inference.time_to_normal_latency");
    if (!counts_from_fault(metric)) return ok();
    if (plan.phase(limit.phase)->faults.empty())
      return at("phase", "phase \"" + limit.phase + "\" has no fault to recover from");
    if (!recovers && limit.reference.empty() && baseline_of(plan, limit.load) == nullptr)
      return at("metric", limit.metric + " needs a baseline: a phase without a fault that runs \"" +
                              limit.load + "\"");
    return ok();
  }

  Status check_bounds() {
    if (!raw.has_at_most && !raw.has_at_least) return here("needs \"at_most\" or \"at_least\"");
    if (raw.has_at_most) limit.at_most = raw.at_most;
    if (raw.has_at_least) limit.at_least = raw.at_least;
    if (raw.has_at_most && raw.has_at_least && raw.at_least > raw.at_most)
      return here("nothing is at least " + format("%g", raw.at_least) + " and at most " +
                  format("%g", raw.at_most));
    TRY(check_fault_times());
    limit.clean_requests = static_cast<int>(raw.clean_requests);
    if (limit.metric == "fault.revert_delay")
      for (const FaultPlanEntry& fault : plan.phase(limit.phase)->faults)
        if (fault.one_shot())
          return at("phase", fault.fault + " in phase \"" + limit.phase +
                                 "\" is over at once; nothing reverts it");
    return ok();
  }
};

Result<const JudgedMetric*> find_metric(const std::string& name, const std::string& pointer,
                                        const Catalogue& catalogue) {
  const JudgedMetric* metric = judged_metric(name);
  if (metric != nullptr && metric->kind != MetricKind::kReported) return metric;
  const std::string limitable = " (limits may name: " + join(limitable_metrics(), ", ") + ")";
  if (metric != nullptr)
    return invalid_at(pointer, name + " is reported and takes no limit" + limitable);
  for (const auto& [probe, entry] : catalogue.probes)
    for (const Catalogue::Probe::Metric& known : entry.metrics)
      if (known.name == name)
        return invalid_at(pointer, name + " is measured but cannot be judged" + limitable);
  const std::string near = nearest(name, limitable_metrics());
  return invalid_at(pointer, "nothing measures \"" + name + "\"" +
                                 (near.empty() ? limitable : "; did you mean \"" + near + "\"?"));
}

}  // namespace

Error invalid_at(const std::string& pointer, const std::string& what) {
  return {Code::kInvalid, pointer + ": " + what};
}

Status check_name(const std::string& pointer, const std::string& name) {
  const bool good = !name.empty() && name.size() <= 64 &&
                    std::all_of(name.begin(), name.end(), [](unsigned char c) {
                      return std::isalnum(c) || c == '_' || c == '-';
                    });
  if (good) return ok();
  return invalid_at(pointer, "\"" + name + "\" is not a name (1 to 64 letters, digits, _ and -)");
}

Status check_known(const std::string& pointer, const std::string& kind, const std::string& name,
                   const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return ok();
  const std::string near = nearest(name, known);
  return invalid_at(pointer, "there is no " + kind + " \"" + name + "\"" +
                                 (near.empty() ? " (known: " + join(known, ", ") + ")"
                                               : "; did you mean \"" + near + "\"?"));
}

Status check_phases(const Plan& plan, const Catalogue& catalogue) {
  if (plan.phases.empty()) return invalid_at("/phases", "is empty");
  for (std::size_t p = 0; p < plan.phases.size(); ++p) {
    const PhasePlan& phase = plan.phases[p];
    const std::string pointer = "/phases/" + std::to_string(p);
    TRY(check_name(pointer + "/name", phase.name));
    if (plan.phase(phase.name) != &phase)
      return invalid_at(pointer + "/name", "a second phase \"" + phase.name + "\"");
    if (phase.run.empty()) return invalid_at(pointer + "/run", "runs no load");
    for (std::size_t i = 0; i < phase.run.size(); ++i) {
      const std::string place = pointer + "/run/" + std::to_string(i);
      TRY(check_known(place, "load", phase.run[i], names_of(plan.loads)));
      if (std::count(phase.run.begin(), phase.run.end(), phase.run[i]) > 1)
        return invalid_at(place, "\"" + phase.run[i] + "\" is named twice");
    }
    for (std::size_t f = 0; f < phase.faults.size(); ++f)
      TRY(check_fault(phase.faults[f], pointer + "/faults/" + std::to_string(f), phase, plan,
                      catalogue));
  }
  for (const LoadPlan& load : plan.loads)
    if (std::none_of(plan.phases.begin(), plan.phases.end(),
                     [&](const PhasePlan& p) { return runs(p, load.name); }))
      return invalid_at("/loads/" + load.name, "no phase runs it");
  return ok();
}

Result<Limit> check_limit(const RawLimit& raw, const std::string& pointer, const Plan& plan,
                          const Catalogue& catalogue) {
  TRY(check_name(pointer + "/id", raw.limit.id));
  const JudgedMetric* metric = TRY(find_metric(raw.limit.metric, pointer + "/metric", catalogue));
  TRY(check_known(pointer + "/phase", "phase", raw.limit.phase, names_of(plan.phases)));
  LimitCheck check{raw, pointer, plan, *metric, raw.limit};
  TRY(check.check_load());
  TRY(check.check_reference());
  TRY(check.check_quantile());
  TRY(check.check_method());
  TRY(check.check_bounds());
  if (raw.limit.why.empty()) return invalid_at(pointer + "/why", "is empty");
  return check.limit;
}

Status check_primary(const Limit& limit, const std::string& pointer, const Plan& plan) {
  if (!is_primary(limit) || primary_limits(plan, limit.phase) < kMostPrimary) return ok();
  return invalid_at(pointer, format("phase \"%s\" has %d required limits of method interval "
                                    "already, and each takes evidence from the others; give this "
                                    "one \"required\": false",
                                    limit.phase.c_str(), kMostPrimary));
}

}  // namespace mixproof
