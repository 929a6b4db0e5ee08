#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "suites/plan.h"
#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

Json after(const std::string& setting) {
  Json suite = fake_suite();
  const Status applied = apply_setting(suite, setting);
  EXPECT_TRUE(applied.ok()) << applied.error().message;
  return suite;
}

std::string error_of(const std::string& setting) {
  Json suite = fake_suite();
  const Status applied = apply_setting(suite, setting);
  EXPECT_EQ(suite, fake_suite()) << "a wrong setting changed the suite";
  return applied.ok() ? "" : applied.error().message;
}

TEST(Settings, ReachMembersByNameIdAndIndex) {
  EXPECT_EQ(after("placement=physical")["placement"], "physical");
  EXPECT_EQ(after("limits.sla.at_least=0.9")["limits"][0]["at_least"], 0.9);
  EXPECT_EQ(after("limits.2.at_most=2")["limits"][2]["at_most"], 2);
  EXPECT_EQ(after("phases.stall.faults.0.for_s=1")["phases"][3]["faults"][0]["for_s"], 1);
  EXPECT_EQ(after("nodes.serve=3")["nodes"]["serve"], 3);
  EXPECT_EQ(after("phases.stall.faults=[]")["phases"][3]["faults"], Json::array());
  EXPECT_EQ(after("claim=it holds = always")["claim"], "it holds = always");
}

TEST(Settings, MayAddWhatTheSchemaKnows) {
  EXPECT_EQ(after("lease_s=20")["lease_s"], 20);
  EXPECT_EQ(after("services.llm.ready_s=5")["services"]["llm"]["ready_s"], 5);
  EXPECT_EQ(after("loads.trainer.slo.ttft_s=1")["loads"]["trainer"]["slo"]["ttft_s"], 1);
  EXPECT_EQ(
      after("loads.users.params.answer_tokens=8")["loads"]["users"]["params"]["answer_tokens"], 8);
  EXPECT_EQ(
      after(
          "loads.users.params.arrivals.poisson.rate_per_s=10")["loads"]["users"]["params"]
                                                              ["arrivals"]["poisson"]["rate_per_s"],
      10);
}

TEST(Settings, MisspeltPathsAreNamedWithTheNearestMember) {
  EXPECT_EQ(error_of("placment=none"),
            "--set placment=none: the suite has no \"placment\"; did you mean \"placement\"?");
  EXPECT_EQ(error_of("limits.slaa.at_least=0.9"),
            "--set limits.slaa.at_least=0.9: \"limits\" has no \"slaa\"; did you mean \"sla\"?");
  EXPECT_EQ(error_of("loads.user.on=edge"),
            "--set loads.user.on=edge: \"loads\" has no \"user\"; did you mean \"users\"?");
  EXPECT_EQ(
      error_of("loads.users.slo.ttft=1"),
      "--set loads.users.slo.ttft=1: \"loads.users.slo\" has no \"ttft\"; did you mean \"ttft_s\"?");
  EXPECT_EQ(error_of("nodes.serv=3"),
            "--set nodes.serv=3: \"nodes\" has no \"serv\"; did you mean \"serve\"?");
  EXPECT_NE(error_of("limits.9.at_least=1").find("has no \"9\""), std::string::npos);
  EXPECT_NE(error_of("name.x=1").find("\"name\" has no \"x\""), std::string::npos);
  EXPECT_EQ(error_of("placement"), "--set placement: must be key=value");
  EXPECT_EQ(error_of("=1"), "--set =1: must be key=value");
  EXPECT_NE(error_of("loads..on=1"), "");
}

}  // namespace
}  // namespace mixproof
