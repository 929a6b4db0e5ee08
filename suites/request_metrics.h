// Figures of inference requests in a window. Definitions: suites/metrics.cc. A request belongs to
// the window in which it was scheduled.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "suites/figure.h"

namespace mixproof {

// Those scheduled in the phase's measured window, in order.
std::vector<const Request*> measured_requests(const Evidence& evidence, const std::string& load,
                                              const std::string& phase);

// OK, and within ttft, tpot and max_gap. What is not applicable (tpot of one token) breaks no
// bound.
bool is_good(const Request& request, const Slo& slo);

// The value of a sample metric; nothing where not applicable, +infinity for a request that was not
// OK.
std::optional<double> request_sample(const Request& request, std::string_view metric);

// The applicable values of a sample metric, ascending; +infinity for requests that were not OK.
std::vector<double> request_samples(const std::vector<const Request*>& requests,
                                    std::string_view metric);

// Metrics of kind kNumber.
Figure request_number(const JudgeInput& input, const Question& question);

// Scheduled requests by outcome class; classes without any are left out.
Json outcome_counts(const std::vector<const Request*>& requests);

// A stall is a gap above this: 250 ms, or 8 x the median time per token of the baseline. Empty
// without a baseline.
std::optional<double> stall_threshold_s(const JudgeInput& input, const std::string& load);

}  // namespace mixproof
