#include "probes/inference/portable_math.h"

#include <cmath>

namespace mixproof::inference {
namespace {

constexpr double kLn2 = 0.693147180559945309417;
// kLn2 in two parts, the first short enough that a multiple of it is exact.
constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kHalfSqrt2 = 0.70710678118654752440;

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
    if (log_of(u) < 0.5 * x * x + d - d * v + d * log_of(v)) return d * v;
  }
}

}  // namespace

// x = m 2^e with m near 1; log m = 2 atanh((m - 1) / (m + 1)), whose series falls by 0.03 a term.
double log_of(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < kHalfSqrt2) {
    m *= 2;
    --exponent;
  }
  const double f = (m - 1) / (m + 1), square = f * f;
  double sum = 0;
  for (int k = 11; k >= 0; --k) sum = sum * square + 1.0 / (2 * k + 1);
  return exponent * kLn2High + (exponent * kLn2Low + 2 * f * sum);
}

// x = k log 2 + r with |r| <= 0.35, where 14 terms of the series suffice.
double exp_of(double x) {
  const double k = std::floor(x / kLn2 + 0.5);
  const double r = x - k * kLn2High - k * kLn2Low;
  double sum = 1;
  for (int n = 14; n >= 1; --n) sum = 1 + sum * r / n;
  return std::ldexp(sum, static_cast<int>(k));
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
