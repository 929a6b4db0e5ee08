// Verdict error rates, simulated at the limit exactly: wrong either way, at 99 % confidence.
#include "harness/base/dependence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "harness/base/power.h"
#include "harness/base/random.h"

namespace mixproof {
namespace {

constexpr int kRuns = 4000;
constexpr double kConfidence = 0.99;

double normal(Random& random) {  // Box and Muller
  return std::sqrt(-2 * std::log(1 - random.unit())) * std::cos(2 * M_PI * random.unit());
}

// Marsaglia and Tsang (2000); shapes below 1 by their power of a uniform number.
double gamma(Random& random, double shape) {
  if (shape < 1) return gamma(random, shape + 1) * std::pow(1 - random.unit(), 1 / shape);
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal(random), v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(1 - random.unit()) < x * x / 2 + d - d * v + d * std::log(v))
      return d * v;
  }
}

enum class Fate { kIndependent, kWholeBlocks, kBeta };

// The chance of a violation in one block; its mean is 1 - p.
double block_rate(Random& random, Fate fate, double p) {
  if (fate == Fate::kIndependent) return 1 - p;
  if (fate == Fate::kWholeBlocks) return random.unit() < 1 - p ? 1 : 0;
  constexpr double kRho = 0.3, kTotal = (1 - kRho) / kRho;  // correlation within a block
  const double bad = gamma(random, (1 - p) * kTotal), good = gamma(random, p * kTotal);
  return bad + good > 0 ? bad / (bad + good) : 0;
}

struct Scene {
  Fate fate;
  int blocks;
  double p;
  bool unequal = false;
};

std::vector<BlockCount> run_of(Random& random, const Scene& scene) {
  constexpr std::int64_t kSizes[] = {2, 6, 10};  // a square wave of load: 1 to 3 to 5
  std::vector<BlockCount> out;
  for (int i = 0; i < scene.blocks; ++i) {
    BlockCount block{scene.unequal ? kSizes[i % 3] : 6, 0};
    const double rate = block_rate(random, scene.fate, scene.p);
    for (std::int64_t k = 0; k < block.n; ++k) block.violations += random.unit() < rate ? 1 : 0;
    out.push_back(block);
  }
  return out;
}

struct Rates {
  double proved = 0, refuted = 0;
};

template <typename BoundsOf>
Rates wrong_ways(const Scene& scene, BoundsOf bounds_of) {
  Rates out;
  for (int run = 0; run < kRuns; ++run) {
    Random random(static_cast<std::uint64_t>(run), "dependence");
    const Interval bounds = bounds_of(dependence_of(run_of(random, scene)));
    out.proved += bounds.low >= scene.p ? 1.0 / kRuns : 0;
    out.refuted += bounds.high < scene.p ? 1.0 / kRuns : 0;
  }
  return out;
}

Interval by_requests(const Dependence& seen) {
  return {proportion_lower(seen.n - seen.violations, seen.n, kConfidence),
          proportion_upper(seen.n - seen.violations, seen.n, kConfidence)};
}

Interval by_blocks(const Dependence& seen) {
  return effective_bounds(effective_counts(seen), kConfidence);
}

std::string words(const Scene& scene, const Rates& rates) {
  char out[160];
  std::snprintf(out, sizeof out, "fate %d, %d blocks%s, p %.2f: proved %.4f, refuted %.4f",
                static_cast<int>(scene.fate), scene.blocks, scene.unequal ? " (unequal)" : "",
                scene.p, rates.proved, rates.refuted);
  return out;
}

void expect_rarely_wrong(const Scene& scene) {
  const Rates rates = wrong_ways(scene, by_blocks);
  const std::string text = words(scene, rates);
  EXPECT_LE(rates.proved, 0.01) << text;
  EXPECT_LE(rates.refuted, 0.01) << text;
}

TEST(VerdictErrors, RequestsAreRarelyWrongWhereRequestsAreIndependent) {
  for (const int blocks : {25, 60, 300}) {
    const Scene scene{Fate::kIndependent, blocks, 0.95};
    const Rates rates = wrong_ways(scene, by_requests);
    const std::string text = words(scene, rates);
    EXPECT_LE(rates.proved, 0.01) << text;
    EXPECT_LE(rates.refuted, 0.01) << text;
    // The exact rates, without any simulation.
    const std::int64_t n = blocks * 6;
    EXPECT_LE(pass_power(n, scene.p, kConfidence, scene.p), 0.01);
    EXPECT_LE(fail_power(n, scene.p, kConfidence, scene.p), 0.01);
    EXPECT_NEAR(pass_power(n, scene.p, kConfidence, scene.p), rates.proved, 0.005);
  }
}

TEST(VerdictErrors, BlocksAreRarelyWrongWhereWholeBlocksFail) {
  for (const double p : {0.95, 0.8})
    for (const int blocks : {25, 60, 300})
      for (const bool unequal : {false, true})
        expect_rarely_wrong({Fate::kWholeBlocks, blocks, p, unequal});
}

TEST(VerdictErrors, BlocksAreRarelyWrongWhereBlocksHaveRatesOfTheirOwn) {
  for (const double p : {0.95, 0.8})
    for (const int blocks : {25, 60, 300})
      for (const bool unequal : {false, true})
        expect_rarely_wrong({Fate::kBeta, blocks, p, unequal});
}

