#include "harness/base/address.h"

#include <gtest/gtest.h>

namespace mixproof {
namespace {

TEST(Address, IsWrittenInOneWay) {
  EXPECT_EQ(canonical_address("10.77.0.3"), "10.77.0.3");
  EXPECT_EQ(canonical_address("FE80:0:0:0:0:0:0:1"), "fe80::1");
}

TEST(Address, WhatIsNoneOrNoSourceIsRefused) {
  for (const char* bad :
       {"", "node", "10.77.0", "10.77.0.3/24", "10.77.0.300", " 10.77.0.3", "10.77.0.3 ",
        "fe80::1%eth0", "0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "::", "::1",
        "ff02::1", "::ffff:10.77.0.3", "10.77.0.3 } drop; #", "10.77.0.3\n"})
    EXPECT_EQ(canonical_address(bad), "") << bad;
  EXPECT_EQ(canonical_address(std::string("10.77.0.3\0}", 11)), "");
}

TEST(Address, KnowsItsFamilyAndScope) {
  EXPECT_TRUE(is_ipv6("fe80::1"));
  EXPECT_FALSE(is_ipv6("10.77.0.3"));
  EXPECT_TRUE(is_link_local_ipv6("fe80::1"));
  EXPECT_FALSE(is_link_local_ipv6("fd00::1"));
  EXPECT_FALSE(is_link_local_ipv6("169.254.1.1"));
}

}  // namespace
}  // namespace mixproof
