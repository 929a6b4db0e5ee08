#include "harness/base/dependence.h"

#include <algorithm>
#include <cmath>

namespace mixproof {
namespace {

// Products that should be whole come out a hair beside it.
constexpr double kHair = 1e-9;

double as_double(std::int64_t value) { return static_cast<double>(value); }

}  // namespace

Dependence dependence_of(std::span<const BlockCount> blocks) {
  Dependence out;
  double squares = 0;
  for (const BlockCount& block : blocks) {
    if (block.n == 0) continue;
    ++out.blocks;
    out.n += block.n;
    out.violations += block.violations;
    squares += as_double(block.n) * as_double(block.n);
  }
  if (out.n == 0) return out;
  const double n = as_double(out.n), p = as_double(out.violations) / n;
  out.effective_blocks = n * n / squares;
  double deviation = 0;
  for (const BlockCount& block : blocks)
    deviation += std::pow(as_double(block.violations) - as_double(block.n) * p, 2);
  const double expected = n * p * (1 - p) / out.blocks;
  if (out.blocks > 1 && expected > 0)
    out.variance_inflation = std::max(1.0, deviation / (out.blocks - 1) / expected);
  return out;
}

EffectiveCounts effective_counts(const Dependence& dependence) {
  EffectiveCounts out;
  if (dependence.n == 0) return out;
  const double n = as_double(dependence.n);
  const double worth = std::min(n / dependence.variance_inflation, dependence.effective_blocks);
  out.n = static_cast<std::int64_t>(std::floor(worth + kHair));
  const double violations = as_double(dependence.violations) * as_double(out.n) / n;
  out.violations_up = std::min(out.n, static_cast<std::int64_t>(std::ceil(violations - kHair)));
  out.violations_down = static_cast<std::int64_t>(std::floor(violations + kHair));
  return out;
}

Interval effective_bounds(const EffectiveCounts& counts, double confidence) {
  if (counts.n == 0) return {0, 1};
  return {proportion_lower(counts.n - counts.violations_up, counts.n, confidence),
          proportion_upper(counts.n - counts.violations_down, counts.n, confidence)};
}

}  // namespace mixproof
