// The operator of DropPackets against the kernel's packet filter.
#include "harness/agent/drop_packets.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "harness/agent/drop_rules.h"
#include "tests/system/private_net.h"

namespace mixproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class DropPacketsSystem : public PrivateNet {
 protected:
  void SetUp() override {
    PrivateNet::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    host_ = make_real_host_view();
    operator_ = make_drop_packets(*host_);
    drop_ = {.net_namespace = inode(),
             .table = "mixproof_0123456789abcdef",
             .from = {kPeer4, kPeer6},
             .share = 1};
    before_ = snapshot();
  }
  void TearDown() override {
    operator_.reset();
    PrivateNet::TearDown();
  }

  Status apply(std::chrono::nanoseconds lease) { return operator_->apply(drop_, lease); }
  void expect_undone() {
    const Status undone = operator_->undo(drop_, "");
    EXPECT_TRUE(undone.ok()) << undone.error().message;
    EXPECT_TRUE(operator_->undo(drop_, "").ok()) << "twice is once";
    const Status gone = operator_->verify_undone(drop_);
    EXPECT_TRUE(gone.ok()) << gone.error().message;
    EXPECT_EQ(snapshot(), before_);
    for (const char* own : {kOwn4, kOwn6}) EXPECT_TRUE(echo(own)) << own;
  }

  std::unique_ptr<HostView> host_;
  std::unique_ptr<HostOperator> operator_;
  DropPackets drop_;
  std::string before_;
};

TEST_F(DropPacketsSystem, DropsEverythingOfBothFamiliesUntilItIsUndone) {
  const Result<std::string> preimage = operator_->preimage(drop_);
  ASSERT_TRUE(preimage.ok()) << preimage.error().message;
  EXPECT_EQ(snapshot(), before_) << "a look changes nothing";
  const Status applied = apply(seconds(30));
  ASSERT_TRUE(applied.ok()) << applied.error().message;
  EXPECT_NE(snapshot(), before_);
  EXPECT_EQ(operator_->counted(drop_)->at("packets"), 0);
  for (const char* own : {kOwn4, kOwn6}) EXPECT_EQ(echoes(own, 20), 0) << own;
  EXPECT_GE(operator_->counted(drop_)->at("packets").get<int>(), 40);
  EXPECT_FALSE(operator_->verify_undone(drop_).ok()) << "it is not undone";
  EXPECT_EQ(operator_->preimage(drop_).error().code, Code::kConflict);
  expect_undone();
  EXPECT_FALSE(operator_->counted(drop_).ok()) << "what is gone counts nothing";
}

TEST_F(DropPacketsSystem, DropsAShareAtRandom) {
  drop_.share = 0.5;
  ASSERT_TRUE(apply(seconds(60)).ok());
  // Of 400 fair coins, 200 +- 8 standard deviations of 10.
  const int answered = echoes(kOwn4, 400);
  EXPECT_GT(answered, 120);
  EXPECT_LT(answered, 280);
  expect_undone();
}

TEST_F(DropPacketsSystem, ItsLeaseEndsByItselfAndIsNotRevived) {
  ASSERT_TRUE(apply(milliseconds(1500)).ok());
  const auto applied = std::chrono::steady_clock::now();
  EXPECT_FALSE(echo(kOwn4));
  EXPECT_TRUE(eventually([&] { return echo(kOwn4); }, seconds(5)));
  EXPECT_GE(std::chrono::steady_clock::now() - applied, milliseconds(1400));
  EXPECT_TRUE(echo(kOwn6));
  const Status renewed = operator_->renew(drop_, seconds(30));
  ASSERT_FALSE(renewed.ok());
  EXPECT_EQ(renewed.error().code, Code::kUnavailable) << renewed.error().message;
  EXPECT_TRUE(echo(kOwn4)) << "over is over";
  EXPECT_FALSE(operator_->verify_undone(drop_).ok()) << "its empty table is left";
  expect_undone();
}

TEST_F(DropPacketsSystem, ARenewedLeaseLastsLonger) {
  ASSERT_TRUE(apply(seconds(3)).ok());
  const Status renewed = operator_->renew(drop_, seconds(60));
  ASSERT_TRUE(renewed.ok()) << renewed.error().message;
  std::this_thread::sleep_for(milliseconds(3300));
  for (const char* own : {kOwn4, kOwn6}) EXPECT_FALSE(echo(own)) << own;
  expect_undone();
}

