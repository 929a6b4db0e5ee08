// What is common to all kinds of services: the table, parameters checked and described by one
// declaration.
#include "suites/services/service.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace mixproof {
namespace {

std::string refusal(const std::string& kind, const Json& params) {
  const Result<Json> checked = service_kind(kind)->check_params(params, "/services/x/params");
  return checked ? "" : checked.error().message;
}

TEST(ServiceKinds, AreFoundByNameAndNothingElseIs) {
  std::vector<std::string> names;
  for (const ServiceKind& kind : service_kinds()) {
    names.push_back(kind.name);
    EXPECT_EQ(service_kind(kind.name), &kind);
    EXPECT_FALSE(kind.summary.empty());
    EXPECT_GT(kind.port, 0);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"command", "haproxy", "llama_cpp", "null_server"}));
  EXPECT_EQ(service_kind("llama"), nullptr);
}

TEST(ServiceKinds, FillInDefaultsThatTheyAcceptAgain) {
  for (const ServiceKind& kind : service_kinds()) {
    const Result<Json> complete = kind.check_params(Json::object(), "");
    ASSERT_TRUE(complete.ok()) << kind.name;
    EXPECT_FALSE(complete->empty()) << kind.name;
    const Result<Json> again = kind.check_params(*complete, "");
    ASSERT_TRUE(again.ok()) << kind.name;
    EXPECT_EQ(*again, *complete) << kind.name;
    for (auto it = complete->begin(); it != complete->end(); ++it)
      EXPECT_TRUE(kind.schema()["properties"].contains(it.key())) << kind.name << " " << it.key();
  }
}

TEST(ServiceKinds, NameThePlaceOfAWrongParameter) {
  EXPECT_EQ(refusal("llama_cpp", {{"layer", 2}}),
            "/services/x/params/layer: unknown key; did you mean \"layers\"?");
  EXPECT_EQ(refusal("llama_cpp", {{"layers", 0}}),
            "/services/x/params/layers: 0 is out of range (1 to 128)");
  EXPECT_EQ(refusal("llama_cpp", {{"width", 100}}),
            "/services/x/params/width: must be a multiple of 32");
  EXPECT_EQ(refusal("llama_cpp", {{"heads", 6}}),
            "/services/x/params/heads: 6 heads do not divide a width of 256 into even parts");
  EXPECT_EQ(refusal("haproxy", {{"server_timeout_s", 0}}),
            "/services/x/params/server_timeout_s: 0 is out of range (0.001 to 86400)");
  EXPECT_EQ(refusal("null_server", {{"ttft", 1}}),
            "/services/x/params/ttft: unknown key; did you mean \"ttft_ms\"?");
  EXPECT_EQ(refusal("command", {{"ready_path", "health"}}),
            "/services/x/params/ready_path: must begin with \"/\"");
  EXPECT_EQ(refusal("command", {{"url_path", "v1"}}),
            "/services/x/params/url_path: must be empty or begin with \"/\"");
  EXPECT_EQ(refusal("llama_cpp", {{"layers", 2}, {"width", 128}, {"heads", 4}}), "");
}

}  // namespace
}  // namespace mixproof