// What each part of the method is for.
TEST(VerdictErrors, RequestsTakenAsIndependentPassFarTooOftenWhereBlocksFail) {
  EXPECT_GT(wrong_ways({Fate::kWholeBlocks, 25, 0.95}, by_requests).proved, 0.2);
}

TEST(VerdictErrors, TheVarianceInflationAloneIsNotEnough) {
  const auto inflation_only = [](Dependence seen) {
    seen.effective_blocks = HUGE_VAL;
    return by_blocks(seen);
  };
  EXPECT_GT(wrong_ways({Fate::kWholeBlocks, 25, 0.95}, inflation_only).proved, 0.2);
  EXPECT_GT(wrong_ways({Fate::kBeta, 25, 0.95}, inflation_only).proved, 0.03);
}

// A method that never decides is never wrong either.
TEST(VerdictErrors, BlocksOfUnequalSizeAreWorthLessThanTheirNumber) {
  const auto by_number = [](Dependence seen) {
    seen.effective_blocks = seen.blocks;
    seen.variance_inflation = 1;
    return by_blocks(seen);
  };
  const Scene scene{Fate::kWholeBlocks, 300, 0.8, true};
  EXPECT_GT(wrong_ways(scene, by_number).proved, 0.01);
}

TEST(VerdictErrors, BlocksDecideWhereTheAnswerIsClear) {
  const auto decided = [](double truth, double limit) {
    Rates out;
    for (int run = 0; run < 500; ++run) {
      Random random(static_cast<std::uint64_t>(run), "clear");
      const Interval bounds =
          by_blocks(dependence_of(run_of(random, {Fate::kWholeBlocks, 300, truth})));
      out.proved += bounds.low >= limit ? 1.0 / 500 : 0;
      out.refuted += bounds.high < limit ? 1.0 / 500 : 0;
    }
    return out;
  };
  EXPECT_GT(decided(0.99, 0.95).proved, 0.8);
  EXPECT_GT(decided(0.90, 0.95).refuted, 0.6);
}

// Two phases with the same attainment: neither is shown to be the better one.
TEST(VerdictErrors, DifferencesAreRarelyWrongWhereWholeBlocksFail) {
  for (const double p : {0.99, 0.9, 0.6}) {
    double above = 0, below = 0;
    for (int run = 0; run < kRuns; ++run) {
      Random random(static_cast<std::uint64_t>(run), "difference");
      double shares[2];
      Interval bounds[2];
      for (int side = 0; side < 2; ++side) {
        const Dependence seen = dependence_of(run_of(random, {Fate::kWholeBlocks, 60, p}));
        shares[side] = 1 - static_cast<double>(seen.violations) / static_cast<double>(seen.n);
        bounds[side] = effective_bounds(effective_counts(seen), 0.95);
      }
      const Interval interval = difference_bounds(shares[0], bounds[0], shares[1], bounds[1]);
      above += interval.low > 0 ? 1.0 / kRuns : 0;
      below += interval.high < 0 ? 1.0 / kRuns : 0;
    }
    EXPECT_LE(above, 0.05) << p;
    EXPECT_LE(below, 0.05) << p;
  }
}

TEST(Dependence, CountsWhatBlocksAreWorth) {
  // Ten blocks of four, two of them failed wholly: p = 0.2, each block deviates by its whole.
  std::vector<BlockCount> blocks(10, BlockCount{4, 0});
  blocks[3].violations = blocks[7].violations = 4;
  const Dependence seen = dependence_of(blocks);
  EXPECT_EQ(seen.blocks, 10);
  EXPECT_DOUBLE_EQ(seen.effective_blocks, 10);
  // (2 x 3.2^2 + 8 x 0.8^2) / 9 over 40 x 0.2 x 0.8 / 10
  EXPECT_NEAR(seen.variance_inflation, 25.6 / 9 / 0.64, 1e-12);
  const EffectiveCounts counts = effective_counts(seen);
  EXPECT_EQ(counts.n, 9);              // 40 / 4.44
  EXPECT_EQ(counts.violations_up, 2);  // 1.8
  EXPECT_EQ(counts.violations_down, 1);
}

TEST(Dependence, OneViolationStaysOneWhenItProves) {
  std::vector<BlockCount> blocks(30, BlockCount{100, 0});
  blocks[0].violations = 1;
  const EffectiveCounts counts = effective_counts(dependence_of(blocks));
  EXPECT_EQ(counts.n, 30);
  EXPECT_EQ(counts.violations_up, 1);
  EXPECT_EQ(counts.violations_down, 0);
  EXPECT_LT(effective_bounds(counts, 0.99).low, 0.9);
  EXPECT_EQ(effective_bounds(counts, 0.99).high, 1);
}

TEST(Dependence, BlocksWithoutRequestsAndNoneAtAll) {
  EXPECT_EQ(dependence_of(std::vector<BlockCount>{{0, 0}, {5, 1}}).blocks, 1);
  const Dependence none = dependence_of({});
  EXPECT_EQ(effective_counts(none).n, 0);
  EXPECT_EQ(effective_bounds(effective_counts(none), 0.95).low, 0);
  EXPECT_EQ(effective_bounds(effective_counts(none), 0.95).high, 1);
}

}  // namespace
}  // namespace mixproof
