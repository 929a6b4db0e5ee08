// Series: what a phase measured, by time, as the bootstrap draws it. Blocks of time are drawn
// whole, because requests in a batch and steps beside each other share their fate.
#pragma once

#include <string>
#include <string_view>

#include "reports/bootstrap.h"
#include "suites/figure.h"

namespace mixproof {

// max(1 s, 2 x p99 end-to-end time of the answers, or of the steps, in the baseline of the load).
// Of the baseline, or a stalled phase would have too few blocks to be failed; of answers that came,
// so that it is finite.
double block_length_s(const JudgeInput& input, const std::string& load);

// The same with unanswered requests counted: nothing when the p99 is then infinite, or when the
// baseline has none. What shares its fate there is not known, so nothing may rest on blocks.
std::optional<double> known_block_length_s(const JudgeInput& input, const std::string& load);

// Samples of the measured window by scheduled time; +infinity for requests that were not OK.
Segment request_series(const JudgeInput& input, const std::string& load, const std::string& phase,
                       std::string_view metric);

// 1 for a good request, 0 for another. The load must have an slo.
Segment good_series(const JudgeInput& input, const std::string& load, const std::string& phase);

// Step times of the steps wholly within the window.
Segment step_time_series(const JudgeInput& input, const std::string& load,
                         const std::string& phase);

// Steps of the slowest rank as events with their durations, as the step rate counts them.
Segment step_series(const JudgeInput& input, const std::string& load, const std::string& phase);

}  // namespace mixproof
