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

// For people: "process_kill on llm[0]", "net_drop between train-0 and train-1", "net_drop of what
// train-1 sends to train-0".
std::string fault_words(const FaultPlanEntry& fault);

}  // namespace mixproof
