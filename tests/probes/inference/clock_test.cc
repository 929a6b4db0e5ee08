#include "probes/inference/clock.h"

#include <gtest/gtest.h>

namespace mixproof::inference {
namespace {

TEST(ClockOffset, ConvertsOnceTwoSamplesAgree) {
  ClockOffset offset;
  EXPECT_FALSE(offset.to_monotonic(5000).has_value());
  offset.take(1000, 10, 100);
  EXPECT_FALSE(offset.to_monotonic(5000).has_value());
  offset.take(1000, 20, 100);
  EXPECT_EQ(offset.to_monotonic(5000), 4000);
  EXPECT_EQ(offset.steps(), 0);
}

TEST(ClockOffset, AStepVoidsTheTurnAndIsCounted) {
  ClockOffset offset;
  offset.take(1000, 10, 100);
  offset.take(1000 + kMillisecond, 20, 100);
  EXPECT_FALSE(offset.to_monotonic(5000).has_value());
  EXPECT_EQ(offset.steps(), 1);
  offset.take(1000 + kMillisecond, 30, 100);
  EXPECT_TRUE(offset.to_monotonic(5000).has_value());
}

TEST(ClockOffset, SlewingAndAWideBracketAreNoStep) {
  ClockOffset offset;
  offset.take(1000, 10, 100);
  offset.take(1000 + 400 * kMicrosecond, 10 + kSecond, 100);  // 0.4 per mille
  EXPECT_EQ(offset.steps(), 0);
  offset.take(1000 + 500 * kMicrosecond, 20 + kSecond,
              200 * kMicrosecond);  // preempted within the bracket
  EXPECT_EQ(offset.steps(), 0);
}

TEST(ClockOffset, TheRealClocksAgree) {
  ClockOffset offset;
  offset.sample();
  offset.sample();
  const std::int64_t now = monotonic_ns();
  const auto converted = offset.to_monotonic(clock_ns(CLOCK_REALTIME));
  ASSERT_TRUE(converted.has_value());
  EXPECT_NEAR(static_cast<double>(*converted), static_cast<double>(now), 1e9);
}

}  // namespace
}  // namespace mixproof::inference
