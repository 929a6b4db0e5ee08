#include "probes/checkpoint/due.h"

#include <gtest/gtest.h>

namespace mixproof {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(DueTimes, AreMultiplesOfThePeriodFromTheOriginAndNeverTheOriginItself) {
  DueTimes due(100 * kSecond, 10, 100 * kSecond);
  EXPECT_FALSE(due.take(100 * kSecond));
  EXPECT_FALSE(due.take(110 * kSecond - 1));
  EXPECT_TRUE(due.take(110 * kSecond));
  EXPECT_FALSE(due.take(110 * kSecond)) << "only once";
  EXPECT_TRUE(due.take(121 * kSecond));
  EXPECT_FALSE(due.take(130 * kSecond - 1)) << "the next one is not 131 s";
  EXPECT_TRUE(due.take(130 * kSecond));
}

TEST(DueTimes, WhatWasMissedComesOnce) {
  DueTimes due(0, 1, 0);
  EXPECT_TRUE(due.take(5 * kSecond + 1));
  EXPECT_FALSE(due.take(6 * kSecond - 1));
  EXPECT_TRUE(due.take(6 * kSecond));
  due.skip(9 * kSecond);
  EXPECT_FALSE(due.take(10 * kSecond - 1));
}

TEST(DueTimes, ALaterAttemptKeepsTheTimesOfTheFirst) {
  DueTimes due(100 * kSecond, 10, 147 * kSecond);
  EXPECT_FALSE(due.take(149 * kSecond));
  EXPECT_TRUE(due.take(150 * kSecond));
}

TEST(DueTimes, WithoutAPeriodNothingIsDue) {
  DueTimes never, zero(0, 0, 0);
  EXPECT_FALSE(never.take(1000 * kSecond));
  EXPECT_FALSE(zero.take(1000 * kSecond));
}

}  // namespace
}  // namespace mixproof
