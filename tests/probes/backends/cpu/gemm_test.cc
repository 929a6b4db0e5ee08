#include "probes/backends/cpu/gemm.h"

#include <gtest/gtest.h>

#include <limits>

namespace mixproof {
namespace {

TEST(Gemm, IsRightForEverySizeIncludingOddOnes) {
  for (const std::int64_t n : {1, 2, 7, 64, 129, 256}) {
    auto gemm = Gemm::create(n, 42);
    ASSERT_TRUE(gemm);
    for (int i = 0; i < 5; ++i) {
      gemm->multiply();
      Status right = gemm->verify();
      EXPECT_TRUE(right) << n << ": " << right.error().message;
    }
  }
}

TEST(Gemm, CheckCatchesOneWrongElementWhereverItIs) {
  auto gemm = Gemm::create(65, 7);
  ASSERT_TRUE(gemm);
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{64}, std::size_t{2'000}, gemm->product().size() - 1}) {
    gemm->multiply();
    ASSERT_TRUE(gemm->verify());
    gemm->product()[at] += 1;
    Status wrong = gemm->verify();
    ASSERT_FALSE(wrong) << at;
    EXPECT_EQ(wrong.error().code, Code::kCorrupt);
    EXPECT_NE(wrong.error().message.find("row " + std::to_string(at % 65)), std::string::npos)
        << wrong.error().message;
  }
}

TEST(Gemm, CheckCatchesValuesThatAreNoNumbers) {
  auto gemm = Gemm::create(16, 7);
  ASSERT_TRUE(gemm);
  gemm->multiply();
  gemm->product()[20] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(gemm->verify());
}

TEST(Gemm, RefusesSizesOutsideItsRange) {
  EXPECT_EQ(Gemm::create(0, 1).error().code, Code::kInvalid);
  EXPECT_EQ(Gemm::create(Gemm::kMaxSize + 1, 1).error().code, Code::kInvalid);
}

TEST(Gemm, NamesTheKernelsThatRan) { EXPECT_NE(Gemm::core_name(), ""); }

}  // namespace
}  // namespace mixproof
