#include "suites/holm.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "suites/judge.h"
#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

// Divisors of tests with these p-values, at an error of 0.05.
std::vector<int> divisors(const std::vector<double>& p_values) {
  return holm_divisors(static_cast<int>(p_values.size()), [&](int test, int divisor) {
    return p_values[static_cast<std::size_t>(test)] <= 0.05 / divisor;
  });
}

TEST(Holm, StepsDownAsTestsReject) {
  EXPECT_EQ(divisors({0.04}), std::vector<int>{1});
  EXPECT_EQ(divisors({0.01, 0.02, 0.04}), (std::vector<int>{3, 2, 1}));  // each just in its turn
  EXPECT_EQ(divisors({0.01, 0.03, 0.04}), (std::vector<int>{3, 2, 2}));  // 0.03 > 0.05 / 2: no more
  EXPECT_EQ(divisors({0.02, 0.03, 0.04}), (std::vector<int>{3, 3, 3}));  // none is at 0.05 / 3
  EXPECT_EQ(divisors({0.001, 0.002, 0.04}), (std::vector<int>{3, 3, 1}));
  EXPECT_EQ(divisors({0.9, 0.001}), (std::vector<int>{1, 2}));
}

Json ratio_limit(const char* id, const char* quantile, double at_most, bool required = true) {
  return {{"id", id},
          {"metric", "inference.ttft_ratio"},
          {"load", "users"},
          {"phase", "contention"},
          {"reference", "baseline"},
          {"quantile", quantile},
          {"method", "interval"},
          {"at_most", at_most},
          {"required", required},
          {"why", "w"}};
}

Json observed_of(const Judgement& judgement, const char* id) {
  for (const Json& check : judgement.checks)
    if (text_at(check, "id") == id) return check["observed"];
  return nullptr;
}

Judgement judged(const std::vector<Json>& limits) {
  FakeRun run;
  for (const Json& limit : limits) run.suite["limits"].push_back(limit);
  return judge(run.plan(), run.rows());
}

TEST(Holm, LimitsOfOnePhaseShareTheirConfidence) {
  const Judgement alone = judged({ratio_limit("a", "p50", 1.01)});
  const Judgement three = judged(
      {ratio_limit("a", "p50", 1.01), ratio_limit("b", "p50", 1.01), ratio_limit("c", "p90", 1.5)});
  const Json one = observed_of(alone, "contention/a"), shared = observed_of(three, "contention/a");
  EXPECT_FALSE(one["evidence"].contains("holm"));
  ASSERT_TRUE(shared["evidence"].contains("holm"));
  EXPECT_EQ(shared["evidence"]["holm"]["tests"], 3);
  // The one at 1.5 passes at a third of the error; the two at 1.01 do not, and share what is left.
  EXPECT_NEAR(
      observed_of(three, "contention/c")["evidence"]["holm"]["pass_confidence"].get<double>(),
      1 - 0.05 / 3, 1e-12);
  EXPECT_NEAR(shared["evidence"]["holm"]["pass_confidence"].get<double>(), 1 - 0.05 / 2, 1e-12);
  EXPECT_NEAR(shared["evidence"]["holm"]["fail_confidence"].get<double>(), 1 - 0.05 / 3, 1e-12);
  EXPECT_GT(shared["interval"]["high"].get<double>(), one["interval"]["high"].get<double>());
  EXPECT_LT(shared["interval"]["low"].get<double>(), one["interval"]["low"].get<double>());
}

TEST(Holm, InformationTakesNothingFromOthers) {
  const Judgement alone = judged({ratio_limit("a", "p50", 1.01)});
  const Judgement beside =
      judged({ratio_limit("a", "p50", 1.01), ratio_limit("b", "p50", 1.01, false)});
  EXPECT_EQ(observed_of(alone, "contention/a"), observed_of(beside, "contention/a"));
}

}  // namespace
}  // namespace mixproof
