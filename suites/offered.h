// Offered: how many requests the plan alone says that a load will send. Computed from the suite's
// parameters by formulas of its own, not by the code that draws the schedule, so that the judge
// notices when a load sends something else. Keys: parameter `arrivals` of the probe inference.
#pragma once

#include <optional>
#include <string>

#include "suites/plan.h"

namespace mixproof {

// A part of a phase.
struct OfferedWindow {
  double phase_in_load_s = 0;      // begin of the phase from the begin of the load
  double phase_s = 0;              // length of the phase
  double from_s = 0, until_s = 0;  // from the begin of the phase
};

// Mean number of requests in that time; nothing where the plan does not say (a trace).
std::optional<double> expected_requests(const Json& arrivals, const OfferedWindow& window);

// Variance over mean of that number: 1 for poisson, cv^2 for gamma, less for constant gaps.
double count_dispersion(const Json& arrivals);

struct OfferedRate {
  double mean_per_s = 0, peak_per_s = 0;  // mean over one round of steps, factors or bursts
};
// 0 and 0 for a load without arrivals; a mean of 0 for a trace.
OfferedRate offered_rate(const LoadPlan& load);

// The phase as its load sees it: from which begin its time counts.
OfferedWindow window_of_phase(const Plan& plan, const std::string& load, const PhasePlan& phase);

}  // namespace mixproof
