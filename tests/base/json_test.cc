#include "harness/base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace mixproof {
namespace {

TEST(Json, RefusesWhatIsNotStrict) {
  for (const char* bad :
       {"", "{", "{\"a\":1,\"a\":2}", "[NaN]", "{} x", "[1e999]", "[01]", "{\"a\":1,}", "nul"})
    EXPECT_FALSE(parse_json(bad, "test").ok()) << bad;
  EXPECT_FALSE(parse_json(std::string(100, '[') + std::string(100, ']'), "deep").ok());
}

TEST(Json, ErrorsNameTheSourceAndThePlace) {
  const auto result = parse_json("{\"a\": 1,\n \"a\": 2}", "suite.json");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "suite.json: not valid JSON: duplicate key \"a\"");
  EXPECT_NE(parse_json("{\"a\": 1,\n b}", "x").error().message.find("line 2"), std::string::npos);
}

TEST(Json, ReadsNestedValues) {
  const auto result = parse_json(R"({"a":[1,[2,{"b":null}],"x"],"c":{"d":1.5}})", "test");
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->dump(), R"({"a":[1,[2,{"b":null}],"x"],"c":{"d":1.5}})");
}

TEST(Json, NeverPrintsANumberThatIsNotFinite) {
  const Json json = {{"metrics", {1.0, std::nan("")}}};
  const auto text = print_json(json);
  ASSERT_FALSE(text.ok());
  EXPECT_NE(text.error().message.find("/metrics/1"), std::string::npos);
}

}  // namespace
}  // namespace mixproof
