#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "faults/fault.h"
#include "tests/faults/fake_host.h"

namespace mixproof {
namespace {

std::unique_ptr<Fault> net_drop(double loss = 1) {
  for (const FaultSpec* spec : all_faults())
    if (spec->name == "net_drop") {
      auto fault = spec->create();
      EXPECT_TRUE(read_params({{"loss", loss}}, fault->params()).ok());
      return fault;
    }
  return nullptr;
}

FakeHost a_node() {
  FakeHost host;
  host.own_addresses = {"10.77.0.2", "fe80::2"};
  return host;
}

Target from_two() {
  Target target{.words = "train-0"};
  target.from = {{"serve-0", {"10.77.0.3", "fe80::3"}}, {"serve-1", {"10.77.0.4"}}};
  target.others = {{"edge-0", {"10.77.0.9"}}};
  target.mark = "mixproof_0123456789abcdef";
  return target;
}

Code refusal(const Target& target, const FakeHost& host = a_node(), double loss = 1) {
  const auto plan = net_drop(loss)->plan(host, target);
  EXPECT_FALSE(plan.ok());
  return plan.ok() ? Code::kInternal : plan.error().code;
}

TEST(NetDrop, PlansOneStepWithEveryAddressOfThePeers) {
  const auto plan = net_drop(0.25)->plan(a_node(), from_two());
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_EQ(plan->steps.size(), 1u);
  EXPECT_EQ(plan->steps[0].lease, Lease::kKernel);
  const auto& drop = std::get<DropPackets>(plan->steps[0].operation);
  EXPECT_EQ(drop.from, (std::vector<std::string>{"10.77.0.3", "fe80::3", "10.77.0.4"}));
  EXPECT_EQ(drop.table, "mixproof_0123456789abcdef");
  EXPECT_EQ(drop.share, 0.25);
  EXPECT_EQ(drop.net_namespace, a_node().net_namespace().value());
  EXPECT_EQ(drop.spared_port, 0);
  EXPECT_EQ(plan->touches, (std::vector<std::string>{"packets from serve-0 (10.77.0.3, fe80::3)",
                                                     "packets from serve-1 (10.77.0.4)"}));
}

TEST(NetDrop, APartitionIsLookedAtFromBothEndsAndLeavesTheOthersAlone) {
  const auto plan = net_drop()->plan(a_node(), from_two());
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->controls.size(), 4u);
  const std::string places[] = {"", "serve-0", "serve-1"};
  for (std::size_t i = 0; i < 3; ++i) {
    const Control& control = plan->controls[i];
    EXPECT_TRUE(control.positive);
    EXPECT_EQ(control.at, places[i]);
    EXPECT_EQ(control.low, 0);
    EXPECT_EQ(control.high, 0) << "one echo that comes back is one too many";
  }
  EXPECT_EQ(plan->controls[0].params.at("targets").size(), 3u);
  EXPECT_EQ(plan->controls[1].params.at("targets")[0].at("address"), "10.77.0.2");
  const Control& negative = plan->controls[3];
  EXPECT_FALSE(negative.positive);
  EXPECT_EQ(negative.of, "others");
  EXPECT_EQ(negative.low, 0.5);
  EXPECT_EQ(negative.high, 1);
  EXPECT_EQ(negative.params.at("targets")[0].at("address"), "10.77.0.9");
}

TEST(NetDrop, WithoutOthersThereIsNoNegativeControl) {
  Target target = from_two();
  target.others.clear();
  const auto plan = net_drop()->plan(a_node(), target);
  ASSERT_TRUE(plan.ok());
  for (const Control& control : plan->controls) EXPECT_TRUE(control.positive);
}

// The most that may come back leaves room for "nothing is lost" above it, the least reaches down
// to both directions at once.
TEST(NetDrop, TheRangeOfALossFollowsFromTheNumberOfEchoes) {
  for (const double loss : {0.02, 0.1, 0.5, 0.9}) {
    const auto plan = net_drop(loss)->plan(a_node(), from_two());
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    const Control& control = plan->controls[0];
    const auto count = control.params.at("count").get<double>();
    EXPECT_GE(count, 20) << loss;
    EXPECT_LE(count, 1000) << loss;
    EXPECT_LT(control.high, 1) << loss << ": an untouched network is outside";
    EXPECT_GT(control.high, 1 - loss) << "one direction is inside";
    EXPECT_LE(control.low, (1 - loss) * (1 - loss)) << "both directions are inside";
    EXPECT_LE(std::pow(1 - loss, count), 1e-6) << loss;
    EXPECT_DOUBLE_EQ(plan->controls.back().low, 1 - loss / 2);
  }
  // A coin for each of 20 echoes: P(19 or more) = 2.0e-5, P(20) = 9.5e-7 (exact).
  EXPECT_DOUBLE_EQ(net_drop(0.5)->plan(a_node(), from_two())->controls[0].high, 19.0 / 20);
}

TEST(NetDrop, ALossThatALookCannotShowIsRefused) {
  EXPECT_EQ(refusal(from_two(), a_node(), 0.01), Code::kInvalid);
  EXPECT_FALSE(read_params({{"loss", 0}}, net_drop()->params()).ok());
  EXPECT_FALSE(read_params({{"loss", 1.5}}, net_drop()->params()).ok());
}

TEST(NetDrop, SparesTheControllerOnlyWhereItWouldBeCut) {
  Target target = from_two();
  target.controller_address = "10.77.0.4";
  target.controller_port = 22;
  const auto plan = net_drop()->plan(a_node(), target);
  ASSERT_TRUE(plan.ok());
  const auto& drop = std::get<DropPackets>(plan->steps[0].operation);
  EXPECT_EQ(drop.spared_address, "10.77.0.4");
  EXPECT_EQ(drop.spared_port, 22);
  EXPECT_NE(plan->touches.back().find("10.77.0.4 to port 22"), std::string::npos);
  target.controller_address = "10.77.0.200";
  EXPECT_EQ(
      std::get<DropPackets>(net_drop()->plan(a_node(), target)->steps[0].operation).spared_port, 0);
}

TEST(NetDrop, LeavesOutAddressesThatMoreThanOneNodeHas) {
  FakeHost host = a_node();
  Target target = from_two();
  host.own_addresses.push_back("172.17.0.1");
  target.from[0].addresses.push_back("172.17.0.1");
  target.others[0].addresses.push_back("172.17.0.1");
  const auto plan = net_drop()->plan(host, target);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(std::get<DropPackets>(plan->steps[0].operation).from,
            (std::vector<std::string>{"10.77.0.3", "fe80::3", "10.77.0.4"}));
  EXPECT_NE(plan->touches.back().find("172.17.0.1, which more than one node has"),
            std::string::npos)
      << plan->touches.back();
  for (const Control& control : plan->controls)
    EXPECT_EQ(line_of(control.params).find("172.17.0.1"), std::string::npos) << control.params;
}

TEST(NetDrop, RefusesAddressesThatAreMissingSharedOrNone) {
  EXPECT_EQ(refusal({.words = "train-0"}), Code::kInvalid);
  Target target = from_two();
  target.from[1].addresses.clear();
  EXPECT_EQ(refusal(target), Code::kInvalid) << "a peer without address";
  target = from_two();
  target.from[1].addresses = {"10.77.0.2"};
  EXPECT_EQ(refusal(target), Code::kInvalid) << "our own";
  target.from[1].addresses = {"10.77.0.9"};
  EXPECT_EQ(refusal(target), Code::kInvalid) << "also an other's";
  target.from[1].addresses = {"serve-1"};
  EXPECT_EQ(refusal(target), Code::kInvalid) << "a name";
  target.from[1].addresses = {"10.77.0.4 }; flush ruleset; #"};
  EXPECT_EQ(refusal(target), Code::kInvalid);
  EXPECT_EQ(refusal(from_two(), FakeHost()), Code::kUnavailable) << "a node without address";
}

}  // namespace
}  // namespace mixproof
