#include "harness/base/text.h"

#include <gtest/gtest.h>

namespace mixproof {
namespace {

TEST(Text, ReplacesEveryOccurrenceAndNothingThatItPutThere) {
  EXPECT_EQ(replace_all("{a}/{a}", "{a}", "x"), "x/x");
  EXPECT_EQ(replace_all("{a}", "{a}", "{a}{a}"), "{a}{a}");
  EXPECT_EQ(replace_all("ab", "{a}", "x"), "ab");
}

}  // namespace
}  // namespace mixproof