TEST_F(DropPacketsSystem, TheDeathOfTheHolderFreesAndNobodyElseMay) {
  std::vector<double> took_ms;
  for (int i = 0; i < 3; ++i) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    Forked holder([&] {
      const auto held = make_drop_packets(*host_);
      const char word = held->apply(drop_, seconds(60)).ok() ? 'y' : 'n';
      if (::write(ready[1], &word, 1) != 1) ::_exit(1);
      while (true) ::pause();
    });
    char word = 0;
    ASSERT_EQ(::read(ready[0], &word, 1), 1);
    ASSERT_EQ(word, 'y');
    ::close(ready[0]);
    ::close(ready[1]);
    EXPECT_FALSE(echo(kOwn4));
    EXPECT_EQ(operator_->undo(drop_, "").error().code, Code::kConflict) << "it is the holder's";
    EXPECT_TRUE(operator_->strays()->empty()) << "and no stray";
    EXPECT_FALSE(echo(kOwn4));
    const auto killed = std::chrono::steady_clock::now();
    holder.signal(SIGKILL);
    EXPECT_TRUE(
        eventually([&] { return operator_->verify_undone(drop_).ok(); }, milliseconds(1000)));
    took_ms.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - killed)
            .count());
    expect_undone();
  }
  std::sort(took_ms.begin(), took_ms.end());
  std::printf("from SIGKILL of the holder to no table: median %.1f ms, worst %.1f ms\n", took_ms[1],
              took_ms[2]);
}

TEST_F(DropPacketsSystem, AnotherNamespaceIsNotTouched) {
  ASSERT_EQ(on_peer("nft add table inet " + drop_.table).text, "");
  const std::string theirs = on_peer("nft list ruleset").text;
  EXPECT_TRUE(operator_->undo(drop_, "").ok()) << "there is none here";
  EXPECT_EQ(on_peer("nft list ruleset").text, theirs);
  ASSERT_TRUE(apply(seconds(30)).ok());
  DropPackets elsewhere = drop_;
  elsewhere.net_namespace += 1;
  EXPECT_EQ(operator_->undo(elsewhere, "").error().code, Code::kConflict);
  EXPECT_EQ(operator_->verify_undone(elsewhere).error().code, Code::kConflict);
  EXPECT_FALSE(operator_->preimage(elsewhere).ok());
  EXPECT_FALSE(operator_->apply(elsewhere, seconds(30)).ok());
  EXPECT_FALSE(operator_->verify_undone(drop_).ok()) << "ours is still there";
  expect_undone();
}

// As on a kernel whose tables have no owners: one that a dead guard left.
TEST_F(DropPacketsSystem, WhatCarriesOurMarkIsFoundWithoutAJournal) {
  ASSERT_EQ(shell("nft add table inet filter; nft add table inet mixproofing").text, "");
  before_ = snapshot();
  ASSERT_EQ(shell("printf '" + drop_text(drop_, 60000, false) + "' | nft -f -").text, "");
  EXPECT_FALSE(echo(kOwn4));
  const Result<std::vector<HostOperation>> strays = operator_->strays();
  ASSERT_TRUE(strays.ok()) << strays.error().message;
  ASSERT_EQ(strays->size(), 1u);
  EXPECT_EQ(mark_of(strays->front()), drop_.table);
  EXPECT_TRUE(operator_->undo(strays->front(), "").ok());
  EXPECT_TRUE(operator_->verify_undone(strays->front()).ok());
  EXPECT_TRUE(operator_->strays()->empty());
  expect_undone();
}

TEST_F(DropPacketsSystem, TheSparedConnectionIsHeardAndNothingElse) {
  const UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(2222);
  ASSERT_EQ(::bind(server.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
  ASSERT_EQ(::listen(server.get(), 8), 0);
  const auto connects = [&](const char* port) {
    return on_peer(format("timeout 1 bash -c \"</dev/tcp/%s/%s\"", kOwn4, port)).status;
  };
  drop_.spared_address = kPeer4;
  drop_.spared_port = 2222;
  ASSERT_TRUE(apply(seconds(30)).ok());
  EXPECT_EQ(connects("2222"), 0);
  EXPECT_EQ(connects("2223"), 124) << "not even refused";
  EXPECT_FALSE(echo(kOwn4));
  expect_undone();
}

TEST_F(DropPacketsSystem, WhatIsNotCheckedIsNotTried) {
  drop_.from = {"10.99.0.2 }; flush ruleset; #"};
  EXPECT_EQ(operator_->preimage(drop_).error().code, Code::kInvalid);
  EXPECT_EQ(apply(seconds(30)).error().code, Code::kInvalid);
  drop_.from = {kPeer4};
  EXPECT_EQ(apply(milliseconds(0)).error().code, Code::kTimeout) << "no lease, no rule";
  drop_.table = "filter";
  EXPECT_EQ(operator_->undo(drop_, "").error().code, Code::kInvalid) << "not our mark";
  EXPECT_EQ(snapshot(), before_);
}

}  // namespace
}  // namespace mixproof
