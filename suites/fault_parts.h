// Where a fault of a suite acts: its target and peers, resolved to nodes of the plan.
#pragma once

#include "suites/plan.h"

namespace mixproof {

// kInvalid with a pointer when the target is none for this fault, when peers are missing or there
// without need, or when both sides share a node. Services, loads and nodes of the plan must be
// there.
Result<std::vector<FaultPlanEntry::Part>> fault_parts(const FaultPlanEntry& fault,
                                                      const Catalogue::Fault& kind,
                                                      const std::string& pointer, const Plan& plan);

// For people; see reports/fault_words.h.
std::string fault_words(const FaultPlanEntry& fault);

}  // namespace mixproof
