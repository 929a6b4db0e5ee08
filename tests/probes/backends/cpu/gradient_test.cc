#include "probes/backends/cpu/gradient.h"

#include <gtest/gtest.h>

#include <vector>

namespace mixproof {
namespace {

constexpr GradientKey kKey{99, 12};

std::vector<float> sum_of(int ranks, std::size_t size) {
  std::vector<float> sum(size), one(size);
  for (int rank = 0; rank < ranks; ++rank) {
    fill_gradient(kKey, rank, one);
    for (std::size_t i = 0; i < size; ++i) sum[i] += one[i];
  }
  return sum;
}

TEST(Gradient, FillsWhatSingleElementsSay) {
  std::vector<float> values(1'003);
  fill_gradient(kKey, 1, values);
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], gradient_value(kKey, 1, i)) << i;
}

TEST(Gradient, DiffersBetweenRanksStepsAndSeeds) {
  int same = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    const float value = gradient_value(kKey, 0, i);
    same += value == gradient_value(kKey, 1, i);
    same += value == gradient_value({99, 13}, 0, i);
    same += value == gradient_value({98, 12}, 0, i);
  }
  EXPECT_LT(same, 5);
}

TEST(Gradient, RightSumsPassBothChecks) {
  for (const std::size_t size : {0, 1, 5, 4'096}) {
    const std::vector<float> sum = sum_of(3, size);
    EXPECT_TRUE(verify_whole_sum(kKey, 3, sum)) << size;
    EXPECT_TRUE(verify_sampled_sum(kKey, 3, sum, 64)) << size;
  }
}

TEST(Gradient, OneWrongElementFailsTheWholeCheckAndIsNamed) {
  std::vector<float> sum = sum_of(3, 1'001);
  sum[777] += 1;
  Status wrong = verify_whole_sum(kKey, 3, sum);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Code::kCorrupt);
  EXPECT_NE(wrong.error().message.find("element 777 of step 12"), std::string::npos)
      << wrong.error().message;
}

TEST(Gradient, SumsOfTheWrongRanksOrStepFailTheSampledCheck) {
  const std::vector<float> sum = sum_of(3, 1'001);
  EXPECT_FALSE(verify_sampled_sum(kKey, 2, sum, 8));
  EXPECT_FALSE(verify_sampled_sum({99, 13}, 3, sum, 8));
  std::vector<float> tail = sum;
  tail.back() += 1;
  EXPECT_FALSE(verify_sampled_sum(kKey, 3, tail, 0));
}

}  // namespace
}  // namespace mixproof
