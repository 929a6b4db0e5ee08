#include <gtest/gtest.h>

#include "harness/controller/lab.h"
#include "harness/controller/lab_files.h"

namespace mixproof {
namespace {

std::string names(std::string_view text) {
  const auto nodes = parse_lab_nodes(text);
  if (!nodes.ok()) return "error";
  std::string out;
  for (const auto& [name, role] : nodes.value()) out += name + "/" + role + " ";
  return out;
}

TEST(LabNodes, ANumberIsOneEdgeAndTheRestShared) {
  EXPECT_EQ(names("5"), "edge-0/edge serve-0/serve serve-1/serve train-0/train train-1/train ");
  EXPECT_EQ(names("4"), "edge-0/edge serve-0/serve serve-1/serve train-0/train ");
  EXPECT_EQ(names("1"), "edge-0/edge ");
}

TEST(LabNodes, RolesAreTakenInOrder) {
  EXPECT_EQ(names("train=2,storage=1"), "train-0/train train-1/train storage-0/storage ");
}

TEST(LabNodes, NonsenseIsInvalid) {
  for (const char* bad :
       {"", "0", "251", "-1", "5x", "edge", "edge=", "edge=0", "=2", "edge=1,edge=2", "edge=1,",
        "Edge=1", "../x=1", "edge=200,serve=200", "edge=1=2"}) {
    const auto nodes = parse_lab_nodes(bad);
    ASSERT_FALSE(nodes.ok()) << bad;
    EXPECT_EQ(nodes.error().code, Code::kInvalid) << bad;
  }
}

TEST(LinkRate, NeedsAUnitAndASensibleSize) {
  EXPECT_DOUBLE_EQ(parse_link_rate("1gbit").value(), 1e9);
  EXPECT_DOUBLE_EQ(parse_link_rate("2.5mbit").value(), 2.5e6);
  for (const char* bad :
       {"", "1", "gbit", "1gbyte", "-1gbit", "nangbit", "infgbit", "1bit", "1e9gbit", "1 gbit"})
    EXPECT_FALSE(parse_link_rate(bad).ok()) << bad;
}

TEST(LabName, CannotLeaveItsPlace) {
  for (const char* good : {"lab", "run-7", "0"}) EXPECT_TRUE(check_lab_name(good).ok()) << good;
  for (const char* bad : {"", ".", "..", "../x", "a/b", "-x", "x-", ".lock", "A", "a b", "a_b",
                          "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})
    EXPECT_FALSE(check_lab_name(bad).ok()) << bad;
  EXPECT_FALSE(lab_down("..").ok());
}

TEST(LabStale, DependsOnOwnerAndProcesses) {
  Lab lab;
  lab.name = "x";
  EXPECT_TRUE(lab_is_stale(lab)) << "a run's, and its owner is gone";
  lab.standing = true;
  EXPECT_TRUE(lab_is_stale(lab)) << "nothing of it runs";
  lab.damage = "cut short";
  EXPECT_FALSE(lab_is_stale(lab)) << "nobody knows whose it is";
}

}  // namespace
}  // namespace mixproof
