#include "harness/base/statistics.h"

#include <algorithm>
#include <boost/math/special_functions/beta.hpp>
#include <cmath>

#include "harness/base/check.h"

namespace mixproof {
namespace {

double as_double(std::int64_t value) { return static_cast<double>(value); }

// P(B <= k) of a binomial (n, p), by the incomplete beta function.
double binomial_cdf(std::int64_t k, std::int64_t n, double p) {
  if (k < 0) return 0;
  if (k >= n) return 1;
  return boost::math::ibeta(as_double(n - k), as_double(k + 1), 1 - p);
}

// ceil(p n), safe against p n coming out a hair above a whole number (0.95 x 20
// = 19.000000000000004).
std::int64_t rank_of(double p, std::int64_t n) {
  const double exact = p * as_double(n);
  const auto rank = static_cast<std::int64_t>(std::ceil(exact - 1e-9));
  return std::clamp<std::int64_t>(rank, 1, n);
}

}  // namespace

double proportion_lower(std::int64_t good, std::int64_t n, double confidence) {
  CHECK(good >= 0 && good <= n && confidence > 0 && confidence < 1);
  if (good == 0) return 0;
  return boost::math::ibeta_inv(as_double(good), as_double(n - good + 1), 1 - confidence);
}

double proportion_upper(std::int64_t good, std::int64_t n, double confidence) {
  CHECK(good >= 0 && good <= n && confidence > 0 && confidence < 1);
  if (good == n) return 1;
  return boost::math::ibeta_inv(as_double(good + 1), as_double(n - good), confidence);
}

std::int64_t least_n(double p, double confidence, std::int64_t violations) {
  CHECK(p > 0 && p < 1 && violations >= 0);
  const auto proves = [&](std::int64_t n) {
    return proportion_lower(n - violations, n, confidence) >= p;
  };
  std::int64_t high = violations + 1;
  while (!proves(high)) high *= 2;
  std::int64_t low = violations;  // never proves: nothing good
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (proves(middle) ? high : low) = middle;
  }
  return high;
}

std::int64_t clean_trials_needed(std::int64_t good, std::int64_t n, double p, double confidence) {
  return std::max<std::int64_t>(0, least_n(p, confidence, n - good) - n);
}

std::optional<double> nearest_rank(std::span<const double> sorted, double p) {
  if (sorted.empty()) return std::nullopt;
  CHECK(p > 0 && p <= 1);
  return sorted[static_cast<std::size_t>(rank_of(p, std::ssize(sorted)) - 1)];
}

std::optional<Interval> quantile_interval(std::span<const double> sorted, double p) {
  constexpr double kTail = 0.025;
  const auto n = static_cast<std::int64_t>(sorted.size());
  if (n == 0 || p <= 0 || p >= 1) return std::nullopt;
  const std::int64_t centre = rank_of(p, n);
  std::int64_t low = centre, high = centre;  // ranks, 1-based
  while (low >= 1 && binomial_cdf(low - 1, n, p) > kTail) --low;
  while (high <= n && binomial_cdf(high - 1, n, p) < 1 - kTail) ++high;
  if (low < 1 || high > n) return std::nullopt;
  return Interval{sorted[static_cast<std::size_t>(low - 1)],
                  sorted[static_cast<std::size_t>(high - 1)]};
}

Interval difference_bounds(double a, const Interval& bounds_of_a, double b,
                           const Interval& bounds_of_b) {
  return {a - b - std::hypot(a - bounds_of_a.low, bounds_of_b.high - b),
          a - b + std::hypot(bounds_of_a.high - a, b - bounds_of_b.low)};
}

std::int64_t least_samples(double p) {
  std::vector<double> samples(1, 0.0);
  while (!quantile_interval(samples, p)) samples.push_back(0.0);
  return std::ssize(samples);
}

double median_of(std::vector<double> samples) {
  CHECK(!samples.empty());
  std::sort(samples.begin(), samples.end());
  return *nearest_rank(samples, 0.5);
}

}  // namespace mixproof
