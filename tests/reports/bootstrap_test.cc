#include "reports/bootstrap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mixproof {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double normal(Random& random) {  // Box and Muller
  return std::sqrt(-2 * std::log(1 - random.unit())) * std::cos(2 * M_PI * random.unit());
}

// Lognormal samples at Poisson times around a median. `shared` of their variance is common to each
// half second: half a block, as the length of a block is chosen.
Segment lognormal(Random& random, double seconds, double rate_per_s, double median, double sigma,
                  double shared) {
  Segment out{seconds, {}};
  constexpr double kSharedS = 0.5;
  double common = normal(random), until = kSharedS;
  for (double at = random.exponential(rate_per_s); at < seconds;
       at += random.exponential(rate_per_s)) {
    for (; at >= until; until += kSharedS) common = normal(random);
    const double z = std::sqrt(shared) * common + std::sqrt(1 - shared) * normal(random);
    out.samples.push_back({at, median * std::exp(sigma * z)});
  }
  return out;
}

Interval quantile_ratio(const Segment& phase, const Segment& reference, double p,
                        std::uint64_t seed) {
  return ratio_interval(resampled_quantiles({&phase, 1}, 1, p, 500, Random(seed, "phase")),
                        resampled_quantiles({&reference, 1}, 1, p, 500, Random(seed, "reference")),
                        0.95);
}

// How often the true ratio lies below the interval and how often above: each is a wrong verdict at
// the limit.
struct Misses {
  double below = 0, above = 0;
};

constexpr int kRuns = 1200;  // 0.06 of them is known to 0.007

Misses misses(double truth, double seconds, double shared, int runs) {
  Misses out;
  for (int run = 0; run < runs; ++run) {
    Random random(static_cast<std::uint64_t>(run), "simulated run");
    const Segment reference = lognormal(random, seconds, 8, 0.01, 0.5, shared);
    const Segment phase = lognormal(random, seconds, 8, 0.01 * truth, 0.5, shared);
    const Interval interval =
        quantile_ratio(phase, reference, 0.5, static_cast<std::uint64_t>(run));
    out.below += truth < interval.low ? 1.0 / runs : 0;
    out.above += truth > interval.high ? 1.0 / runs : 0;
  }
  return out;
}

TEST(Bootstrap, RarelyMissesTheTruthOfIndependentSamples) {
  const Misses rate = misses(1.3, 30, 0, kRuns);
  EXPECT_LE(rate.below, 0.07);
  EXPECT_LE(rate.above, 0.07);
  EXPECT_GT(rate.below + rate.above, 0.04);  // nor is it uselessly wide
}

TEST(Bootstrap, RarelyMissesTheTruthOfSamplesThatShareTheirFate) {
  const Misses rate = misses(1.3, 40, 0.5, kRuns);
  EXPECT_LE(rate.below, 0.07);
  EXPECT_LE(rate.above, 0.07);
}

// What blocks are for: taken one by one, samples that share their fate look more than they are.
TEST(Bootstrap, SamplesTakenOneByOneWouldMissIt) {
  int missed = 0;
  for (int run = 0; run < 200; ++run) {
    Random random(static_cast<std::uint64_t>(run), "simulated run");
    Segment pair[2];
    for (Segment& one : pair) {
      one = lognormal(random, 40, 8, 0.01, 0.5, 0.5);
      for (std::size_t i = one.samples.size(); i > 1;
           --i)  // shuffled in time: the blocks hold strangers
        std::swap(one.samples[i - 1].value, one.samples[random.below(i)].value);
    }
    const Interval interval =
        quantile_ratio(pair[0], pair[1], 0.5, static_cast<std::uint64_t>(run));
    missed += 1 < interval.low || 1 > interval.high ? 1 : 0;
  }
  EXPECT_GT(missed, 30);  // of 200, where 20 are due
}

TEST(Bootstrap, RatesOfSteadyEventsAreKnownWell) {
  Segment fast{30, {}}, slow{30, {}};
  for (double at = -0.03; at < 30; at += 0.1) fast.samples.push_back({at, 0.1});
  for (double at = -0.1; at < 30; at += 0.2) slow.samples.push_back({at, 0.2});
  const auto rates = [](const Segment& one, std::uint64_t seed) {
    return resampled_rates({&one, 1}, 1, 500, Random(seed, "r"));
  };
  const Interval ratio = ratio_interval(rates(slow, 1), rates(fast, 2), 0.95);
  EXPECT_NEAR(ratio.low, 0.5, 1e-6);  // steps across the edges of a block count with their shares
  EXPECT_NEAR(ratio.high, 0.5, 1e-6);
  slow.samples.erase(slow.samples.begin() + 50, slow.samples.begin() + 75);  // 5 s without a step
  const Interval stalled = ratio_interval(rates(slow, 1), rates(fast, 2), 0.95);
  EXPECT_LT(stalled.low, 0.38);
  EXPECT_GT(stalled.high, 0.45);
}

