#include "harness/base/params.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace mixproof {
namespace {

struct Holder {
  double rate = 6;
  std::int64_t count = 1;
  bool on = false;
  std::string shape = "poisson", kind = "poisson";
  double inner = 2;
  std::vector<std::string> names;
  std::map<std::string, double> each;

  Params params() {
    return {number("rate_per_s", &rate, "arrivals", {.min = 0.5, .max = 10}),
            integer("count", &count, "how many", {.min = 1}),
            flag("on", &on, "switch"),
            choice("shape", &shape, "form", {"poisson", "constant"}),
            texts("names", &names, "names"),
            one_of("arrivals", &kind, "process",
                   {{"poisson", {number("rate_per_s", &inner, "rate", {.min = 0})}}, {"none", {}}}),
            map_of("each", "by name", [this](const std::string& key) {
              return Params{number("value", &each[key], "v")};
            })};
  }
};

std::string message(const Json& json) {
  Holder holder;
  const Status status = read_params(json, holder.params(), "/loads/users/params");
  return status.ok() ? "" : status.error().message;
}

TEST(Params, ReadsEveryKind) {
  Holder holder;
  const Json json = {{"rate_per_s", 2},
                     {"count", 3},
                     {"on", true},
                     {"shape", "constant"},
                     {"names", {"a", "b"}},
                     {"arrivals", {{"poisson", {{"rate_per_s", 7}}}}},
                     {"each", {{"x", {{"value", 4}}}}}};
  ASSERT_TRUE(read_params(json, holder.params()).ok());
  EXPECT_EQ(holder.rate, 2);
  EXPECT_EQ(holder.count, 3);
  EXPECT_TRUE(holder.on);
  EXPECT_EQ(holder.names.size(), 2u);
  EXPECT_EQ(holder.inner, 7);
  EXPECT_EQ(holder.each["x"], 4);
}

TEST(Params, NamesThePlaceAndTheNearestKey) {
  EXPECT_EQ(message({{"rate_pers", 2}}),
            "/loads/users/params/rate_pers: unknown key; did you mean \"rate_per_s\"?");
  EXPECT_EQ(message({{"rate_per_s", 11}}),
            "/loads/users/params/rate_per_s: 11 is out of range (0.5 to 10)");
  EXPECT_EQ(message({{"rate_per_s", "2"}}), "/loads/users/params/rate_per_s: must be a number");
  EXPECT_EQ(message({{"count", 1.5}}), "/loads/users/params/count: must be a whole number");
  EXPECT_EQ(message({{"shape", "poison"}}),
            "/loads/users/params/shape: \"poison\" is not one of: poisson, constant");
  EXPECT_EQ(message({{"arrivals", {{"poisson", {{"rate", 1}}}}}}),
            "/loads/users/params/arrivals/poisson/rate: unknown key; did you mean \"rate_per_s\"?");
  EXPECT_EQ(message({{"arrivals", {{"poisson", Json::object()}, {"none", Json::object()}}}}),
            "/loads/users/params/arrivals: must be an object with exactly one of: poisson, none");
}

TEST(Params, WritesWhatItReads) {
  Holder holder;
  const Json written = write_params(holder.params());
  Holder again;
  again.rate = 1;
  ASSERT_TRUE(read_params(written, again.params()).ok());
  EXPECT_EQ(again.rate, 6);
}

TEST(Params, SchemaSaysTheSameAsTheReader) {
  Holder holder;
  const Json schema = schema_of(holder.params());
  EXPECT_EQ(schema["properties"]["rate_per_s"]["maximum"], 10);
  EXPECT_EQ(schema["additionalProperties"], false);
  EXPECT_EQ(schema["properties"]["shape"]["enum"].size(), 2u);
}

TEST(Params, ListsOfNumbersAreCheckedOneByOne) {
  std::vector<double> factors = {1, 3};
  const Params params = {numbers("factors", &factors, "of the rate", {.min = 0, .max = 9})};
  EXPECT_EQ(write_params(params).at("factors"), Json::array({1.0, 3.0}));
  ASSERT_TRUE(read_params({{"factors", {2, 0.5}}}, params).ok());
  EXPECT_EQ(factors, (std::vector<double>{2, 0.5}));
  const auto message = [&](const Json& json) {
    const Status status = read_params(json, params);
    return status.ok() ? "" : status.error().message;
  };
  EXPECT_EQ(message({{"factors", {1, 10}}}), "/factors/1: 10 is out of range (0 to 9)");
  EXPECT_EQ(message({{"factors", {1, "x"}}}), "/factors/1: must be a number");
  EXPECT_EQ(message({{"factors", 3}}), "/factors: must be a list of numbers");
  EXPECT_EQ(factors, (std::vector<double>{2, 0.5})) << "what is wrong changes nothing";
  const Json schema = schema_of(params)["properties"]["factors"];
  EXPECT_EQ(schema["items"]["maximum"], 9);
}

TEST(Params, RequiredKeysAreMissed) {
  double value = 0;
  const Status status = read_params(Json::object(), {required(number("x", &value, "x"))}, "/a");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "/a: \"x\" is missing");
}

}  // namespace
}  // namespace mixproof
