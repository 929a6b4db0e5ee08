#include "probes/inference/portable_math.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace mixproof::inference {
namespace {

constexpr double kLn2 = 0.693147180559945309417;
// kLn2 in two parts, the first short enough that a multiple of it is exact.
constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;
constexpr std::uint64_t kFraction = (std::uint64_t{1} << 52) - 1;
constexpr std::uint64_t kHalf = std::uint64_t{1022} << 52;  // the exponent of [1/2, 1)
constexpr double kHalfSqrt2 = 0.70710678118654752440;

// Even and odd terms side by side: half the wait for each product.
template <std::size_t n>
double polynomial(const double (&terms)[n], double x) {
  const double square = x * x;
  double even = 0, odd = 0;
  for (std::size_t i = (n + 1) / 2; i-- > 0;) {
    even = even * square + terms[2 * i];
    odd = odd * square + (2 * i + 1 < n ? terms[2 * i + 1] : 0);
  }
  return even + odd * x;
}

// (0, 1]: its logarithm is finite.
double positive_unit(Random& random) { return 1 - random.unit(); }

double gamma_of_one_or_more(double shape, Random& random) {  // mean `shape`
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = unit_normal(random);
    const double root = 1 + c * x;
    const double u = positive_unit(random);
    if (root <= 0) continue;
    const double v = root * root * root;
    if (u < 1 - 0.0331 * (x * x) * (x * x)) return d * v;  // most draws need no logarithm
    if (log_of(u) < 0.5 * x * x + d - d * v + d * log_of(v)) return d * v;
  }
}

}  // namespace

// x = m 2^e with m near 1; log m = 2 atanh((m - 1) / (m + 1)), whose series falls by 0.03 a term.
double log_of(double x) {
  constexpr double kTerms[] = {1.0,      1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11,
                               1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};
  const auto bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1022;
  double m = std::bit_cast<double>((bits & kFraction) | kHalf);  // in [1/2, 1)
  if (m < kHalfSqrt2) {
    m *= 2;
    --exponent;
  }
  const double f = (m - 1) / (m + 1);
  return exponent * kLn2High + (exponent * kLn2Low + 2 * f * polynomial(kTerms, f * f));
}

// x = k log 2 + r with |r| <= 0.35, where 14 terms of the series suffice.
double exp_of(double x) {
  constexpr double kTerms[] = {1.0,
                               1.0,
                               1.0 / 2,
                               1.0 / 6,
                               1.0 / 24,
                               1.0 / 120,
                               1.0 / 720,
                               1.0 / 5040,
                               1.0 / 40320,
                               1.0 / 362880,
                               1.0 / 3628800,
                               1.0 / 39916800,
                               1.0 / 479001600,
                               1.0 / 6227020800,
                               1.0 / 87178291200};
  const double k = std::floor(x * (1 / kLn2) + 0.5);
  const double r = x - k * kLn2High - k * kLn2Low;
  const auto power = static_cast<std::uint64_t>(static_cast<std::int64_t>(k) + 1023) << 52;
  return polynomial(kTerms, r) * std::bit_cast<double>(power);
}

double unit_exponential(Random& random) { return -log_of(positive_unit(random)); }

double unit_normal(Random& random) {
  while (true) {
    const double a = 2 * random.unit() - 1, b = 2 * random.unit() - 1;
    const double s = a * a + b * b;
    if (s < 1 && s > 1e-300) return a * std::sqrt(-2 * log_of(s) / s);
  }
}

double unit_gamma(double shape, Random& random) {
  if (shape >= 1) return gamma_of_one_or_more(shape, random) / shape;
  const double boosted = gamma_of_one_or_more(shape + 1, random);
  const double exponent = log_of(positive_unit(random)) / shape;
  return exponent < -700 ? 0 : boosted * exp_of(exponent) / shape;
}

}  // namespace mixproof::inference
