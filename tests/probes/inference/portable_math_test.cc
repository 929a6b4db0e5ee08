#include "probes/inference/portable_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace mixproof::inference {
namespace {

TEST(PortableMath, AgreesWithTheLibraryToTheLastBits) {
  Random random(3, "points");
  for (int i = 0; i < 20'000; ++i) {
    const double x = std::ldexp(0.5 + random.unit() / 2, static_cast<int>(random.below(200)) - 100);
    EXPECT_NEAR(log_of(x), std::log(x), 4e-16 * std::max(1e-3, std::abs(std::log(x)))) << x;
    const double y = (random.unit() - 0.5) * 600;
    EXPECT_NEAR(exp_of(y) / std::exp(y), 1, 4e-15) << y;
  }
  EXPECT_EQ(log_of(1), 0);
  EXPECT_EQ(exp_of(0), 1);
  EXPECT_NEAR(log_of(1 - 0x1p-53), -0x1p-53, 1e-32);  // the shortest gap that is not 0
}

// If these bits change on some machine, schedules of two machines are no longer the same.
TEST(PortableMath, GivesTheSameBitsEverywhere) {
  const auto bits = [](double value) {
    std::uint64_t out = 0;
    std::memcpy(&out, &value, sizeof(out));
    return out;
  };
  std::uint64_t all = 0;
  Random random(9, "bits");
  for (int i = 0; i < 1000; ++i) {
    for (const double value :
         {unit_exponential(random), unit_normal(random), unit_gamma(0.25, random),
          unit_gamma(4, random), exp_of(random.unit() * 20 - 10)})
      all = all * 0x100000001b3ULL ^ bits(value);
  }
  EXPECT_EQ(all, 17414299839301102019ULL);
}

struct Moments {
  double mean = 0, variance = 0;
};

template <typename Draw>
Moments moments_of(Draw draw, int n) {
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double value = draw();
    sum += value;
    squares += value * value;
  }
  const double mean = sum / n;
  return {mean, squares / n - mean * mean};
}

TEST(PortableMath, VariatesHaveTheirMoments) {
  constexpr int kDraws = 200'000;
  Random random(1, "moments");
  const Moments normal = moments_of([&] { return unit_normal(random); }, kDraws);
  EXPECT_NEAR(normal.mean, 0, 0.01);
  EXPECT_NEAR(normal.variance, 1, 0.02);
  for (const double shape : {0.25, 1.0, 4.0}) {
    const Moments gamma = moments_of([&] { return unit_gamma(shape, random); }, kDraws);
    EXPECT_NEAR(gamma.mean, 1, 5 / std::sqrt(shape * kDraws)) << shape;
    EXPECT_NEAR(gamma.variance, 1 / shape, 0.05 / shape) << shape;
  }
}

}  // namespace
}  // namespace mixproof::inference
