#include "suites/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "suites/metrics.h"
#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

Plan plan_of(const Json& suite) {
  auto plan = make_plan(suite, fake_catalogue(), 1);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return plan.ok() ? *plan : Plan{};
}

TEST(Plan, SpreadsInstancesAndRanksOverNodesInOrder) {
  Json suite = fake_suite();
  suite["services"]["llm"]["replicas"] = 3;
  suite["loads"]["trainer"]["params"]["ranks"] = 5;
  const Plan plan = plan_of(suite);
  const ServicePlan& llm = *plan.service("llm");
  ASSERT_EQ(llm.instances.size(), 3u);
  EXPECT_EQ(llm.instances[1].name, "llm[1]");
  EXPECT_EQ(llm.instances[1].node, "serve-1");
  EXPECT_EQ(llm.instances[2].node, "serve-0");
  EXPECT_EQ(llm.instances[0].port, 8080);
  EXPECT_EQ(llm.instances[2].port, 8081);  // the second on its node
  EXPECT_EQ(plan.load("trainer")->nodes,
            (std::vector<std::string>{"train-0", "train-1", "train-0", "train-1", "train-0"}));
  EXPECT_EQ(plan.load("users")->nodes, std::vector<std::string>{"edge-0"});
}

TEST(Plan, SpreadsTheWorkersOfALoadOverItsNodesToo) {
  Json suite = fake_suite();
  suite["nodes"]["edge"] = 2;
  suite["loads"]["users"]["params"]["workers"] = 3;
  EXPECT_EQ(plan_of(suite).load("users")->nodes,
            (std::vector<std::string>{"edge-0", "edge-1", "edge-0"}));
}

TEST(Plan, SeveralAddressesOfAnAttachedServiceAreForLoadsThatSpread) {
  Json suite = fake_suite();
  suite["services"]["site"] = {{"urls", {"http://10.0.0.1:80", "http://10.0.0.2:80"}}};
  suite["loads"]["users"]["target"] = "site";
  EXPECT_EQ(make_plan(suite, fake_catalogue(), 1).error().message,
            "/loads/users: service \"site\" has several addresses: say \"spread\": true");
  suite["loads"]["users"]["spread"] = true;
  const Plan plan = plan_of(suite);
  EXPECT_TRUE(plan.load("users")->spread);
  EXPECT_EQ(plan_from_json(plan_to_json(plan))->service("site")->urls.size(), 2u);
  suite["services"]["site"]["url"] = "http://10.0.0.3:80";
  EXPECT_FALSE(make_plan(suite, fake_catalogue(), 1).ok());
  Json training = fake_suite();
  training["loads"]["trainer"]["spread"] = true;
  EXPECT_FALSE(make_plan(training, fake_catalogue(), 1).ok());
}

TEST(Plan, StartsWhatStandsBehindFirst) {
  const Plan plan = plan_of(fake_suite());
  ASSERT_EQ(plan.services.size(), 2u);
  EXPECT_EQ(plan.services[0].name, "llm");  // "front" comes first by name
  EXPECT_EQ(plan.services[1].name, "front");
}

TEST(Plan, FillsInDefaults) {
  const Plan plan = plan_of(fake_suite());
  EXPECT_EQ(number_at(plan.load("users")->params, "deadline_s"), 10);  // of the slo
  EXPECT_EQ(plan.load("users")->slo->deadline_s, 10);
  EXPECT_EQ(plan.phase("contention")->begin_s, 34);
  EXPECT_EQ(plan.length_s(), 76);
  EXPECT_EQ(plan.phase("stall")->faults[0].id, "stall/0");
  EXPECT_EQ(plan.limits[2].quantile, "max");  // longest_wait without one
  EXPECT_EQ(plan.limits[2].check_id(), "stall/wait");
}

TEST(Plan, SurvivesTheWayThroughJson) {
  Json suite = fake_suite();
  suite["loads"]["users"]["slo"].erase("tpot_s");
  auto plan = make_plan(suite, fake_catalogue(), 18446744073709551615ULL);
  ASSERT_TRUE(plan.ok());
  const Json json = plan_to_json(*plan);
  const auto again = plan_from_json(*parse_json(*print_json(json), "plan"));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(plan_to_json(*again), json);
  EXPECT_EQ(again->seed, 18446744073709551615ULL);
  EXPECT_TRUE(std::isinf(again->load("users")->slo->tpot_s));
}

TEST(Plan, JsonThatIsNoPlanIsCorrupt) {
  const Json good = plan_to_json(plan_of(fake_suite()));
  for (const char* key : {"name", "seed", "phases", "limits", "loads", "suite"}) {
    Json bad = good;
    bad.erase(key);
    const auto plan = plan_from_json(bad);
    ASSERT_FALSE(plan.ok()) << key;
    EXPECT_EQ(plan.error().code, Code::kCorrupt);
    EXPECT_NE(plan.error().message.find(key), std::string::npos);
  }
  Json bad = good;
  bad["limits"][1]["phase"] = "nowhere";
  EXPECT_FALSE(plan_from_json(bad).ok());
  bad = good;
  bad["phases"][0]["measure_s"] = "20";
  EXPECT_EQ(plan_from_json(bad).error().message,
            "plan/phases/0/measure_s is missing or of another type");
}

TEST(SuiteSchema, KnowsTheCatalogue) {
  const Json schema = suite_schema(fake_catalogue());
  const Json& load = schema["properties"]["loads"]["additionalProperties"];
  EXPECT_EQ(load["properties"]["probe"]["enum"], (Json{"inference", "training"}));
  EXPECT_EQ(load["allOf"].size(), 2u);
  const Json& metrics = schema["properties"]["limits"]["items"]["properties"]["metric"]["enum"];
  EXPECT_EQ(metrics.size(), limitable_metrics().size());
  EXPECT_EQ(std::find(metrics.begin(), metrics.end(), "inference.outcomes"), metrics.end());
}

}  // namespace
}  // namespace mixproof
