#include "suites/check_power.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "suites/resolve.h"
#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

CheckPower power_of(std::size_t limit, const Json& change) {
  Json suite = fake_suite();
  suite["limits"][limit].merge_patch(change);
  const auto plan = make_plan(suite, fake_catalogue(), 1);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return plan.ok() ? check_power(*plan, plan->limits[limit]) : CheckPower{};
}

TEST(CheckPower, OfBinomialCountsRequests) {
  const CheckPower power = power_of(0, Json::object());  // 8/s for 20 s, 0.95 at 95 %
  EXPECT_EQ(power.numbers["trials"], 160);
  EXPECT_EQ(power.numbers["least_trials"], 59);
  EXPECT_EQ(power.numbers["tolerates"], 3);
  EXPECT_NEAR(power.numbers["pass"]["probability"].get<double>(), 0.43099, 1e-4);
  EXPECT_NE(power.text.find("passes with up to 3 violations"), std::string::npos) << power.text;
  EXPECT_NE(power.text.find("fails in 74 % at 0.9"), std::string::npos) << power.text;
}

TEST(CheckPower, OfBlocksCountsBlocks) {
  const CheckPower power = power_of(0, {{"dependence", "blocks"}});
  EXPECT_EQ(power.numbers["trials"], 20);
  EXPECT_EQ(power.numbers["least_s"], 59);
  EXPECT_EQ(power.numbers["tolerates"], -1);
  EXPECT_NE(power.text.find("too few to pass"), std::string::npos) << power.text;
  EXPECT_EQ(power_of(0, {{"dependence", "blocks"}, {"at_least", 0.5}}).numbers["least_trials"], 20);
}

TEST(CheckPower, OfIntervalsSaysWhichRatioTheyTell) {
  const CheckPower power = power_of(0, *parse_json(R"({"metric": "inference.ttft_ratio",
    "method": "interval", "dependence": null, "reference": "baseline", "quantile": "p50",
    "at_least": null, "at_most": 1.5})",
                                                   "patch"));
  EXPECT_EQ(power.numbers["least_samples"], 6);
  EXPECT_EQ(power.numbers["least_s"], 20);
  EXPECT_NEAR(power.numbers["detectable_ratio"].get<double>(), 1.19, 0.01);
  EXPECT_NE(power.text.find("sigma 0.5"), std::string::npos) << power.text;
}

TEST(CheckPower, OfAChangeOfAttainmentNeedsBlocksInWhichNothingIsLost) {
  const CheckPower power = power_of(0, *parse_json(R"({"metric": "inference.attainment_change",
    "method": "interval", "dependence": null, "reference": "baseline", "at_least": -0.01})",
                                                   "patch"));
  EXPECT_EQ(power.numbers["least_blocks"], 299);
  EXPECT_NE(power.text.find("5 minutes"), std::string::npos) << power.text;
  EXPECT_NE(power.text.find("too short to decide"), std::string::npos) << power.text;
}

TEST(CheckPower, OfDirectLimits) {
  EXPECT_EQ(power_of(4, {{"quantile", "p99"}}).numbers["least_samples"], 368);
  EXPECT_NE(power_of(4, {{"quantile", "p99"}}).text.find("too short to decide"), std::string::npos);
  EXPECT_NEAR(power_of(3, Json::object()).numbers["resolution_s"].get<double>(), 2.5, 1e-9);
  EXPECT_TRUE(power_of(2, Json::object()).numbers.is_null());  // a maximum needs no more than one
}

TEST(Resolve, DurationsAreRoundedUp) {
  EXPECT_EQ(duration_text(2.1), "3 s");
  EXPECT_EQ(duration_text(120), "120 s");
  EXPECT_EQ(duration_text(121), "3 minutes");
}

}  // namespace
}  // namespace mixproof
