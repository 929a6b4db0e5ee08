// Attainment: the share of scheduled requests that were good, with exact bounds, and what is known
// of how far the requests depend on each other (harness/base/dependence.h).
#pragma once

#include <string>
#include <vector>

#include "harness/base/dependence.h"
#include "suites/figure.h"

namespace mixproof {

// The window cut into as many equal blocks of at least `block_s` as it holds. The load has an slo.
std::vector<BlockCount> block_counts(const JudgeInput& input, const std::string& load,
                                     const std::string& phase, double block_s);

// The interval has the bounds of attainment, each at the question's confidence. By requests: exact,
// and the evidence says what the blocks tell of their dependence. By blocks: of effective counts;
// missing baseline_unanswered when the length of a block is not known, too_few_blocks when fewer
// than 20 hold requests, with seconds_missing in the evidence. `good` and `scheduled` are in the
// evidence either way.
Figure attainment_figure(const JudgeInput& input, const Question& question);

// Attainment minus that of the reference phase; no interval.
Figure attainment_change(const JudgeInput& input, const Question& question);

}  // namespace mixproof
