// Schedule: what happens when in a run. A pure function of the plan; all times are seconds from the
// begin of the first phase.
#pragma once

#include <string>
#include <vector>

#include "suites/plan.h"

namespace mixproof {

struct PhaseTime {
  std::string name;
  double begin_s = 0, settled_s = 0, end_s = 0;
};

// A stretch of consecutive phases that run a load: it starts once and ends once. `phases` touch
// each other.
struct LoadSpan {
  std::string load;
  double begin_s = 0, end_s = 0;
  std::vector<PhaseTime> phases;
};

struct FaultTime {
  std::string id, phase;  // FaultPlanEntry::id
  double inject_s = 0, revert_s = 0;
};

struct Schedule {
  std::vector<PhaseTime> phases;
  // By begin, then in the plan's order; a load appears once a stretch. Collectors of signals are
  // among them: each has one, over all phases.
  std::vector<LoadSpan> loads;
  std::vector<FaultTime> faults;  // by inject_s, then in the plan's order
  double length_s = 0;
};

Schedule make_schedule(const Plan& plan);

}  // namespace mixproof
