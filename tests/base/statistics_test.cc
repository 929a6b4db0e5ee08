#include "harness/base/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "tests/fake/paths.h"

namespace mixproof {
namespace {

TEST(Statistics, BoundsAgreeWithScipy) {
  std::ifstream in(std::string(kSourceDir) + "/tests/base/clopper_pearson.txt");
  std::string line;
  int rows = 0;
  while (std::getline(in, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    long long good = 0, n = 0;
    double confidence = 0, lower = 0, upper = 0;
    ASSERT_TRUE(words >> good >> n >> confidence >> lower >> upper) << line;
    EXPECT_NEAR(proportion_lower(good, n, confidence), lower, 1e-10) << line;
    EXPECT_NEAR(proportion_upper(good, n, confidence), upper, 1e-10) << line;
    ++rows;
  }
  EXPECT_GT(rows, 150);
}

// The least n that prove attainment p at confidence c in spite of 0, 1, 2, 5 and 10 violations; the
// first of p = 0.99, c = 0.99 with one violation is MLPerf LoadGen's own minimum of 662 queries.
TEST(Statistics, LeastNAgreesWithTheKnownTable) {
  struct Row {
    double p, confidence;
    std::int64_t n[5];
  };
  constexpr Row kRows[] = {{0.90, 0.95, {29, 46, 61, 103, 167}},
                           {0.90, 0.99, {44, 64, 81, 127, 197}},
                           {0.95, 0.95, {59, 93, 124, 208, 336}},
                           {0.95, 0.99, {90, 130, 165, 259, 398}},
                           {0.99, 0.95, {299, 473, 628, 1049, 1693}},
                           {0.99, 0.99, {459, 662, 838, 1307, 2010}},
                           {0.999, 0.95, {2995, 4742, 6294, 10511, 16959}},
                           {0.999, 0.99, {4603, 6636, 8403, 13105, 20140}}};
  constexpr std::int64_t kViolations[] = {0, 1, 2, 5, 10};
  for (const Row& row : kRows)
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(least_n(row.p, row.confidence, kViolations[i]), row.n[i])
          << row.p << " " << row.confidence;
}

TEST(Statistics, CleanTrialsMakeUpForViolations) {
  EXPECT_EQ(clean_trials_needed(40, 40, 0.95, 0.95), 19);
  EXPECT_EQ(clean_trials_needed(59, 59, 0.95, 0.95), 0);
  EXPECT_EQ(clean_trials_needed(98, 100, 0.95, 0.95), 24);
}

TEST(Statistics, NearestRankInterpolatesNothing) {
  const std::vector<double> samples = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  EXPECT_EQ(nearest_rank(samples, 0.5), 5);
  EXPECT_EQ(nearest_rank(samples, 0.51), 6);
  EXPECT_EQ(nearest_rank(samples, 0.9), 9);
  EXPECT_EQ(nearest_rank(samples, 1), 10);
  EXPECT_EQ(nearest_rank({}, 0.5), std::nullopt);
  std::vector<double> twenty(20, 1.0);
  twenty.back() = 2;
  EXPECT_EQ(nearest_rank(twenty, 0.95), 1);  // ceil(19.000000000000004) would be 20
}

TEST(Statistics, InfiniteSamplesStayInfinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<double> samples = {1, 2, 3, kInfinity};
  EXPECT_EQ(nearest_rank(samples, 0.75), 3);
  EXPECT_EQ(nearest_rank(samples, 0.76), kInfinity);
}

TEST(Statistics, QuantileIntervalsExistFromTheKnownSizes) {
  struct Row {
    double p;
    std::size_t least;
  };
  for (const Row& row :
       {Row{0.5, 6}, Row{0.9, 36}, Row{0.95, 72}, Row{0.99, 368}, Row{0.999, 3688}}) {
    EXPECT_TRUE(quantile_interval(std::vector<double>(row.least, 1.0), row.p)) << row.p;
    EXPECT_FALSE(quantile_interval(std::vector<double>(row.least - 1, 1.0), row.p)) << row.p;
  }
  EXPECT_FALSE(quantile_interval(std::vector<double>(100, 1.0), 1));
}

TEST(Statistics, QuantileIntervalHoldsTheQuantile) {
  std::vector<double> samples;
  for (int i = 1; i <= 100; ++i) samples.push_back(i);
  const auto interval = quantile_interval(samples, 0.5);
  ASSERT_TRUE(interval);
  EXPECT_EQ(interval->low, 40);   // binomial(100, 0.5): P(B <= 39) = 0.0176, P(B <= 40) = 0.0284
  EXPECT_EQ(interval->high, 61);  // P(B <= 60) = 0.9824
}

}  // namespace
}  // namespace mixproof
