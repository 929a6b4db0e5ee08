#include "harness/base/power.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "harness/base/random.h"
#include "harness/base/statistics.h"
#include "tests/fake/paths.h"

namespace mixproof {
namespace {

// n p confidence truth tolerated failing P(pass) P(fail)
TEST(Power, OfTheExactTestAgreesWithScipy) {
  std::ifstream in(std::string(kSourceDir) + "/tests/base/scipy_power.txt");
  std::string line;
  int rows = 0;
  while (std::getline(in, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    long long n = 0, tolerated = 0, failing = 0;
    double p = 0, confidence = 0, truth = 0, pass = 0, fail = 0;
    ASSERT_TRUE(words >> n >> p >> confidence >> truth >> tolerated >> failing >> pass >> fail);
    EXPECT_EQ(tolerated_violations(n, p, confidence), tolerated) << line;
    EXPECT_EQ(failing_violations(n, p, confidence), failing) << line;
    EXPECT_NEAR(pass_power(n, p, confidence, truth), pass, 1e-10) << line;
    EXPECT_NEAR(fail_power(n, p, confidence, truth), fail, 1e-10) << line;
    ++rows;
  }
  EXPECT_GT(rows, 50);
}

// p, ranks of the 95 % interval of a quantile of n samples
TEST(Power, RanksOfQuantileIntervalsAgreeWithScipy) {
  std::ifstream in(std::string(kSourceDir) + "/tests/base/scipy_ranks.txt");
  std::string line;
  int rows = 0;
  while (std::getline(in, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    long long n = 0, low = 0, high = 0;
    double p = 0;
    ASSERT_TRUE(words >> n >> p >> low >> high);
    std::vector<double> ranks;
    for (long long i = 1; i <= n; ++i) ranks.push_back(static_cast<double>(i));
    const auto interval = quantile_interval(ranks, p);
    EXPECT_EQ(interval ? static_cast<long long>(interval->low) : 0, low) << line;
    EXPECT_EQ(interval ? static_cast<long long>(interval->high) : 0, high) << line;
    ++rows;
  }
  EXPECT_GT(rows, 30);
}

// The known table has z rounded to three digits: it is one above for the first of each.
TEST(Power, SamplesForRatiosAgreeWithTheKnownTable) {
  EXPECT_NEAR(static_cast<double>(least_n_for_ratio(0.99, 1.1, 0.5, 0.95, 0.8)), 4744, 1);
  EXPECT_EQ(least_n_for_ratio(0.99, 1.2, 0.5, 0.95, 0.8), 1297);
  EXPECT_EQ(least_n_for_ratio(0.99, 1.5, 0.5, 0.95, 0.8), 263);
  EXPECT_NEAR(detectable_ratio(0.99, 1297, 0.5, 0.95, 0.8), 1.2, 1e-3);
  EXPECT_LT(least_n_for_ratio(0.5, 1.1, 0.5, 0.95, 0.8), 1000);  // a median needs far fewer
}

TEST(Power, TrialsForDifferencesAgreeWithTheKnownTable) {
  EXPECT_NEAR(static_cast<double>(least_n_for_difference(0.99, 0.98, 0.95, 0.8)), 1825, 1);
  EXPECT_EQ(least_n_for_difference(0.99, 0.97, 0.95, 0.8), 603);
  EXPECT_EQ(least_n_for_difference(0.99, 0.95, 0.95, 0.8), 222);
}

// As many trials as tell two phases apart are plenty for one phase against a limit of 0.99: of
// twice, three times and five times the violations that it allows.
TEST(Power, TheExactTestRefutesTwiceTheAllowedViolations) {
  struct Row {
    std::int64_t n;
    double truth;
  };
  for (const Row& row : {Row{1825, 0.98}, {603, 0.97}, {222, 0.95}}) {
    EXPECT_GT(fail_power(row.n, 0.99, 0.95, row.truth), 0.8) << row.n;
    EXPECT_LT(fail_power(row.n, 0.99, 0.95, 0.99), 0.05) << row.n;
    EXPECT_LT(fail_power(row.n / 8, 0.99, 0.95, row.truth), 0.8) << row.n;
    int failed = 0;
    for (int run = 0; run < 1000; ++run) {
      Random random(static_cast<std::uint64_t>(run), "power");
      std::int64_t good = 0;
      for (std::int64_t i = 0; i < row.n; ++i) good += random.unit() < row.truth ? 1 : 0;
      failed += proportion_upper(good, row.n, 0.95) < 0.99 ? 1 : 0;
    }
    EXPECT_NEAR(failed / 1000.0, fail_power(row.n, 0.99, 0.95, row.truth), 0.05) << row.n;
  }
}

TEST(Power, ToleratedViolationsAreThoseOfLeastN) {
  EXPECT_EQ(tolerated_violations(58, 0.95, 0.95), -1);
  EXPECT_EQ(tolerated_violations(59, 0.95, 0.95), 0);
  EXPECT_EQ(tolerated_violations(93, 0.95, 0.95), 1);
  EXPECT_EQ(tolerated_violations(0, 0.95, 0.95), -1);
  EXPECT_EQ(failing_violations(1, 0.95, 0.95), 2);  // one of one may be chance: P = 0.05
  EXPECT_EQ(pass_power(58, 0.95, 0.95, 1), 0);
  EXPECT_EQ(pass_power(59, 0.95, 0.95, 1), 1);
}

}  // namespace
}  // namespace mixproof
