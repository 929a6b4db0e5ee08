#include "harness/base/goodness_of_fit.h"

#include <algorithm>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>
#include <numeric>
#include <vector>

namespace mixproof {
namespace {

constexpr std::int64_t kExactUpTo = 140;
constexpr double kPi = 3.14159265358979323846;

// A square matrix times a power of ten, so that powers of it do not overflow.
struct Scaled {
  std::size_t size;
  std::vector<double> cells;
  int exponent = 0;

  double& at(std::size_t row, std::size_t column) { return cells[row * size + column]; }
  double at(std::size_t row, std::size_t column) const { return cells[row * size + column]; }
};

Scaled product(const Scaled& a, const Scaled& b) {
  Scaled out{a.size, std::vector<double>(a.size * a.size, 0.0), a.exponent + b.exponent};
  for (std::size_t i = 0; i < a.size; ++i)
    for (std::size_t k = 0; k < a.size; ++k)
      for (std::size_t j = 0; j < a.size; ++j) out.at(i, j) += a.at(i, k) * b.at(k, j);
  if (out.at(a.size / 2, a.size / 2) > 1e140) {
    for (double& cell : out.cells) cell *= 1e-140;
    out.exponent += 140;
  }
  return out;
}

Scaled power(const Scaled& base, std::int64_t n) {
  if (n == 1) return base;
  const Scaled half = power(base, n / 2);
  const Scaled even = product(half, half);
  return n % 2 == 0 ? even : product(base, even);
}

// P(D_n < d): with k = ceil(n d), an element of the n-th power of a matrix of 2k - 1 rows.
double exact_cdf(double d, std::int64_t n) {
  const auto count = static_cast<double>(n);
  const auto k = static_cast<std::size_t>(count * d) + 1;
  const std::size_t m = 2 * k - 1;
  const double h = static_cast<double>(k) - count * d;
  Scaled matrix{m, std::vector<double>(m * m, 0.0)};
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < m; ++j) matrix.at(i, j) = i + 1 < j ? 0 : 1;
  for (std::size_t i = 0; i < m; ++i) {
    matrix.at(i, 0) -= std::pow(h, static_cast<double>(i + 1));
    matrix.at(m - 1, i) -= std::pow(h, static_cast<double>(m - i));
  }
  if (2 * h > 1) matrix.at(m - 1, 0) += std::pow(2 * h - 1, static_cast<double>(m));
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j <= std::min(i, m - 1); ++j)
      for (std::size_t g = 2; g <= i - j + 1; ++g) matrix.at(i, j) /= static_cast<double>(g);
  const Scaled raised = power(matrix, n);
  double value = raised.at(k - 1, k - 1);
  int exponent = raised.exponent;
  for (std::int64_t i = 1; i <= n; ++i) {
    value *= static_cast<double>(i) / count;
    if (value < 1e-140) {
      value *= 1e140;
      exponent -= 140;
    }
  }
  return value * std::pow(10.0, exponent);
}

// 1 - K(x) of Kolmogorov's limit, by the series that converges faster.
double limit_tail(double x) {
  double sum = 0;
  if (x < 1) {
    for (int k = 1; k <= 9; k += 2) sum += std::exp(-k * k * kPi * kPi / (8 * x * x));
    return 1 - std::sqrt(2 * kPi) / x * sum;
  }
  for (int k = 1; k <= 6; ++k) sum += (k % 2 == 1 ? 2 : -2) * std::exp(-2.0 * k * k * x * x);
  return sum;
}

}  // namespace

double ks_distance(std::span<const double> sorted_cdf) {
  return ks_distance_at_least(sorted_cdf, sorted_cdf);
}

double ks_distance_at_least(std::span<const double> sorted_low,
                            std::span<const double> sorted_high) {
  const auto n = static_cast<double>(sorted_low.size());
  double distance = 0;
  for (std::size_t i = 0; i < sorted_low.size(); ++i) {
    const auto rank = static_cast<double>(i);
    distance = std::max({distance, (rank + 1) / n - sorted_high[i], sorted_low[i] - rank / n});
  }
  return distance;
}

double ks_distance_of_two(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) return a.empty() == b.empty() ? 0 : 1;
  double distance = 0;
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    const double x = std::min(a[i], b[j]);
    while (i < a.size() && a[i] <= x) ++i;
    while (j < b.size() && b[j] <= x) ++j;
    distance =
        std::max(distance, std::fabs(static_cast<double>(i) / static_cast<double>(a.size()) -
                                     static_cast<double>(j) / static_cast<double>(b.size())));
  }
  return distance;
}

double kolmogorov_p(double distance, std::int64_t n) {
  if (n < 1 || distance <= 0) return 1;
  if (distance >= 1) return 0;
  if (n <= kExactUpTo) return std::clamp(1 - exact_cdf(distance, n), 0.0, 1.0);
  const auto count = static_cast<double>(n);
  const double x = distance * std::sqrt(count);
  return std::clamp(limit_tail(x + 1 / (6 * std::sqrt(count)) + (x - 1) / (4 * count)), 0.0, 1.0);
}

std::optional<Dispersion> dispersion_of(std::span<const std::int64_t> counts) {
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), 0LL));
  if (counts.size() < 2 || !(total > 0)) return std::nullopt;
  const double mean = total / static_cast<double>(counts.size());
  const auto freedom = static_cast<double>(counts.size() - 1);
  double sum = 0;
  for (const std::int64_t count : counts)
    sum += (static_cast<double>(count) - mean) * (static_cast<double>(count) - mean) / mean;
  const double below = gamma_cdf(sum, freedom / 2, 2), above = gamma_tail(sum, freedom / 2, 2);
  return Dispersion{sum / freedom, std::min(1.0, 2 * std::min(below, above))};
}

double gamma_cdf(double x, double shape, double scale) {
  return x <= 0 ? 0 : boost::math::gamma_p(shape, x / scale);
}

double gamma_tail(double x, double shape, double scale) {
  return x <= 0 ? 1 : boost::math::gamma_q(shape, x / scale);
}

}  // namespace mixproof
