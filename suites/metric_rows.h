// The metrics of a report: every figure that the judge derives, for every phase that has begun.
#pragma once

#include "suites/figure.h"

namespace mixproof {

// A list of {"id", "labels", "unit", "better", ...} in the order of the plan's phases and of
// suites/metrics.cc. Sample metrics carry a "summary" of all quantiles, the others a "value". What
// cannot be derived has a "missing_reason". Figures of loads are labelled with their backend
// (suites/observed.h).
Json metric_rows(const JudgeInput& input, const Json& observed);

}  // namespace mixproof
