#include "harness/controller/inventory.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace mixproof {
namespace {

Json site() {
  return Json::parse(R"({
    "nodes": [
      {"name": "a", "address": "10.0.0.1", "roles": ["edge", "serve"], "transport": "ssh"},
      {"name": "b", "address": "10.0.0.2", "roles": ["serve"], "transport": "ssh"},
      {"name": "c", "address": "fe80::1", "roles": ["serve"]}],
    "transports": {"ssh": {"prefix": ["ssh", "-o", "BatchMode=yes", "-o", "HostKeyAlias={name}", "{address}"],
                           "agent": "/opt/mix-proof_1/mixproof"}}})");
}

std::string refusal(const Json& json) {
  const Result<Inventory> read = read_inventory(json);
  if (read.ok()) return "";
  EXPECT_EQ(read.error().code, Code::kInvalid);
  return read.error().message;
}

Plan plan_of(const std::vector<NodePlan>& nodes) {
  Plan plan;
  plan.nodes = nodes;
  return plan;
}

TEST(Inventory, FillsInNameAndAddressOfTheNodeItself) {
  const Inventory inventory = read_inventory(site()).value();
  const auto nodes = nodes_from_inventory(
      inventory,
      plan_of({{.name = "serve-0", .role = "serve"}, {.name = "serve-1", .role = "serve"}}),
      "run-1");
  ASSERT_TRUE(nodes.ok()) << nodes.error().message;
  EXPECT_EQ(agent_command(nodes->at(1)),
            (std::vector<std::string>{"ssh", "-o", "BatchMode=yes", "-o", "HostKeyAlias=b",
                                      "10.0.0.2", "/opt/mix-proof_1/mixproof", "agent"}));
  EXPECT_EQ(nodes->at(1).name, "serve-1");
  EXPECT_EQ(nodes->at(1).cgroup, "mixproof/run-1/b");
}

TEST(Inventory, ANodeIsUsedOnceAndTooFewOfARoleAreNamed) {
  const Inventory inventory = read_inventory(site()).value();
  const auto nodes = nodes_from_inventory(inventory,
                                          plan_of({{.name = "edge-0", .role = "edge"},
                                                   {.name = "serve-0", .role = "serve"},
                                                   {.name = "serve-1", .role = "serve"},
                                                   {.name = "serve-2", .role = "serve"}}),
                                          "run-1");
  ASSERT_FALSE(nodes.ok());
  EXPECT_EQ(nodes.error().code, Code::kInvalid);
  EXPECT_NE(nodes.error().message.find("none is left for serve-2"), std::string::npos)
      << nodes.error().message;
}

TEST(Inventory, AProgramThatAShellWouldTakeApartIsRefused) {
  for (const char* agent :
       {"/opt/my tools/mixproof", "/opt/it's/mixproof", "mixproof;reboot", "$HOME/mixproof",
        "~/mixproof", "mix\"proof", "`mixproof`", "", "-c", "mixproof\nagent", "mixproof*"}) {
    Json json = site();
    json["transports"]["ssh"]["agent"] = agent;
    EXPECT_NE(refusal(json).find("/transports/ssh/agent"), std::string::npos) << agent;
  }
}

TEST(Inventory, ANameThatIsNoPlainWordIsRefused) {
  for (const char* name : {"", "..", "../x", "a/b", "a b", "-v", ".hidden", "a\nb"}) {
    Json json = site();
    json["nodes"][1]["name"] = name;
    EXPECT_NE(refusal(json).find("/nodes/1/name"), std::string::npos) << name;
  }
}

TEST(Inventory, AnAddressThatWouldBeAnOptionOrSeveralWordsIsRefused) {
  for (const char* address : {"", "-oProxyCommand=reboot", "10.0.0.1 reboot", "$(reboot)"}) {
    Json json = site();
    json["nodes"][2]["address"] = address;
    EXPECT_NE(refusal(json).find("/nodes/2/address"), std::string::npos) << address;
  }
}

TEST(Inventory, CoresAreThoseOfTheNodeAndNothingElseIsTakenForThem) {
  Json json = site();
  json["nodes"][1]["cpus"] = "0-3,8";
  const Inventory inventory = read_inventory(json).value();
  EXPECT_EQ(address_of(inventory, inventory.nodes[1], "r").cpus, "0-3,8");
  EXPECT_EQ(address_of(inventory, inventory.nodes[0], "r").cpus, "") << "all of them";
  for (const char* cpus : {"all", "0 1", "0;1"}) {
    json["nodes"][1]["cpus"] = cpus;
    EXPECT_NE(refusal(json).find("/nodes/1/cpus"), std::string::npos) << cpus;
  }
}

TEST(Inventory, ATransportThatIsNotThereIsNamedWithTheNearest) {
  Json json = site();
  json["nodes"][0]["transport"] = "shh";
  EXPECT_EQ(refusal(json),
            "/nodes/0/transport: there is no transport \"shh\"; did you mean \"ssh\"?");
}

TEST(Inventory, ANameThatIsThereTwiceIsRefused) {
  Json json = site();
  json["nodes"][2]["name"] = "a";
  EXPECT_EQ(refusal(json), "/nodes/2/name: \"a\" is there twice");
}

}  // namespace
}  // namespace mixproof
