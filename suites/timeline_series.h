// The series of a recording that the report page draws. Pure.
#pragma once

#include <span>

#include "reports/series.h"
#include "suites/plan.h"

namespace mixproof {

// Inference loads give requests, good or not as the judge counts them; training loads a step rate
// for each second (for more than ten minutes, for each of 600 equal bins), that of the slowest
// rank. Rows of kind "checkpoint" (load, node, step, end, ok) give one mark a step, complete when
// no row of it says "ok": false.
TimelineSeries timeline_series(const Plan& plan, std::span<const Json> rows);

}  // namespace mixproof
