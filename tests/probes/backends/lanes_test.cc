#include "probes/backends/lanes.h"

#include <gtest/gtest.h>

namespace mixproof {
namespace {

using Names = std::set<std::string>;

// As UCX 1.13.1 prints them.
constexpr const char* kTcp =
    "#\n# UCP endpoint \n#\n#               peer: <no debug data>\n"
    "#                 lane[0]:  0:tcp/lo.0 md[0]                -> md[0]/tcp/sysdev[255] rma_bw#0 "
    "am am_bw#0\n"
    "#                 lane[1]:  1:tcp/eth0.0 md[0]              -> md[0]/tcp/sysdev[255] rma_bw#1 "
    "wireup\n"
    "#\n#                tag_send: 0..<egr/short>..8185..<egr/zcopy>..8192..<rndv>..(inf)\n";
constexpr const char* kShared =
    "#                 lane[0]:  0:sysv/memory.0 md[0]           -> md[0]/sysv/sysdev[255] am "
    "am_bw#0\n"
    "#                 lane[1]:  3:tcp/eth0.0 md[2]              -> md[2]/tcp/sysdev[255] wireup\n";

TEST(Lanes, AreReadFromWhatUcxPrints) {
  EXPECT_EQ(lane_transports(kTcp).value(), Names{"tcp"});
  EXPECT_EQ(lane_transports(kShared).value(), (Names{"sysv", "tcp"}));
}

TEST(Lanes, AreAnErrorWhenNoneOrAStrangeOneIsShown) {
  EXPECT_EQ(lane_transports("# UCP endpoint\n").error().code, Code::kDevice);
  EXPECT_EQ(lane_transports("# lane[0]: tcp over lo\n").error().code, Code::kDevice);
  EXPECT_EQ(lane_transports("# lane[0] 2:tcp/lo.0 md\n").error().code, Code::kDevice);
}

TEST(Lanes, ThroughSharedMemoryAreRefusedWhenTcpWasAskedFor) {
  Status status = check_transports({"sysv", "tcp"}, "tcp");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kUnavailable);
  EXPECT_NE(status.error().message.find("through sysv"), std::string::npos);
  EXPECT_TRUE(check_transports({"tcp"}, "tcp"));
}

TEST(Lanes, MayUseAnyMemberOfANamedFamily) {
  EXPECT_TRUE(check_transports({"rc_mlx5", "ud_verbs"}, "rc,ud"));
  EXPECT_FALSE(check_transports({"rc_mlx5"}, "ud"));
  EXPECT_FALSE(check_transports({"tcp"}, "tc"));
  EXPECT_FALSE(check_transports({"tcp"}, ""));
}

}  // namespace
}  // namespace mixproof
