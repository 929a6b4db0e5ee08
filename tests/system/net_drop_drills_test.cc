// Drills of net_drop: whatever of ours is killed while a node is cut off from another, it hears
// from it again in time, `recover` proves it, and the node is as it was.
#include "tests/fake/paths.h"
#include "tests/system/drill_fixture.h"

namespace mixproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

class NetDropDrills : public Drills {
 protected:
  void SetUp() override {
    Drills::SetUp();
    if (IsSkipped()) return;
    ASSERT_NO_FATAL_FAILURE(bring_up(3));
    peer_ = lab_.nodes[1].name;
    ASSERT_TRUE(eventually([this] { return echo(1) && echo(2); }, seconds(10)));
    ASSERT_NO_FATAL_FAILURE(take_before());
  }

  // A fresh one, from the node of the fault to another node.
  bool echo(std::size_t to) const {
    return in_node(node_, "ping -n -c 1 -W 0.2 " + lab_.nodes[to].address).status == 0;
  }
  void inject(const std::string& length, const std::string& lease = "15s") {
    ASSERT_NO_FATAL_FAILURE(
        Drills::inject("net_drop", {"--from", peer_, "--for", length, "--lease", lease}));
    ASSERT_FALSE(echo(1));
    ASSERT_TRUE(echo(2)) << "the third node is not cut off";
  }
  double ms_until_echo(milliseconds limit) const {
    return ms_until([this] { return echo(1); }, limit);
  }

  std::string peer_;
};

TEST_F(NetDropDrills, TheSnapshotSeesTheTableAndItsEnd) {
  EXPECT_EQ(snapshot(), before_) << "left alone it does not change";
  ASSERT_NO_FATAL_FAILURE(inject("3s"));
  const std::string during = snapshot();
  EXPECT_NE(during.find("table inet mixproof_"), std::string::npos) << during;
  EXPECT_EQ(inject_->status(seconds(20)), 0) << inject_->output();
  EXPECT_NE(inject_->output().find("net_drop: clean"), std::string::npos) << inject_->output();
  EXPECT_TRUE(echo(1));
  expect_recovered();
}

TEST_F(NetDropDrills, KillingControllerAgentAndGuardTogether) {
  std::vector<double> took_ms;
  for (int i = 0; i < 2; ++i) {
    ASSERT_NO_FATAL_FAILURE(inject("60s", "3s"));
    for (const int pid : {inject_->pid(), agent_, guard_}) kill_hard(pid);
    took_ms.push_back(ms_until_echo(seconds(4)));
    EXPECT_GE(took_ms.back(), 0) << "no echo within the lease of 3 s and a second";
    inject_.reset();
    expect_recovered();
  }
  std::printf("from SIGKILL of controller, agent and guard to an echo: %.1f and %.1f ms\n",
              took_ms[0], took_ms[1]);
}

TEST_F(NetDropDrills, KillingTheControllerAlone) {
  ASSERT_NO_FATAL_FAILURE(inject("60s"));
  inject_->kill();
  const double took_ms = ms_until_echo(seconds(3));
  EXPECT_GE(took_ms, 0) << "the agent reverts when nobody talks to it any more";
  EXPECT_TRUE(
      eventually([this] { return ::kill(agent_, 0) != 0 && ::kill(guard_, 0) != 0; }, seconds(5)));
  EXPECT_EQ(journal_states(), "clean");
  expect_recovered();
}

TEST_F(NetDropDrills, KillingTheAgentAlone) {
  ASSERT_NO_FATAL_FAILURE(inject("60s", "3s"));
  kill_hard(agent_);
  EXPECT_FALSE(echo(1)) << "its guard holds it until the lease ends";
  EXPECT_GE(ms_until_echo(seconds(4)), 0) << "its lease was 3 s";
  EXPECT_EQ(inject_->status(seconds(30)), 3) << inject_->output();
  EXPECT_NE(inject_->output().find("clean (proved by a new agent on " + node_ + ")"),
            std::string::npos)
      << inject_->output();
  expect_recovered();
}

TEST_F(NetDropDrills, KillingTheGuardAlone) {
  ASSERT_NO_FATAL_FAILURE(inject("60s"));
  kill_hard(guard_);
  EXPECT_GE(ms_until_echo(seconds(2)), 0) << "its table went with it";
  EXPECT_EQ(inject_->status(seconds(20)), 3) << "it did not last: " << inject_->output();
  EXPECT_NE(inject_->output().find("net_drop: guard_lost"), std::string::npos) << inject_->output();
  EXPECT_NE(inject_->output().find("net_drop: clean"), std::string::npos) << inject_->output();
  expect_recovered();
}

