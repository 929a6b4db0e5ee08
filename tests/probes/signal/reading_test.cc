#include "probes/signal/reading.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mixproof::signal {
namespace {

std::vector<Sample> series(const std::vector<std::pair<const char*, double>>& values) {
  std::vector<Sample> out;
  for (const auto& [label, value] : values) out.push_back({{{"code", label}}, value});
  return out;
}

TEST(Reading, CombinesTheSeriesThatMatch) {
  EXPECT_EQ(combined({1, 5, 3}, "sum").value, 9);
  EXPECT_EQ(combined({1, 5, 3}, "max").value, 5);
  EXPECT_EQ(combined({1, 5, -3}, "min").value, -3);
}

TEST(Reading, NothingNaNAndInfinityAreNoDataAndNeverZero) {
  EXPECT_FALSE(combined({}, "sum").value.has_value());
  EXPECT_EQ(combined({}, "sum").no_data, "no series matches");
  for (const double odd : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    EXPECT_FALSE(combined({1, odd}, "max").value.has_value());
    EXPECT_EQ(combined({1, odd}, "max").no_data, "a series has no finite value");
  }
}

TEST(Counters, GiveTheIncreaseSinceTheReadingBefore) {
  Counters counters;
  EXPECT_FALSE(counters.increase(series({{"200", 10}, {"500", 1}}), 100).value.has_value());
  const Reading second = counters.increase(series({{"200", 14}, {"500", 1}}), 200);
  EXPECT_EQ(second.value, 4);
  EXPECT_EQ(second.since, 100);
  EXPECT_EQ(second.resets, 0);
  EXPECT_EQ(counters.increase(series({{"200", 14}, {"500", 1}}), 300).value, 0);
}

TEST(Counters, AResetCountsFromZeroAndIsTold) {
  Counters counters;
  counters.increase(series({{"200", 10}, {"500", 7}}), 1);
  const Reading reading = counters.increase(series({{"200", 3}, {"500", 8}}), 2);
  EXPECT_EQ(reading.value, 4) << "3 since the reset, and 1";
  EXPECT_EQ(reading.resets, 1);
}

TEST(Counters, ASeriesThatAppearsBeganAtZeroAndOneThatIsGoneIsAReset) {
  Counters counters;
  counters.increase(series({{"200", 10}}), 1);
  EXPECT_EQ(counters.increase(series({{"200", 10}, {"500", 2}}), 2).value, 2);
  const Reading gone = counters.increase(series({{"500", 2}}), 3);
  EXPECT_EQ(gone.value, 0);
  EXPECT_EQ(gone.resets, 1);
}

// What happened between two readings with data is not lost by one without.
TEST(Counters, GapsAreBridged) {
  Counters counters;
  counters.increase(series({{"200", 10}}), 1);
  EXPECT_FALSE(counters.increase({}, 2).value.has_value());
  EXPECT_FALSE(counters.increase(series({{"200", std::nan("")}}), 3).value.has_value());
  const Reading reading = counters.increase(series({{"200", 15}}), 4);
  EXPECT_EQ(reading.value, 5);
  EXPECT_EQ(reading.since, 1);
}

TEST(Counters, TheFirstEventOfAServerIsCounted) {
  Counters counters;
  EXPECT_EQ(counters.increase({}, 1).no_data, "no series matches");
  const Reading first = counters.increase(series({{"500", 2}}), 2);
  EXPECT_EQ(first.value, 2);
  EXPECT_EQ(first.since, 1);
}

}  // namespace
}  // namespace mixproof::signal
