// The parameters `arrivals`, `prompt_words`, `answer_tokens`, `prompt_lengths`, `answer_lengths` of
// a load that asks, and what it says about them in its info.
#pragma once

#include <span>

#include "harness/base/params.h"
#include "probes/inference/arrivals.h"

namespace mixproof::inference {

Param arrivals_param(ArrivalProcess& process);
Params length_params(Lengths& lengths);

// {"process", "scheduled", "by_phase", "trace"?, and the parameters}: what was drawn.
Json arrivals_info(const ArrivalProcess& process, const Schedule& schedule,
                   std::span<const SchedulePhase> phases);

}  // namespace mixproof::inference
