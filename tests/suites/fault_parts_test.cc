#include "suites/fault_parts.h"

#include <gtest/gtest.h>

#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

const Catalogue::Fault kOnProcesses{.name = "process_kill", .hits = "processes"};
const Catalogue::Fault kOnNodes{.name = "disk_fill", .hits = "node"};
const Catalogue::Fault kBetween{.name = "net_drop", .hits = "peers"};

FaultPlanEntry fault(const std::string& target, std::vector<std::string> peers = {},
                     const std::string& direction = "both") {
  FaultPlanEntry out;
  out.fault = "f";
  out.target = target;
  out.peers = std::move(peers);
  out.direction = direction;
  return out;
}

// "serve-0; train-0 from train-1,serve-0": one part a word.
std::string parts(const FaultPlanEntry& entry, const Catalogue::Fault& kind) {
  const auto found = fault_parts(entry, kind, "/f", FakeRun{}.plan());
  if (!found.ok()) return found.error().message;
  std::string out;
  for (const FaultPlanEntry::Part& part : *found) {
    out += (out.empty() ? "" : "; ") + part.node;
    std::string from;
    for (const std::string& node : part.from) from += (from.empty() ? "" : ",") + node;
    if (!from.empty()) out += " from " + from;
  }
  return out;
}

TEST(FaultParts, AProcessIsHitOnItsNode) {
  EXPECT_EQ(parts(fault("llm[1]"), kOnProcesses), "serve-1");
  EXPECT_EQ(parts(fault("front[0]"), kOnProcesses), "edge-0");
  EXPECT_EQ(parts(fault("trainer[1]"), kOnProcesses), "train-1");
}

TEST(FaultParts, ANodeIsNoProcessAndAProcessNoNode) {
  EXPECT_NE(parts(fault("serve-0"), kOnProcesses).find("/f/target: there is no target"),
            std::string::npos);
  EXPECT_NE(parts(fault("llm[0]"), kOnNodes).find("/f/target: there is no node or role"),
            std::string::npos);
  EXPECT_NE(parts(fault("llm[2]"), kOnProcesses).find("did you mean"), std::string::npos);
}

TEST(FaultParts, ARoleIsAllItsNodes) {
  EXPECT_EQ(parts(fault("serve-1"), kOnNodes), "serve-1");
  EXPECT_EQ(parts(fault("serve"), kOnNodes), "serve-0; serve-1");
}

TEST(FaultParts, PacketsAreDroppedWhereTheyComeIn) {
  EXPECT_EQ(parts(fault("train-0", {"train-1"}), kBetween),
            "train-0 from train-1; train-1 from train-0");
  EXPECT_EQ(parts(fault("train-0", {"train-1"}, "in"), kBetween), "train-0 from train-1");
  EXPECT_EQ(parts(fault("train-0", {"train-1"}, "out"), kBetween), "train-1 from train-0");
  EXPECT_EQ(parts(fault("edge", {"serve", "train-1"}), kBetween),
            "edge-0 from serve-0,serve-1,train-1; serve-0 from edge-0; serve-1 from edge-0; "
            "train-1 from edge-0");
}

TEST(FaultParts, APeerThatIsNamedTwiceIsOnePeer) {
  EXPECT_EQ(parts(fault("edge-0", {"serve-0", "serve"}, "in"), kBetween),
            "edge-0 from serve-0,serve-1");
}

TEST(FaultParts, PeersAreThereWhenTheyAreNeededAndOnlyThen) {
  EXPECT_EQ(parts(fault("train-0"), kBetween),
            "/f: f needs \"peers\": from whom train-0 is to be cut off");
  EXPECT_EQ(parts(fault("llm[0]", {"edge"}), kOnProcesses), "/f/peers: f has no peers");
  EXPECT_EQ(parts(fault("serve-0", {"edge"}), kOnNodes), "/f/peers: f has no peers");
}

TEST(FaultParts, NoNodeIsCutOffFromItself) {
  EXPECT_EQ(parts(fault("train-0", {"serve-0", "train"}), kBetween),
            "/f/peers/1: train-0 would be cut off from itself");
}

TEST(FaultWords, ReadWell) {
  EXPECT_EQ(fault_words(fault("llm[0]")), "f on llm[0]");
  EXPECT_EQ(fault_words(fault("train-0", {"train-1"})), "f between train-0 and train-1");
  EXPECT_EQ(fault_words(fault("edge", {"serve", "train-1"}, "in")),
            "f of what serve, train-1 sends to edge");
  EXPECT_EQ(fault_words(fault("edge", {"serve"}, "out")), "f of what edge sends to serve");
}

}  // namespace
}  // namespace mixproof
