// Observed: what the parts of a run said about themselves: clocks of nodes, labels of services,
// facts of loads. It goes into the report's environment, so that figures of different engines,
// shapes or backends are never taken for the same.
#pragma once

#include <span>
#include <string>

#include "suites/plan.h"

namespace mixproof {

// {"clocks": {node: {offset_s, uncertainty_s, n}}, "services": {instance: {node, ...labels}},
//  "loads": {load: [{node, rank, stretch, ...info}]}}. offset_s: controller time - node time, of
//  the newest estimate.
Json observed(const Plan& plan, std::span<const Json> rows);

// The backend label of a load's figures: what answered ("llama_cpp", "null_server", "attached") or
// what computed
// ("cpu+ucx/tcp"). From the plan and, where only the run knows, from `observed`.
std::string backend_of(const Plan& plan, const LoadPlan& load, const Json& observed);

}  // namespace mixproof
