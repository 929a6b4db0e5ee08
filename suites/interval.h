// Method interval: a ratio to the reference phase, or a difference from it, against a margin, by a
// block-bootstrap interval (reports/bootstrap.h).
#pragma once

#include <string>

#include "reports/verdict.h"
#include "suites/figure.h"

namespace mixproof {

// Ratios to a reference phase, inference.attainment_change, and training.goodput, whose reference
// is the first phase that runs the load.
bool takes_interval(const JudgedMetric& metric);

// A second baseline: another phase without faults that runs the same loads as the reference, the
// last such; null when the plan has none. Its ratio to the reference is the noise of the site: how
// far apart equal phases lie.
const PhasePlan* second_baseline(const Plan& plan, const Limit& limit);

// The ratio or difference with its interval, and in `evidence` everything that the verdict rests
// on: block_s, blocks, reference_blocks, margin, a_a (the second baseline against the reference),
// rise_s and least_rise_s of latencies. `missing` is too_few_blocks when a phase holds fewer than
// 20, with seconds_missing in the evidence; baseline_unanswered when the baseline does not say how
// long a block must be. Both phases have begun. by_divisor is filled for `tests` tests that share
// its confidence.
//
// A difference of attainment is bounded twice, by resampling and by the exact bounds of both shares
// at their effective counts (harness/base/dependence.h), and has the wider ends: resampling alone
// is certain of a phase in which nothing failed, however short it was.
Figure interval_figure(const JudgeInput& input, const Limit& limit, int tests = 1);

// Whether an interval decides, by the margin in the figure's evidence.
bool within_margin(const Interval& interval, const Figure& figure, const Limit& limit);
bool beyond_margin(const Interval& interval, const Figure& figure, const Limit& limit);

// In this order:
// - drift: the interval of the second baseline's ratio lies wholly beyond the bound, or beyond its
// inverse;
// - pass: the interval lies within the margin, which is the bound or, if that is wider, the noise;
// - fail: it lies wholly beyond the margin, and a latency has risen by more than max(5 ms, 5 x the
// client's own p99);
// - else inconclusive: rise_too_small or interval_straddles_limit.
struct IntervalVerdict {
  VerdictStatus status = VerdictStatus::kInconclusive;
  std::string reason;
};
IntervalVerdict judge_interval(const Figure& figure, const Limit& limit);

// Seconds that the phase must grow by until the interval leaves the margin, were the ratio to stay:
// the width goes with the root of the time. 0 when that cannot be said.
double seconds_to_decide(const Figure& figure, const Limit& limit, double measured_s);

}  // namespace mixproof
