// Power: what a check can decide with the samples that a plan gives it, before it runs.
#pragma once

#include <cstdint>

namespace mixproof {

double normal_quantile(double p);                                   // 0 < p < 1
double binomial_at_most(std::int64_t k, std::int64_t n, double p);  // P(B <= k)

// Of the exact one-sided test that a proportion is at least p: the most violations among n trials
// with which it still passes (-1: none is too many already), and the fewest with which it fails
// (n + 1: none suffices).
std::int64_t tolerated_violations(std::int64_t n, double p, double confidence);
std::int64_t failing_violations(std::int64_t n, double p, double confidence);

// The chance that it passes, or fails, when trials are good with probability `truth`.
double pass_power(std::int64_t n, double p, double confidence, double truth);
double fail_power(std::int64_t n, double p, double confidence, double truth);

// Samples in each of two phases that tell a ratio of their quantiles from 1, for independent
// lognormal samples: n = 2 p (1 - p) (sigma (z_confidence + z_power) / (phi(z_p) ln ratio))^2, from
// the asymptotic variance of a sample quantile. And the ratio that n samples can tell.
std::int64_t least_n_for_ratio(double p, double ratio, double sigma, double confidence,
                               double power);
double detectable_ratio(double p, double n, double sigma, double confidence, double power);

// Trials in each of two phases that tell two proportions apart (normal approximation, unpooled):
// n = (z_confidence + z_power)^2 (a (1 - a) + b (1 - b)) / (a - b)^2.
std::int64_t least_n_for_difference(double a, double b, double confidence, double power);

}  // namespace mixproof
