#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "faults/fault.h"
#include "harness/base/params.h"
#include "tests/faults/fake_host.h"

namespace mixproof {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

FakeHost a_node() {
  FakeHost host;
  host.file_systems["/"] = {.device = 1, .bytes = 100 * kGiB, .free_bytes = 50 * kGiB};
  host.file_systems["/run/mixproof/shared"] = {
      .device = 2, .bytes = 4 * kGiB, .free_bytes = 3 * kGiB};
  return host;
}

Target node_target() {
  Target target;
  target.words = "train-0";
  target.kept_out = {"/", "/var/lib/mixproof"};
  return target;
}

Result<FaultPlan> plan_of(const FakeHost& host, const Target& target,
                          const Json& params = Json::object()) {
  for (const FaultSpec* spec : all_faults()) {
    if (spec->name != "disk_fill") continue;
    const auto fault = spec->create();
    TRY(read_params(params, fault->params()));
    return fault->plan(host, target);
  }
  return Error{Code::kInternal, "no such fault"};
}

TEST(DiskFill, PlansOneKernelLeasedStepThatKnowsItsFileSystem) {
  const auto plan = plan_of(a_node(), node_target());
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_EQ(plan->steps.size(), 1u);
  EXPECT_EQ(plan->steps[0].lease, Lease::kKernel);
  const auto& fill = std::get<FillDisk>(plan->steps[0].operation);
  EXPECT_EQ(fill.directory, "/run/mixproof/shared");
  EXPECT_EQ(fill.device, 2u);
  EXPECT_EQ(plan->touches,
            (std::vector<std::string>{"3221225472 free of 4294967296 bytes of the file system at "
                                      "/run/mixproof/shared, for everyone who writes there"}));
  EXPECT_NE(plan->residual_life.find("none"), std::string::npos);
}

TEST(DiskFill, ControlsWantWritesRefusedThereAndAcceptedWhereTheJournalsAre) {
  FakeHost host = a_node();
  auto plan = plan_of(host, node_target());
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->controls.size(), 2u);
  EXPECT_TRUE(plan->controls[0].positive);
  EXPECT_EQ(text_at(plan->controls[0].params, "path"), "/run/mixproof/shared");
  EXPECT_GE(plan->controls[0].low, 0.9);
  EXPECT_EQ(plan->controls[0].high, 1);
  EXPECT_FALSE(plan->controls[1].positive);
  EXPECT_EQ(text_at(plan->controls[1].params, "path"), "/")
      << "the state directory is not made yet";
  EXPECT_EQ(plan->controls[1].high, 0);

  host.file_systems["/var/lib/mixproof"] = {.device = 3, .bytes = kGiB, .free_bytes = kGiB / 2};
  plan = plan_of(host, node_target());
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(text_at(plan->controls[1].params, "path"), "/var/lib/mixproof");
}

TEST(DiskFill, RefusesTheFileSystemsOfRootAndOfJournals) {
  FakeHost host = a_node();
  host.file_systems["/scratch"] = host.file_systems["/"];
  auto plan = plan_of(host, node_target(), {{"path", "/scratch"}});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, Code::kInvalid);
  EXPECT_NE(plan.error().message.find("same file system as /,"), std::string::npos)
      << plan.error().message;

  host.file_systems["/var/lib/mixproof"] = host.file_systems["/run/mixproof/shared"];
  plan = plan_of(host, node_target());
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().message.find("/var/lib/mixproof"), std::string::npos);
}

TEST(DiskFill, RefusesASecondDeviceOverTheSameStorage) {
  FakeHost host = a_node();
  host.file_systems["/volume"] = host.file_systems["/"];
  host.file_systems["/volume"].device = 9;
  host.file_systems["/volume"].free_bytes -= 1 << 20;  // someone wrote between the two looks
  const auto plan = plan_of(host, node_target(), {{"path", "/volume"}});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, Code::kInvalid);
  EXPECT_NE(plan.error().message.find("same storage as /"), std::string::npos);
}

TEST(DiskFill, RefusesWhatIsNotThereAndWhatIsNotAbsolute) {
  auto plan = plan_of(a_node(), node_target(), {{"path", "/no/such/place"}});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, Code::kUnavailable);
  for (const char* path : {"", "shared", "./shared"}) {
    plan = plan_of(a_node(), node_target(), {{"path", path}});
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.error().code, Code::kInvalid);
  }
}

TEST(DiskFill, RefusesWhenItIsNotKnownWhatMustStayWritable) {
  Target target = node_target();
  target.kept_out.clear();
  EXPECT_FALSE(plan_of(a_node(), target).ok());
  FakeHost blind = a_node();
  blind.file_systems.erase("/");
  EXPECT_FALSE(plan_of(blind, node_target()).ok());
}

TEST(DiskFill, AFullFileSystemCanBePlannedForTheControlsToRefute) {
  FakeHost host = a_node();
  host.file_systems["/run/mixproof/shared"].free_bytes = 0;
  EXPECT_TRUE(plan_of(host, node_target()).ok());
}

}  // namespace
}  // namespace mixproof
