#include "suites/schedule.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace mixproof {
namespace {

PhaseTime time_of(const PhasePlan& phase) {
  return {phase.name, phase.begin_s, phase.begin_s + phase.settle_s,
          phase.begin_s + phase.length_s()};
}

void add_spans(const Plan& plan, const LoadPlan& load, std::vector<LoadSpan>& spans) {
  bool running = false;
  for (const PhasePlan& phase : plan.phases) {
    const bool runs = std::find(phase.run.begin(), phase.run.end(), load.name) != phase.run.end();
    if (runs && !running) spans.push_back({load.name, phase.begin_s, phase.begin_s, {}});
    if (runs) {
      spans.back().phases.push_back(time_of(phase));
      spans.back().end_s = spans.back().phases.back().end_s;
    }
    running = runs;
  }
}

}  // namespace

Schedule make_schedule(const Plan& plan) {
  Schedule out;
  out.length_s = plan.length_s();
  for (const PhasePlan& phase : plan.phases) {
    out.phases.push_back(time_of(phase));
    for (const FaultPlanEntry& fault : phase.faults)
      out.faults.push_back({fault.id, phase.name, phase.begin_s + fault.at_s,
                            phase.begin_s + fault.at_s + fault.for_s});
  }
  for (const LoadPlan& load : plan.loads) add_spans(plan, load, out.loads);
  for (const LoadPlan& collector : plan.collectors)
    out.loads.push_back({collector.name, 0, out.length_s, out.phases});
  std::stable_sort(out.loads.begin(), out.loads.end(),
                   [](const LoadSpan& a, const LoadSpan& b) { return a.begin_s < b.begin_s; });
  std::stable_sort(out.faults.begin(), out.faults.end(),
                   [](const FaultTime& a, const FaultTime& b) { return a.inject_s < b.inject_s; });
  return out;
}

}  // namespace mixproof
