#include "harness/transport/launcher.h"

#include <gtest/gtest.h>

#include <csignal>

namespace mixproof {
namespace {

constexpr int exited(int status) { return status << 8; }

TEST(Launcher, AProgramThatIsNotThereCannotWorkLater) {
  EXPECT_EQ(why_no_agent(exited(127), "bash: line 1: mixproof: command not found"), Code::kInvalid);
  EXPECT_EQ(why_no_agent(exited(126), "mixproof: Permission denied"), Code::kInvalid);
}

TEST(Launcher, AKeyThatSshRefusesCannotWorkLater) {
  EXPECT_EQ(why_no_agent(exited(255), "root@10.0.0.9: Permission denied (publickey)."),
            Code::kInvalid);
  EXPECT_EQ(why_no_agent(exited(255), "Host key verification failed."), Code::kInvalid);
}

TEST(Launcher, ANodeThatIsAwayMayBeBackLater) {
  EXPECT_EQ(why_no_agent(exited(255), "ssh: connect to host 10.0.0.9 port 22: Connection refused"),
            Code::kPeerLost);
  EXPECT_EQ(why_no_agent(exited(255), ""), Code::kPeerLost);
  EXPECT_EQ(why_no_agent(exited(1), "Permission denied"), Code::kPeerLost)
      << "not a word of ssh, which ends with 255";
  EXPECT_EQ(why_no_agent(SIGKILL, "Permission denied"), Code::kPeerLost);
}

}  // namespace
}  // namespace mixproof
