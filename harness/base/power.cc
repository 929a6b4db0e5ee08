#include "harness/base/power.h"

#include <boost/math/special_functions/beta.hpp>
#include <boost/math/special_functions/erf.hpp>
#include <cmath>

#include "harness/base/check.h"
#include "harness/base/statistics.h"

namespace mixproof {
namespace {

double as_double(std::int64_t value) { return static_cast<double>(value); }

// The least k in [0, n + 1] from which on `holds` is true; it is true at n + 1.
template <typename Holds>
std::int64_t least_that_holds(std::int64_t n, Holds holds) {
  std::int64_t low = -1, high = n + 1;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (holds(middle) ? high : low) = middle;
  }
  return high;
}

// (z_confidence + z_power) sqrt(2 p (1 - p)) sigma / phi(z_p): ln ratio x root of n.
double quantile_spread(double p, double sigma, double confidence, double power) {
  const double z = normal_quantile(p);
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * M_PI);
  return (normal_quantile(confidence) + normal_quantile(power)) * std::sqrt(2 * p * (1 - p)) *
         sigma / density;
}

}  // namespace

double normal_quantile(double p) {
  CHECK(p > 0 && p < 1);
  return -M_SQRT2 * boost::math::erfc_inv(2 * p);
}

double binomial_at_most(std::int64_t k, std::int64_t n, double p) {
  if (k < 0) return 0;
  if (k >= n || p <= 0) return 1;
  if (p >= 1) return 0;
  return boost::math::ibetac(as_double(k + 1), as_double(n - k), p);
}

std::int64_t tolerated_violations(std::int64_t n, double p, double confidence) {
  if (n <= 0) return -1;
  return least_that_holds(n,
                          [&](std::int64_t v) {
                            return v > n || !(proportion_lower(n - v, n, confidence) >= p);
                          }) -
         1;
}

std::int64_t failing_violations(std::int64_t n, double p, double confidence) {
  if (n <= 0) return 1;
  return least_that_holds(
      n, [&](std::int64_t v) { return v > n || proportion_upper(n - v, n, confidence) < p; });
}

double pass_power(std::int64_t n, double p, double confidence, double truth) {
  return binomial_at_most(tolerated_violations(n, p, confidence), n, 1 - truth);
}

double fail_power(std::int64_t n, double p, double confidence, double truth) {
  return 1 - binomial_at_most(failing_violations(n, p, confidence) - 1, n, 1 - truth);
}

std::int64_t least_n_for_ratio(double p, double ratio, double sigma, double confidence,
                               double power) {
  CHECK(ratio > 0 && ratio != 1);
  return static_cast<std::int64_t>(
      std::ceil(std::pow(quantile_spread(p, sigma, confidence, power) / std::log(ratio), 2)));
}

double detectable_ratio(double p, double n, double sigma, double confidence, double power) {
  CHECK(n > 0);
  return std::exp(quantile_spread(p, sigma, confidence, power) / std::sqrt(n));
}

std::int64_t least_n_for_difference(double a, double b, double confidence, double power) {
  CHECK(a != b);
  const double z = normal_quantile(confidence) + normal_quantile(power);
  return static_cast<std::int64_t>(
      std::ceil(z * z * (a * (1 - a) + b * (1 - b)) / ((a - b) * (a - b))));
}

}  // namespace mixproof
