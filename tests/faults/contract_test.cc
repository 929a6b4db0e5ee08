// What every fault of this build owes, whichever it is.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "faults/fault.h"
#include "probes/probe.h"
#include "tests/fake/paths.h"
#include "tests/faults/fake_host.h"

namespace mixproof {
namespace {

FakeHost a_node() {
  FakeHost host;
  host.processes[{400, 9}] = {{400, 'S', 0, 5}, {401, 'R', 0, 5}};
  host.file_systems["/"] = {.device = 1, .bytes = 1 << 30, .free_bytes = 1 << 29};
  host.file_systems["/run/mixproof/shared"] = {
      .device = 2, .bytes = 1 << 28, .free_bytes = 1 << 27};
  host.own_addresses = {"10.77.0.2"};
  return host;
}

class FaultContract : public testing::TestWithParam<const FaultSpec*> {
 protected:
  const FaultSpec& spec() const { return *GetParam(); }
  std::unique_ptr<Fault> fault() const { return spec().create(); }
  // What a fault of its kind is given on that node.
  Target target() const {
    Target out{.words = "llm[0]"};
    out.mark = "mixproof_0123456789abcdef";
    out.kept_out = {"/", "/var/lib/mixproof"};
    if (spec().hits == Hits::kProcesses) out.processes = {{400, 9}};
    if (spec().hits == Hits::kPeers) {
      out.from = {{"serve-0", {"10.77.0.3", "fe80::3"}}};
      out.others = {{"edge-0", {"10.77.0.4"}}};
    }
    return out;
  }
};

TEST_P(FaultContract, IsNamedAsItsFileAndSaysWhatItDoes) {
  const std::string name(spec().name);
  EXPECT_TRUE(std::filesystem::exists(std::string(kSourceDir) + "/faults/" + name + ".cc")) << name;
  EXPECT_FALSE(spec().summary.empty());
  EXPECT_EQ(spec().summary.back(), '.');
  EXPECT_GE(spec().tier, 1);
  EXPECT_LE(spec().tier, 4);
}

TEST_P(FaultContract, UnknownParametersAreErrorsThatNameTheNearest) {
  const auto one = fault();
  const Params params = one->params();
  for (const Param& param : params) {
    const Status status = read_params({{param.name + "x", 1}}, params);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kInvalid);
    EXPECT_NE(status.error().message.find(param.name), std::string::npos) << status.error().message;
  }
  EXPECT_FALSE(read_params({{"no_such_key_anywhere", 1}}, params).ok());
  EXPECT_TRUE(read_params(Json::object(), params).ok())
      << "defaults are enough, or the suite must say more";
}

TEST_P(FaultContract, TheSchemaIsAClosedObject) {
  const Json schema = schema_of(fault()->params());
  EXPECT_EQ(text_at(schema, "type"), "object");
  EXPECT_FALSE(flag_at(schema, "additionalProperties", true));
}

TEST_P(FaultContract, ParametersComeBackAsTheyWere) {
  const auto one = fault(), two = fault();
  const Json written = write_params(one->params());
  ASSERT_TRUE(read_params(written, two->params()).ok());
  EXPECT_EQ(write_params(two->params()), written);
}

TEST_P(FaultContract, NoTargetIsNoPlan) {
  const auto plan = fault()->plan(a_node(), {"llm[0]", {}});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, Code::kInvalid);
}

TEST_P(FaultContract, ATargetThatIsGoneIsNoPlan) {
  EXPECT_FALSE(fault()->plan(FakeHost(), target()).ok());
}

TEST_P(FaultContract, ThePlanCanBeProvedUndoneAndExplained) {
  const auto plan = fault()->plan(a_node(), target());
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_FALSE(plan->steps.empty());
  EXPECT_FALSE(plan->touches.empty());
  EXPECT_FALSE(plan->residual_life.empty());
  EXPECT_GT(plan->undo_budget_s, 0);
  int positive = 0;
  for (const Control& control : plan->controls) {
    positive += control.positive ? 1 : 0;
    EXPECT_TRUE(control.of == "target" || control.of == "others") << control.of;
    EXPECT_LE(control.low, control.high);
    std::set<std::string> metrics;
    for (const ProbeSpec* probe : all_probes())
      if (probe->name == control.probe)
        for (const MetricSpec& metric : probe->metrics) metrics.emplace(metric.name);
    EXPECT_EQ(metrics.count(control.metric), 1u)
        << control.probe << " does not measure " << control.metric;
  }
  EXPECT_GE(positive, 1) << "an effect that nothing shows proves nothing";
}

TEST_P(FaultContract, ThePlanTravelsAsJson) {
  const auto plan = fault()->plan(a_node(), target());
  ASSERT_TRUE(plan.ok());
  const Json json = fault_plan_to_json(*plan);
  const auto back = fault_plan_from_json(json);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(fault_plan_to_json(*back), json);
  ASSERT_EQ(back->steps.size(), plan->steps.size());
  for (std::size_t i = 0; i < plan->steps.size(); ++i)
    EXPECT_FALSE(describe(back->steps[i].operation).empty());
  Json broken = json;
  broken["steps"][0]["operation"]["type"] = "no such thing";
  EXPECT_FALSE(fault_plan_from_json(broken).ok());
  broken.erase("steps");
  EXPECT_FALSE(fault_plan_from_json(broken).ok());
}

TEST_P(FaultContract, TheSameNodeGivesTheSamePlan) {
  const auto one = fault()->plan(a_node(), target()), two = fault()->plan(a_node(), target());
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(fault_plan_to_json(*one), fault_plan_to_json(*two));
}

std::string name_of(const testing::TestParamInfo<const FaultSpec*>& one) {
  return std::string(one.param->name);
}

INSTANTIATE_TEST_SUITE_P(Every, FaultContract,
                         testing::ValuesIn(all_faults().begin(), all_faults().end()), name_of);

TEST(Faults, NamesAreUnique) {
  std::set<std::string_view> names;
  for (const FaultSpec* spec : all_faults())
    EXPECT_TRUE(names.insert(spec->name).second) << spec->name;
  EXPECT_FALSE(names.empty());
}

}  // namespace
}  // namespace mixproof
