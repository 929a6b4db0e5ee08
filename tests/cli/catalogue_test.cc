// The catalogue of this build against the suites that it ships.
#include "harness/cli/catalogue.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/fake/paths.h"

namespace mixproof {
namespace {

std::vector<std::string> shipped_suites() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(kSourceDir) + "/suites"))
    if (entry.path().extension() == ".json") out.push_back(entry.path().string());
  return out;
}

Json suite_at(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return *parse_json(text.str(), path);
}

TEST(Catalogue, ShippedSuitesNameOnlyWhatThisBuildHas) {
  EXPECT_GE(shipped_suites().size(), 3u);
  for (const std::string& path : shipped_suites()) {
    const auto plan = make_plan(suite_at(path), build_catalogue(), 1);
    ASSERT_TRUE(plan.ok()) << path << ": " << plan.error().message;
    EXPECT_EQ(plan->name, std::filesystem::path(path).stem().string());
    // Whoever tries one should not wait long; chaos_lab has six faults and calm between them.
    EXPECT_LT(plan->length_s(), plan->name == "chaos_lab" ? 360 : 150) << path;
  }
}

TEST(Catalogue, StallWithoutItsFaultIsStillASuite) {
  Json suite = suite_at(std::string(kSourceDir) + "/suites/stall.json");
  ASSERT_TRUE(apply_setting(suite, "phases.stall.faults=[]").ok());
  const auto plan = make_plan(suite, build_catalogue(), 1);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_TRUE(plan->phase("stall")->faults.empty());
}

TEST(Catalogue, FillsInDefaultsAndKeepsWhatWasGiven) {
  const auto plan =
      make_plan(suite_at(std::string(kSourceDir) + "/suites/mixed_sla.json"), build_catalogue(), 1);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const Json& params = plan->load("users")->params;
  EXPECT_EQ(params["arrivals"]["poisson"]["rate_per_s"], 8);
  EXPECT_EQ(params["deadline_s"], 10);
  EXPECT_TRUE(params.contains("max_in_flight"));
}

TEST(Catalogue, WrongParametersAreNamedWithTheirPlace) {
  Json suite = suite_at(std::string(kSourceDir) + "/suites/mixed_sla.json");
  suite["loads"]["users"]["params"]["answer_token"] = 8;
  const auto plan = make_plan(suite, build_catalogue(), 1);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().message,
            "/loads/users/params/answer_token: unknown key; did you mean \"answer_tokens\"?");
}

TEST(Catalogue, ParametersThatContradictEachOtherAreNamedBeforeAnythingRuns) {
  const auto message = [](const char* load, const Json& params) {
    Json suite = suite_at(std::string(kSourceDir) + "/suites/mixed_sla.json");
    suite["loads"][load]["params"].update(params);
    const auto plan = make_plan(suite, build_catalogue(), 1);
    return plan.ok() ? "" : plan.error().message;
  };
  const Json bursts = {{"period_s", 30}, {"length_s", 5}};
  EXPECT_EQ(message("users", {{"arrivals", {{"bursts", bursts}}}}), "");
  EXPECT_EQ(message("users", {{"arrivals", {{"bursts", {{"period_s", 3}, {"length_s", 5}}}}}}),
            "/loads/users/params: arrivals: bursts: a burst must be shorter than its period");
  EXPECT_EQ(message("users", {{"answer_lengths", {{"trace", Json::object()}}}}),
            "/loads/users/params: answer_lengths: \"trace\" needs arrivals from a trace");
  EXPECT_EQ(message("trainer", {{"checkpoint_every_s", 10}}),
            "/loads/trainer/params: checkpoint_every_steps and checkpoint_every_s exclude each "
            "other");
}

// python3-jsonschema: a validator that nobody here wrote.
TEST(Catalogue, ShippedSuitesAreValidForAnotherValidator) {
  if (std::system("/usr/bin/python3 -c 'import jsonschema' 2>/dev/null") != 0)
    GTEST_SKIP() << "python3-jsonschema is not installed";
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("catalogue_test." + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "schema.json") << *print_json(suite_schema(build_catalogue()));
  std::ofstream(folder / "check.py")
      << "import json, sys, jsonschema\n"
         "schema = json.load(open(sys.argv[1]))\n"
         "jsonschema.Draft7Validator.check_schema(schema)\n"
         "jsonschema.validate(json.load(open(sys.argv[2])), schema)\n";
  const auto is_valid = [&](const std::string& path) {
    const std::string command = "/usr/bin/python3 " + (folder / "check.py").string() + " " +
                                (folder / "schema.json").string() + " " + path + " 2>/dev/null";
    return std::system(command.c_str()) == 0;
  };
  for (const std::string& path : shipped_suites()) EXPECT_TRUE(is_valid(path)) << path;
  Json wrong = suite_at(shipped_suites().front());
  wrong["loads"]["users"]["params"]["answer_token"] = 8;
  std::ofstream(folder / "wrong.json") << *print_json(wrong);
  EXPECT_FALSE(is_valid((folder / "wrong.json").string()));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace mixproof
