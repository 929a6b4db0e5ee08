// When a fault reached the users, and when it had left them. Both are known as intervals, because
// requests are scheduled at moments and clocks are known to within an uncertainty.
#pragma once

#include "suites/fault_evidence.h"
#include "suites/figure.h"

namespace mixproof {

// Time to impact: the first violation scheduled after the injection whose window (2 s or 10
// requests, the longer, starting at it) holds more violations than any such window of the baseline.
// The interval runs from the last good request before it to the violation, minus the injection,
// both clamped at 0 and widened by the clock uncertainty. missing "no_impact" when there is none,
// with watched_s in the evidence: for how long there was none.
Figure time_to_impact(const JudgeInput& input, const std::string& load, const FaultFacts& fault);

// Time to recover: from the revert (of a fault that is over at once, as a kill: from the fault
// itself) to the first request of the first run of `clean_requests` consecutive scheduled requests
// without a violation. The interval runs from the last violation to
// that request; the value is its upper end. Settle times count, and the run may reach into later
// phases as long as the load goes on, up to the next fault. Not shown by then: censored, with the
// last violation as lower end.
Figure time_to_recover(const JudgeInput& input, const std::string& load, const FaultFacts& fault,
                       int clean_requests);

// Time to normal latency: from the revert to the first of `requests` consecutive scheduled requests
// whose median ttft (of a request that was not OK: infinite) is at most margin x the median of the
// reference phase, by default the baseline, and whose first is too. Up to half of them may still
// wait longer. The interval runs from the request before it. Censored as time_to_recover.
struct NormalLatency {
  std::string reference;  // a phase; empty: the baseline
  int requests = 59;
  double margin = 1.1;
};
Figure time_to_normal_latency(const JudgeInput& input, const std::string& load,
                              const FaultFacts& fault, const NormalLatency& normal);

// Time to drain: from the revert to the first moment with no more requests open (scheduled, and not
// over) than 95 % of the requests of the baseline found, themselves included. Censored as
// time_to_recover, with the end of the evidence as lower end. A request whose end is not known
// stays open.
Figure time_to_drain(const JudgeInput& input, const std::string& load, const FaultFacts& fault);

// The end of the evidence that times from the revert may use.
std::int64_t recovery_horizon(const JudgeInput& input, const std::string& load,
                              const FaultFacts& fault);

}  // namespace mixproof
