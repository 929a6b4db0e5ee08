#include "probes/checkpoint/state.h"

#include <gtest/gtest.h>

#include <vector>

namespace mixproof {
namespace {

ParameterState after(std::vector<float> sums, std::uint64_t seed = 7) {
  ParameterState state(seed);
  for (const float sum : sums) state.apply(sum);
  return state;
}

std::vector<std::byte> bytes_of(const ParameterState& state, std::int64_t rank,
                                std::size_t size = 1003) {
  std::vector<std::byte> out(size);
  state.write(rank, out);
  return out;
}

TEST(ParameterState, IsReadAsItWasWritten) {
  const ParameterState state = after({1, 2, 3});
  for (const std::size_t size : {16U, 17U, 24U, 1003U}) {
    const auto read = ParameterState::read(4, bytes_of(state, 4, size));
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, state);
    EXPECT_EQ(read->steps(), 3);
  }
}

TEST(ParameterState, DependsOnEveryStepAndItsOrder) {
  EXPECT_EQ(after({1, 2, 3}), after({1, 2, 3}));
  EXPECT_NE(after({1, 2, 3}), after({1, 3}));
  EXPECT_NE(after({1, 2, 3}), after({2, 1, 3}));
  EXPECT_NE(after({1, 2, 3}), after({1, 2, 4}));
  EXPECT_NE(after({1, 2, 3}), after({1, 2, 3}, 8));
}

TEST(ParameterState, OfAnotherRankOrWithAWrongByteIsCorrupt) {
  const std::vector<std::byte> right = bytes_of(after({5}), 1);
  EXPECT_FALSE(ParameterState::read(0, right));
  for (const std::size_t at : {0U, 8U, 16U, 500U, 1002U}) {
    std::vector<std::byte> wrong = right;
    wrong[at] ^= std::byte{1};
    EXPECT_FALSE(ParameterState::read(1, wrong)) << at;
  }
  EXPECT_FALSE(ParameterState::read(1, std::vector<std::byte>(8)));
}

}  // namespace
}  // namespace mixproof
