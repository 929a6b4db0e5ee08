// What every probe and load of this build owes, whichever it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "probes/probe.h"
#include "tests/fake/paths.h"

namespace mixproof {
namespace {

// "training.step_time": lower-case words on both sides of one dot.
bool is_metric_name(std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == 0 || dot == std::string_view::npos || dot + 1 == name.size()) return false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool letter = c >= 'a' && c <= 'z', digit = c >= '0' && c <= '9';
    const bool first = i == 0 || i == dot + 1;
    if (i != dot && !letter && (first || (!digit && (c != '_' || i < dot)))) return false;
  }
  return true;
}

TEST(MetricNames, OnlyLowerCaseWordsOnBothSidesOfOneDot) {
  for (const char* good : {"training.step_time", "gpu2.x"}) EXPECT_TRUE(is_metric_name(good));
  for (const char* bad : {"", ".", "a.", ".a", "A.b", "a.B", "a_b.c", "a.b.c", "2a.b", "a.2"})
    EXPECT_FALSE(is_metric_name(bad)) << bad;
}

class ProbeContract : public testing::TestWithParam<const ProbeSpec*> {
 protected:
  const ProbeSpec& spec() const { return *GetParam(); }
  std::unique_ptr<Probe> probe() const { return spec().create(); }
};

TEST_P(ProbeContract, IsNamedAsItsFileAndSaysWhatItDoes) {
  const std::string name(spec().name);
  EXPECT_TRUE(std::filesystem::exists(std::string(kSourceDir) + "/probes/" + name + ".cc")) << name;
  EXPECT_FALSE(spec().summary.empty());
}

TEST_P(ProbeContract, UnknownParametersAreErrorsThatNameTheNearest) {
  const auto one = probe();
  const Params params = one->params();
  for (const Param& param : params) {
    const Status status = read_params({{param.name + "x", 1}}, params);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kInvalid);
    EXPECT_NE(status.error().message.find(param.name), std::string::npos) << status.error().message;
  }
  EXPECT_FALSE(read_params({{"no_such_key_anywhere", 1}}, params).ok());
}

TEST_P(ProbeContract, TheSchemaIsAClosedObjectWithHelp) {
  const auto one = probe();
  const Json schema = schema_of(one->params());
  EXPECT_EQ(text_at(schema, "type"), "object");
  EXPECT_FALSE(flag_at(schema, "additionalProperties", true));
  for (const Param& param : one->params()) EXPECT_FALSE(param.help.empty()) << param.name;
}

TEST_P(ProbeContract, ParametersComeBackAsTheyWere) {
  const auto one = probe(), two = probe();
  const Json written = write_params(one->params());
  Params optional = two->params();
  for (Param& param : optional) param.required = false;  // a default need not be a value
  Json given = written;
  for (const Param& param : two->params())
    if (param.required) given.erase(param.name);
  ASSERT_TRUE(read_params(given, optional).ok());
  EXPECT_EQ(write_params(two->params()), written);
}

TEST_P(ProbeContract, MetricsHaveNamesUnitsAndWords) {
  const std::set<std::string_view> units = {"s", "1", "1/s", "B", "B/s", "W", "K", "Hz"};
  std::set<std::string_view> seen;
  for (const MetricSpec& metric : spec().metrics) {
    EXPECT_TRUE(is_metric_name(metric.name)) << metric.name;
    EXPECT_EQ(units.count(metric.unit), 1u) << metric.name << " in " << metric.unit;
    EXPECT_FALSE(metric.help.empty()) << metric.name;
    EXPECT_TRUE(seen.insert(metric.name).second) << metric.name;
  }
}

TEST_P(ProbeContract, CostsAreNumbers) {
  const Cost cost = probe()->cost();
  for (const double part :
       {cost.gpu_share, cost.network_bytes_per_s, cost.storage_bytes_per_s, cost.requests_per_s})
    EXPECT_TRUE(part >= 0 && part < 1e18) << part;
}

std::string name_of(const testing::TestParamInfo<const ProbeSpec*>& one) {
  return std::string(one.param->name);
}

INSTANTIATE_TEST_SUITE_P(Every, ProbeContract,
                         testing::ValuesIn(all_probes().begin(), all_probes().end()), name_of);

TEST(Probes, NamesAreUniqueAndMetricsBelongToOne) {
  std::set<std::string_view> names, metrics;
  for (const ProbeSpec* spec : all_probes()) {
    EXPECT_TRUE(names.insert(spec->name).second) << spec->name;
    for (const MetricSpec& metric : spec->metrics)
      EXPECT_TRUE(metrics.insert(metric.name).second) << metric.name;
  }
  EXPECT_FALSE(names.empty());
}

}  // namespace
}  // namespace mixproof
