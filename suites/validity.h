// Whether a phase was measured at all, and whether its measurement can be trusted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "suites/figure.h"

namespace mixproof {

struct Problem {
  std::string reason;  // code: lost_node, process_exit, load_absent, missing_rows, missing_ranks,
                       // bad_rows ...
  std::string detail;
  Code code = Code::kInternal;  // of an error row
  std::string load;             // of an error row: the load that failed; empty otherwise
};

// What makes every check of the phase an error: it did not run or was cut short, a node or process
// of the run was gone, a load that the plan wants in it left no or not enough evidence.
// Expectations come from the plan, never from what is there. Most telling first.
std::vector<Problem> phase_problems(const JudgeInput& input, const std::string& phase);

// Why the figures of a load scheduled in [from, until) may be the measurer's own doing; empty when
// they are sound:
// - send lateness or receive lag p99 above max(1 ms, 2 % of the ttft bound),
// - more than 0.1 % dropped by the client, or fewer than 99.9 % sent for no fault of the server,
// - the client above 85 % of its core, or more than 5 % of time stolen, on average; no client row
// at all,
// - requests that did not arrive as declared (row `arrivals`) in a phase that touches that time: a
// test of the realised gaps has p below 0.001 and below a tenth of the schedule's own, or below
// 1e-6; or, where the times hold no chance, more than 5 % of the gaps moved,
// - such a row missing, of any worker, for a phase that touches that time and was run to its end
// (of one that was cut short there is none),
// - the clock of one of its nodes stepped or is not known well enough.
// Only the clock applies to loads other than inference.
std::string measurement_trouble(const JudgeInput& input, const std::string& load, std::int64_t from,
                                std::int64_t until);

// The most that the client itself may have added to a latency in that time: its largest delay or
// lag.
double client_error_s(const JudgeInput& input, const std::string& load, std::int64_t from,
                      std::int64_t until);

}  // namespace mixproof