TEST(Bootstrap, IsTheSameInAnyUnitAndTwice) {
  Random random(3, "scale");
  Segment phase = lognormal(random, 25, 8, 0.02, 0.5, 0.3),
          reference = lognormal(random, 25, 8, 0.01, 0.5, 0.3);
  const Interval before = quantile_ratio(phase, reference, 0.9, 5);
  EXPECT_EQ(quantile_ratio(phase, reference, 0.9, 5).low, before.low);
  for (Segment* one : {&phase, &reference})
    for (TimedSample& sample : one->samples) sample.value *= 1024;  // a power of two: no rounding
  const Interval after = quantile_ratio(phase, reference, 0.9, 5);
  EXPECT_EQ(after.low, before.low);
  EXPECT_EQ(after.high, before.high);
  EXPECT_NE(quantile_ratio(phase, reference, 0.9, 6).low, before.low);  // another seed draws others
}

TEST(Bootstrap, PoolsRoundsWithoutBlocksAcrossThem) {
  const Segment rounds[] = {{10.5, {{0.5, 1}, {10.2, 1}}}, {0.7, {{0.1, 9}}}, {9, {{4, 1}}}};
  EXPECT_EQ(whole_blocks(rounds, 1), 19);  // 10 + 0 + 9
  EXPECT_EQ(whole_blocks(rounds, 2), 9);
  for (const double value : resampled_quantiles(rounds, 1, 0.5, 200, Random(1)))
    EXPECT_NE(value, 9);  // no whole block fits there
}

TEST(Bootstrap, MeansAndEmptyBlocks) {
  const Segment sparse{20, {{0.5, 1}, {1.5, 0}}};
  int empty = 0;
  for (const double mean : resampled_means({&sparse, 1}, 1, 500, Random(1))) {
    empty += std::isnan(mean) ? 1 : 0;
    if (!std::isnan(mean)) {
      EXPECT_TRUE(mean >= 0 && mean <= 1);
    }
  }
  EXPECT_GT(empty, 0);
}

TEST(Bootstrap, InfiniteSamplesReachTheUpperEndOnly) {
  Random random(4, "infinite");
  const Segment reference = lognormal(random, 30, 8, 0.01, 0.3, 0);
  Segment phase = reference;
  for (std::size_t i = 0; i < phase.samples.size(); i += 2) phase.samples[i].value = kInfinity;
  const Interval half = quantile_ratio(phase, reference, 0.5, 1);
  EXPECT_TRUE(std::isfinite(half.low));
  EXPECT_EQ(half.high, kInfinity);
  const Interval reversed =
      quantile_ratio(reference, phase, 0.5, 1);  // half of the draws have no ratio
  EXPECT_EQ(reversed.low, 0);
  EXPECT_EQ(reversed.high, kInfinity);
}

TEST(Bootstrap, DifferencesHaveTheirEndsFromBothSides) {
  std::vector<double> figures, ones(100, 1.0);
  for (int i = 1; i <= 100; ++i) figures.push_back(i);
  EXPECT_EQ(difference_interval(figures, ones, 0.95).low, 4);
  EXPECT_EQ(difference_interval(figures, ones, 0.95).high, 95);
  for (std::size_t i = 0; i < 5; ++i) ones[i] = std::nan("");
  EXPECT_EQ(difference_interval(figures, ones, 0.95).low, -kInfinity);
  EXPECT_EQ(difference_interval(figures, ones, 0.95).high, kInfinity);
}

TEST(Bootstrap, EndsAreTheSameCountFromBothSides) {
  std::vector<double> figures, ones(100, 1.0);
  for (int i = 1; i <= 100; ++i) figures.push_back(i);
  EXPECT_EQ(ratio_interval(figures, ones, 0.95).low, 5);
  EXPECT_EQ(ratio_interval(figures, ones, 0.95).high, 96);
  ones[50] = kInfinity;  // one draw without a ratio counts against both ends
  EXPECT_EQ(ratio_interval(figures, ones, 0.95).low, 4);
  EXPECT_EQ(ratio_interval(figures, ones, 0.95).high, 97);
}

}  // namespace
}  // namespace mixproof
