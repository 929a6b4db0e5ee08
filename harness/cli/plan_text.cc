#include "harness/cli/plan_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "reports/bootstrap.h"
#include "suites/fault_parts.h"
#include "suites/interval.h"
#include "suites/metrics.h"

namespace mixproof {
namespace {

// Requests a second that a load will offer; 0 for loads that offer none.
double rate_of(const LoadPlan& load) {
  const Json* arrivals = member(load.params, "arrivals");
  if (arrivals == nullptr || !arrivals->is_object() || arrivals->empty()) return 0;
  return number_at(arrivals->begin().value(), "rate_per_s");
}

// How many violations a binomial limit tolerates among n requests; -1: none is too many already.
std::int64_t tolerated(std::int64_t n, double at_least, double confidence) {
  std::int64_t violations = -1;
  while (violations + 1 <= n && proportion_lower(n - violations - 1, n, confidence) >= at_least)
    ++violations;
  return violations;
}

// Blocks are a second, or twice the baseline's p99 end-to-end time, which is not known before the
// run.
std::string interval_need(const Plan& plan, const Limit& limit) {
  const double least_s = kLeastBlocks;
  std::string out = format(
      " against %s at %g %% confidence (interval)\n    needs at least %g s measured in each of %s and %s, more "
      "where answers or steps take long (%d blocks of max(1 s, 2 x their p99)); they have %g s and %g s",
      limit.reference.c_str(), limit.confidence * 100, least_s, limit.phase.c_str(),
      limit.reference.c_str(), kLeastBlocks, plan.phase(limit.phase)->measure_s,
      plan.phase(limit.reference)->measure_s);
  if (std::min(plan.phase(limit.phase)->measure_s, plan.phase(limit.reference)->measure_s) <
      least_s)
    out += ": too short to decide";
  const LoadPlan* load = plan.load(limit.load);
  const double rate = load == nullptr ? 0 : rate_of(*load);
  if (!limit.quantile.empty() && rate > 0) {
    const std::int64_t least = least_samples(quantile_of(limit.quantile));
    out += format("\n    %s needs %lld requests in each, %.0f s at %g/s", limit.quantile.c_str(),
                  static_cast<long long>(least), static_cast<double>(least) / rate, rate);
  }
  const PhasePlan* second = second_baseline(plan, limit);
  if (second != nullptr)
    out += format("\n    %s shows the noise: the margin is the wider of bound and noise",
                  second->name.c_str());
  return out;
}

std::string limit_text(const Plan& plan, const Limit& limit) {
  std::string out = limit.metric + (limit.quantile.empty() ? "" : " " + limit.quantile);
  if (limit.at_most) out += format(" <= %g", *limit.at_most);
  if (limit.at_least) out += format("%s >= %g", limit.at_most ? " and" : "", *limit.at_least);
  if (limit.method == "interval") return out + interval_need(plan, limit);
  if (limit.method != "binomial") return out + " (" + limit.method + ")";
  out += format(" at %g %% confidence (binomial)", limit.confidence * 100);
  const LoadPlan* load = plan.load(limit.load);
  const PhasePlan* phase = plan.phase(limit.phase);
  if (load == nullptr || phase == nullptr || !limit.at_least) return out;
  const double rate = rate_of(*load);
  const std::int64_t least = least_n(*limit.at_least, limit.confidence, 0);
  const auto offered = static_cast<std::int64_t>(rate * phase->measure_s);
  const std::int64_t spare = tolerated(offered, *limit.at_least, limit.confidence);
  out += format(
      "\n    needs %lld requests without a violation, %.0f s at %g/s; this phase offers about %lld",
      static_cast<long long>(least), static_cast<double>(least) / rate, rate,
      static_cast<long long>(offered));
  out += spare < 0
             ? ": too few to pass"
             : format(" and passes with up to %lld violations", static_cast<long long>(spare));
  return out;
}

std::string fault_times(const Plan& plan, const FaultPlanEntry& fault) {
  if (fault.one_shot()) return format(" at %g s, over at once", fault.at_s);
  return format(" from %g s for %g s; lease %g s, renewed every %g s", fault.at_s, fault.for_s,
                plan.lease_s, plan.renew_s);
}

}  // namespace

std::string plan_text(const Plan& plan) {
  std::string out = plan.name + ": " + plan.claim + "\n" +
                    format("%zu nodes, %.0f s in %zu phases, placement %s\n", plan.nodes.size(),
                           plan.length_s(), plan.phases.size(), plan.placement.c_str());
  out += "\nservices\n";
  for (const ServicePlan& service : plan.services) {
    std::vector<std::string> places;
    for (const ServicePlan::Instance& instance : service.instances)
      places.push_back(instance.name + " on " + instance.node);
    out += "  " + service.name + " (" +
           (!service.start.empty() ? service.start
            : service.urls.empty() ? "attached: " + service.url
                                   : "attached: " + join(service.urls, ", ")) +
           "): " + join(places, ", ") + "\n";
  }
  out += "\nloads\n";
  for (const LoadPlan& load : plan.loads) {
    const double rate = rate_of(load);
    out += "  " + load.name + " (" + load.probe + ") on " + join(load.nodes, ", ") +
           (load.target.empty() ? "" : " to " + load.target) +
           (rate > 0 ? format(", %g requests/s", rate) : "") + "\n";
  }
  out += "\nphases\n";
  for (const PhasePlan& phase : plan.phases) {
    out +=
        format("  %5.0f s  %-16s %.0f s (%.0f s settle): %s\n", phase.begin_s, phase.name.c_str(),
               phase.length_s(), phase.settle_s, join(phase.run, ", ").c_str());
    for (const FaultPlanEntry& fault : phase.faults)
      out += "           fault " + fault_words(fault) + fault_times(plan, fault) + "\n";
  }
  out += "\nchecks\n";
  for (const Limit& limit : plan.limits)
    out +=
        "  " + limit.check_id() + ": " + limit_text(plan, limit) + "\n    why: " + limit.why + "\n";
  return out;
}

}  // namespace mixproof
