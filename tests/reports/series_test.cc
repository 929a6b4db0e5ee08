#include "reports/series.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mixproof {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<RequestPoint> many(int n) {
  std::vector<RequestPoint> out;
  for (int i = 0; i < n; ++i) out.push_back({i * 0.05, 0.02 + 0.01 * (i % 97) / 97, true});
  return out;
}

TEST(Series, FewPointsStayAsTheyAre) {
  EXPECT_EQ(thinned(many(500), 500).size(), 500u);
  EXPECT_TRUE(thinned({}, 10).empty());
}

TEST(Series, ThinnedPointsStandForAllAndHideNoViolation) {
  std::vector<RequestPoint> points = many(100'000);
  points[50'000].good = points[70'000].good = false;  // among good ones of the same latency
  points[90'000] = {points[90'000].at_s, kInfinity, false};
  const std::vector<RequestPoint> few = thinned(points, 3000);
  EXPECT_LE(few.size(), 3000u);
  std::int64_t all = 0, bad = 0, unanswered = 0;
  for (const RequestPoint& point : few) {
    all += point.stands_for;
    bad += point.good ? 0 : 1;
    unanswered += std::isfinite(point.ttft_s) ? 0 : 1;
  }
  EXPECT_EQ(all, 100'000);
  EXPECT_EQ(bad, 3);
  EXPECT_EQ(unanswered, 1);
}

}  // namespace
}  // namespace mixproof
