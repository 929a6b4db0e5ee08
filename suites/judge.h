// The judge: a pure function of plan and recording. No clock, no files, no randomness: same input,
// same bytes.
#pragma once

#include <span>

#include "reports/report.h"
#include "suites/plan.h"

namespace mixproof {

// Every limit of the plan gets a check, whatever the recording holds. The order of rows matters
// only among the states of one fault. Torn or without its end row: the judgement is partial and
// never a pass.
Judgement judge(const Plan& plan, std::span<const Json> rows);

}  // namespace mixproof
