#include "suites/observed.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace mixproof {
namespace {

Plan plan_with_proxy() {
  Plan plan;
  ServicePlan llm;
  llm.name = "llm";
  llm.start = "llama_cpp";
  llm.instances = {{"llm[0]", "serve-0", 8080}};
  ServicePlan front;
  front.name = "front";
  front.start = "haproxy";
  front.before = "llm";
  ServicePlan outside;
  outside.name = "outside";
  outside.url = "http://10.0.0.1";
  plan.services = {llm, front, outside};
  LoadPlan users, others, trainer;
  users.name = "users";
  users.target = "front";
  others.name = "others";
  others.target = "outside";
  trainer.name = "trainer";
  plan.loads = {users, others, trainer};
  return plan;
}

const std::vector<Json> kRows = {
    {{"row", "clock"},
     {"node", "serve-0"},
     {"offset_ns", 5'000'000'000},
     {"uncertainty_ns", 40'000}},
    {{"row", "clock"},
     {"node", "serve-0"},
     {"offset_ns", 5'000'000'100},
     {"uncertainty_ns", 30'000}},
    {{"row", "ready"},
     {"what", "llm[0]"},
     {"node", "serve-0"},
     {"info", {{"engine", "llama.cpp"}, {"shape", "4x256"}}}},
    {{"row", "ready"},
     {"what", "trainer"},
     {"node", "train-1"},
     {"rank", 1},
     {"info", {{"backend", "ucx"}, {"transport", "tcp"}}}},
    {{"row", "ready"},
     {"what", "trainer"},
     {"node", "train-0"},
     {"rank", 0},
     {"info", {{"backend", "ucx"}, {"transport", "tcp"}}}},
};

TEST(Observed, TellsClocksServicesAndLoads) {
  const Json seen = observed(plan_with_proxy(), kRows);
  EXPECT_DOUBLE_EQ(seen["clocks"]["serve-0"]["uncertainty_s"].get<double>(), 30e-6);
  EXPECT_EQ(seen["clocks"]["serve-0"]["n"], 2);
  EXPECT_EQ(seen["services"]["llm[0]"]["shape"], "4x256");
  EXPECT_EQ(seen["loads"]["trainer"][0]["node"], "train-0");
}

TEST(Observed, BackendsOfDifferentKindsNeverShareALabel) {
  const Plan plan = plan_with_proxy();
  const Json seen = observed(plan, kRows);
  EXPECT_EQ(backend_of(plan, plan.loads[0], seen), "llama_cpp");
  EXPECT_EQ(backend_of(plan, plan.loads[1], seen), "attached");
  EXPECT_EQ(backend_of(plan, plan.loads[2], seen), "cpu+ucx/tcp");
  EXPECT_EQ(backend_of(plan, plan.loads[2], observed(plan, {})), "unknown");
}

}  // namespace
}  // namespace mixproof
