// Two network namespaces of the test's own with a cable between them: the test process moves into
// one of them, the other one is its peer. The machine's own namespace is never touched.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#include <chrono>
#include <memory>

#include "harness/base/text.h"
#include "harness/base/unique_fd.h"
#include "tests/system/lab_fixture.h"
#include "tests/system/victim.h"

namespace mixproof {

class PrivateNet : public testing::Test {
 protected:
  static constexpr const char* kOwn4 = "10.99.0.1";
  static constexpr const char* kOwn6 = "fd99::1";
  static constexpr const char* kPeer4 = "10.99.0.2";
  static constexpr const char* kPeer6 = "fd99::2";

  // IPv6 addresses are good at once, without a search for others that have them.
  static constexpr const char* kAtOnce = "echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad;";

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: it makes network namespaces";
    home_ = UniqueFd(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
    ASSERT_GE(home_.get(), 0);
    const auto home = inode();
    peer_ = std::make_unique<Forked>([] {
      if (::unshare(CLONE_NEWNET) != 0) ::_exit(1);
      while (true) ::pause();
    });
    const std::string theirs = format("/proc/%d/ns/net", peer_->pid());
    ASSERT_TRUE(eventually(
        [&] {
          struct stat file {};
          return ::stat(theirs.c_str(), &file) == 0 && file.st_ino != home;
        },
        std::chrono::seconds(5)));
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0);
    moved_ = true;
    ASSERT_NE(inode(), home);
    const std::string made =
        shell(format("%s ip link set lo up; ip link add cable type veth peer name cable netns %d; "
                     "ip addr add %s/24 dev cable; ip addr add %s/64 dev cable nodad; "
                     "ip link set cable up",
                     kAtOnce, peer_->pid(), kOwn4, kOwn6))
            .text;
    ASSERT_EQ(made, "");
    ASSERT_EQ(on_peer(format("%s ip link set lo up; ip addr add %s/24 dev cable; "
                             "ip addr add %s/64 dev cable nodad; ip link set cable up",
                             kAtOnce, kPeer4, kPeer6))
                  .text,
              "");
    for (const char* own : {kOwn4, kOwn6})
      ASSERT_TRUE(eventually([&] { return echo(own); }, std::chrono::seconds(10))) << own;
  }

  void TearDown() override {
    peer_.reset();
    if (moved_) {
      ASSERT_EQ(::setns(home_.get(), CLONE_NEWNET), 0);
    }
  }

  static std::uint64_t inode() {
    struct stat file {};
    EXPECT_EQ(::stat("/proc/self/ns/net", &file), 0);
    return file.st_ino;
  }
  Outcome on_peer(const std::string& command) const {
    return shell(format("nsenter -t %d -n sh -c '%s'", peer_->pid(), command.c_str()));
  }
  // A fresh echo from the peer to us.
  bool echo(const std::string& own) const {
    return on_peer("ping -n -c 1 -W 0.3 " + own).status == 0;
  }
  // Of so many, spread over about a second.
  int echoes(const std::string& own, int count) const {
    const std::string text =
        on_peer(format("ping -q -n -c %d -i 0.004 -W 0.3 %s", count, own.c_str())).text;
    const std::size_t comma = text.find("transmitted, ");
    EXPECT_NE(comma, std::string::npos) << text;
    return comma == std::string::npos ? -1 : std::atoi(text.c_str() + comma + 13);
  }
  // The packet filter and the network of this namespace.
  static std::string snapshot() {
    return shell(
               "nft -s list ruleset; ip -d link; ip addr | grep -v valid_lft; ip route; ip -6 "
               "route; ip rule")
        .text;
  }

  std::unique_ptr<Forked> peer_;

 private:
  UniqueFd home_;
  bool moved_ = false;
};

}  // namespace mixproof
