#include "harness/cli/plan_text.h"

#include <vector>

#include "harness/base/text.h"
#include "suites/aborts.h"
#include "suites/check_power.h"
#include "suites/fault_parts.h"
#include "suites/offered.h"

namespace mixproof {
namespace {

// ", 8 requests/s", or mean and peak; empty for loads that offer none.
std::string rate_text(const LoadPlan& load) {
  const OfferedRate rate = offered_rate(load);
  if (!(rate.peak_per_s > 0)) return "";
  if (rate.mean_per_s == rate.peak_per_s) return format(", %g requests/s", rate.mean_per_s);
  if (rate.mean_per_s > 0)
    return format(", %.4g requests/s on average, at most %g", rate.mean_per_s, rate.peak_per_s);
  return format(", requests as in its trace, at most %g in a second", rate.peak_per_s);
}

std::string limit_text(const Plan& plan, const Limit& limit) {
  std::string out = limit.metric + (limit.quantile.empty() ? "" : " " + limit.quantile) +
                    (limit.signal.empty() ? "" : " of " + limit.signal);
  if (limit.at_most) out += format(" <= %g", *limit.at_most);
  if (limit.at_least) out += format("%s >= %g", limit.at_most ? " and" : "", *limit.at_least);
  if (!limit.reference.empty()) out += " against " + limit.reference;
  if (limit.method != "direct") out += format(" at %g %% confidence", limit.confidence * 100);
  out += " (" + limit.method + (limit.dependence.empty() ? "" : ", " + limit.dependence) + ")";
  const CheckPower power = check_power(plan, limit);
  return power.text.empty() ? out : out + "\n    power: " + power.text;
}

std::string signal_text(const SignalPlan& signal) {
  std::string what = signal.series.empty() ? signal.query : signal.series;
  for (const auto& [key, value] : signal.labels) what += " " + key + "=" + value;
  if (signal.as != "value") what = signal.as + " of " + what;
  return what + format(", %s over %s, every %g s from the first %s node", signal.combine.c_str(),
                       join(signal.instances, ", ").c_str(), signal.every_s, signal.on.c_str());
}

std::string signals_and_aborts(const Plan& plan) {
  std::string out;
  if (!plan.signals.empty()) out += "\nsignals\n";
  for (const SignalPlan& signal : plan.signals)
    out += "  " + signal.name + ": " + signal_text(signal) + "\n";
  if (!plan.aborts.empty()) out += "\naborts: what ends the run early, faults reverted first\n";
  for (const AbortPlan& abort : plan.aborts)
    out += "  " + abort.check_id() + ": unless " + abort_rule(abort) +
           (abort.phases.empty() ? "" : " (in " + join(abort.phases, ", ") + ")") +
           "\n    why: " + abort.why + "\n";
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
    out += "  " + load.name + " (" + load.probe + ") on " + join(load.nodes, ", ") +
           (load.target.empty() ? "" : " to " + load.target) + rate_text(load) + "\n";
  }
  out += "\nphases\n";
  for (const PhasePlan& phase : plan.phases) {
    out +=
        format("  %5.0f s  %-16s %.0f s (%.0f s settle): %s\n", phase.begin_s, phase.name.c_str(),
               phase.length_s(), phase.settle_s, join(phase.run, ", ").c_str());
    for (const FaultPlanEntry& fault : phase.faults)
      out += "           fault " + fault_words(fault) + fault_times(plan, fault) + "\n";
  }
  out += signals_and_aborts(plan);
  out += "\nchecks\n";
  for (const Limit& limit : plan.limits)
    out +=
        "  " + limit.check_id() + ": " + limit_text(plan, limit) + "\n    why: " + limit.why + "\n";
  return out;
}

}  // namespace mixproof
