#include "harness/base/goodness_of_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/base/random.h"
#include "tests/base/goodness_of_fit_table.h"

namespace mixproof {
namespace {

TEST(GoodnessOfFit, KolmogorovsDistributionIsThatOfScipy) {
  for (const auto& row : reference::kKolmogorov) {
    const double allowed = row.n <= 140 ? 1e-10 : 2e-4;
    EXPECT_NEAR(kolmogorov_p(row.d, row.n), row.p, allowed) << "n " << row.n << " d " << row.d;
  }
  EXPECT_EQ(kolmogorov_p(0, 10), 1);
  EXPECT_EQ(kolmogorov_p(1, 10), 0);
}

TEST(GoodnessOfFit, DispersionIsThatOfScipy) {
  for (const auto& row : reference::kDispersion) {
    const std::vector<std::int64_t> counts(std::begin(row.counts), std::end(row.counts));
    const auto found = dispersion_of(counts);
    ASSERT_TRUE(found);
    EXPECT_NEAR(found->index, row.index, 1e-12);
    EXPECT_NEAR(found->p, row.p, 1e-12 + 1e-9 * row.p);
  }
  EXPECT_FALSE(dispersion_of(std::vector<std::int64_t>{7}));
  EXPECT_FALSE(dispersion_of(std::vector<std::int64_t>{0, 0, 0}));
}

TEST(GoodnessOfFit, GammaIsThatOfScipy) {
  for (const auto& row : reference::kGamma) {
    EXPECT_NEAR(gamma_cdf(row.x, row.shape, row.scale), row.cdf, 1e-12);
    EXPECT_NEAR(gamma_tail(row.x, row.shape, row.scale), 1 - row.cdf, 1e-12);
  }
  EXPECT_EQ(gamma_cdf(-1, 2, 1), 0);
  EXPECT_EQ(gamma_tail(0, 2, 1), 1);
}

TEST(GoodnessOfFit, DistancesAreThoseByHand) {
  EXPECT_NEAR(ks_distance(std::vector<double>{0.5}), 0.5, 1e-15);
  EXPECT_NEAR(ks_distance(std::vector<double>{0.25, 0.75}), 0.25, 1e-15);
  EXPECT_NEAR(ks_distance(std::vector<double>{0.9, 0.95}), 0.9, 1e-15);
  // Samples that may lie anywhere near the middle of their ranks do not contradict F.
  EXPECT_NEAR(ks_distance_at_least(std::vector<double>{0.0, 0.4}, std::vector<double>{0.6, 1.0}),
              0.0, 1e-15);
  EXPECT_NEAR(ks_distance_of_two(std::vector<double>{1, 2, 3}, std::vector<double>{1, 2, 3}), 0,
              1e-15);
  EXPECT_NEAR(ks_distance_of_two(std::vector<double>{1, 2}, std::vector<double>{3, 4}), 1, 1e-15);
  EXPECT_NEAR(ks_distance_of_two(std::vector<double>{1, 1, 2, 2}, std::vector<double>{1, 2, 2, 2}),
              0.25, 1e-15);
}

TEST(GoodnessOfFit, TheTestsRejectTheTruthAsOftenAsTheySay) {
  int by_distance = 0, by_dispersion = 0;
  constexpr int kRuns = 2000, kSamples = 60;
  for (int run = 0; run < kRuns; ++run) {
    Random random(static_cast<std::uint64_t>(run), "uniform");
    std::vector<double> samples;
    std::vector<std::int64_t> counts(12, 0);
    for (int i = 0; i < kSamples; ++i) {
      samples.push_back(random.unit());
      ++counts[static_cast<std::size_t>(samples.back() * 12)];
    }
    std::sort(samples.begin(), samples.end());
    by_distance += kolmogorov_p(ks_distance(samples), kSamples) < 0.05 ? 1 : 0;
    by_dispersion += dispersion_of(counts)->p < 0.05 ? 1 : 0;
  }
  // 100 of 2000, give or take 10: four deviations.
  EXPECT_NEAR(by_distance, 100, 40);
  EXPECT_NEAR(by_dispersion, 100, 40);
}

}  // namespace
}  // namespace mixproof