// The peer's packets come from an address that is not among those known, in one case only those
// that it sends of itself, by source NAT: the rule is there and does not do what it is for.
TEST_F(NetDropDrills, ARuleThatIsShadowedIsNotEffective) {
  const std::string known = lab_.nodes[1].address, unknown = "10.77.0.177";
  ASSERT_EQ(in_node(node_, "ip route add " + unknown + " via " + known).text, "");
  ASSERT_NO_FATAL_FAILURE(take_before());
  const std::string rewriting[] = {
      "{ type filter hook postrouting priority 0; }\"; nft add rule ip shadow out ip saddr " +
          known + " ip saddr set " + unknown,
      "{ type nat hook postrouting priority 100; }\"; nft add rule ip shadow out ip saddr " +
          known + " snat to " + unknown};
  for (const std::string& rules : rewriting) {
    const Outcome made =
        in_node(peer_, "nft add table ip shadow; nft \"add chain ip shadow out " + rules);
    ASSERT_EQ(made.text, "");
    ASSERT_NO_FATAL_FAILURE(
        Drills::inject("net_drop", {"--from", peer_, "--for", "2s"}, "not_effective"))
        << rules;
    EXPECT_EQ(inject_->status(seconds(40)), 2) << inject_->output();
    EXPECT_EQ(inject_->output().find("net_drop: effective"), std::string::npos);
    EXPECT_NE(inject_->output().find("net_drop: clean"), std::string::npos) << inject_->output();
    expect_recovered();
    ASSERT_EQ(in_node(peer_, "nft delete table ip shadow").text, "");
  }
}

// Both ends cut, one of them for longer: the first is not dirty because the other one is still on.
TEST_F(NetDropDrills, TwoSidesThatEndOneAfterTheOther) {
  Command other({kMixproofBinary, "fault", "inject", "net_drop", "--on", peer_, "--from", node_,
                 "--yes", "--for", "6s"},
                directory_ + "/other.log");
  ASSERT_TRUE(other.says("net_drop: effective", seconds(15))) << other.output();
  Command first(fault_command("net_drop", {"--from", peer_, "--for", "1s"}),
                directory_ + "/first.log");
  // What cannot be reached before proves nothing, and is no reason to be dirty afterwards.
  EXPECT_EQ(first.status(seconds(40)), 2) << first.output();
  EXPECT_NE(first.output().find("net_drop: clean"), std::string::npos) << first.output();
  EXPECT_EQ(other.status(seconds(40)), 0) << other.output();
  expect_recovered();
}

TEST_F(NetDropDrills, ALossLetsTheRestThrough) {
  ASSERT_NO_FATAL_FAILURE(
      Drills::inject("net_drop", {"--from", peer_, "--for", "3s", "--param", "loss=0.5"}));
  EXPECT_TRUE(eventually([this] { return echo(1); }, seconds(10)));
  EXPECT_EQ(inject_->status(seconds(20)), 0) << inject_->output();
  expect_recovered();
}

TEST_F(NetDropDrills, AMarkWithoutAJournalIsFoundAndEnded) {
  const std::string table = "inet mixproof_0000000000000001";
  ASSERT_EQ(in_node(node_, "nft add table " + table).text, "");
  EXPECT_NE(snapshot(), before_);
  const Outcome recovered =
      shell(format("timeout 30 %s fault recover --on %s", kMixproofBinary, node_.c_str()));
  EXPECT_EQ(recovered.status, 0) << recovered.text;
  EXPECT_NE(recovered.text.find("found without a journal"), std::string::npos) << recovered.text;
  EXPECT_EQ(snapshot(), before_);
}

TEST_F(NetDropDrills, ADryRunChangesNothing) {
  const Outcome plan =
      shell(format("timeout 30 %s fault inject net_drop --on %s --from %s --dry-run",
                   kMixproofBinary, node_.c_str(), peer_.c_str()));
  EXPECT_EQ(plan.status, 0) << plan.text;
  EXPECT_NE(plan.text.find("touches packets from " + peer_), std::string::npos) << plan.text;
  EXPECT_EQ(plan.text.find("all but TCP"), std::string::npos) << plan.text;
  // As an agent that ssh has started from the peer.
  const Outcome reached = shell(format(
      "SSH_CONNECTION='%s 50000 %s 22' timeout 30 %s fault inject net_drop --on %s --from %s "
      "--dry-run",
      lab_.nodes[1].address.c_str(), lab_.nodes[0].address.c_str(), kMixproofBinary, node_.c_str(),
      peer_.c_str()));
  EXPECT_NE(reached.text.find("all but TCP from " + lab_.nodes[1].address + " to port 22"),
            std::string::npos)
      << reached.text;
  EXPECT_EQ(snapshot(), before_);
}

}  // namespace
}  // namespace mixproof
