// Statistics: exact bounds and order statistics. No randomness, no interpolation. Resampling:
// reports/bootstrap.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mixproof {

// One-sided exact (Clopper-Pearson) bounds of a proportion seen as `good` of `n`, each at
// confidence c: lower = BetaInv(1 - c; good, n - good + 1), upper = BetaInv(c; good + 1, n - good).
// lower is 0 for good = 0, upper is 1 for good = n. n = 0 gives [0, 1].
double proportion_lower(std::int64_t good, std::int64_t n, double confidence);
double proportion_upper(std::int64_t good, std::int64_t n, double confidence);

// Least n with which `violations` of n still prove a proportion of at least p: 59 for p = 0.95, c =
// 0.95 and none.
std::int64_t least_n(double p, double confidence, std::int64_t violations);

// Further trials, all good, until `good` of `n` proves p. 0 when it already does.
std::int64_t clean_trials_needed(std::int64_t good, std::int64_t n, double p, double confidence);

// The smallest sample x with at least ceil(p n) samples <= x. Samples may be +infinity. Nothing
// without samples. `sorted` is ascending; 0 < p <= 1.
std::optional<double> nearest_rank(std::span<const double> sorted, double p);

// Two-sided 95 % interval of the quantile p from order statistics (binomial ranks). Nothing when n
// is too small for one: least n are 6 (p50), 36 (p90), 72 (p95), 368 (p99), 3688 (p99.9).
struct Interval {
  double low = 0, high = 0;
};
// Bounds of a - b from those of each, a and b independent: the distances to their bounds add as
// squares (Zou and Donner 2008; with bounds of shares: Newcombe 1998). Unlike resampling it is not
// certain of a share that was never seen to miss.
Interval difference_bounds(double a, const Interval& bounds_of_a, double b,
                           const Interval& bounds_of_b);

std::int64_t least_samples(double p);  // of which quantile_interval gives something; 0 < p < 1
std::optional<Interval> quantile_interval(std::span<const double> sorted, double p);

double median_of(std::vector<double> samples);  // nearest rank; samples must not be empty

}  // namespace mixproof
