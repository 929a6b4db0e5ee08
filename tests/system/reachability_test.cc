// The probe that asks whether nodes answer, over a cable of the test's own.
#include <nlohmann/json.hpp>

#include "probes/probe.h"
#include "tests/fake/row_list.h"
#include "tests/system/private_net.h"

namespace mixproof {
namespace {

class ReachabilitySystem : public PrivateNet {
 protected:
  static Json target(const std::string& name, const std::string& address) {
    return {{"name", name}, {"address", address}};
  }
  // Rows by name.
  std::map<std::string, Json> ask(const std::vector<Json>& targets) {
    for (const ProbeSpec* spec : all_probes())
      if (spec->name == "reachability") {
        const auto probe = spec->create();
        const Status read = read_params({{"targets", targets}, {"window_s", 0.2}}, probe->params());
        EXPECT_TRUE(read.ok()) << read.error().message;
        fake::RowList rows;
        ProbeContext context{.rows = rows};
        const Status prepared = probe->prepare(context);
        EXPECT_TRUE(prepared.ok()) << prepared.error().message;
        const Status ran = probe->run(context);
        EXPECT_TRUE(ran.ok()) << ran.error().message;
        checked_ = probe->check(context);
        std::map<std::string, Json> out;
        for (const Json& row : rows.rows()) out[text_at(row, "of")] = row;
        return out;
      }
    return {};
  }
  std::string link_local_of_peer() const {
    std::string text = on_peer("ip -o -6 addr show dev cable scope link").text;
    const std::size_t begin = text.find("fe80"), end = text.find('/', begin);
    EXPECT_NE(begin, std::string::npos) << text;
    return text.substr(begin, end - begin);
  }

  Status checked_ = ok();
};

TEST_F(ReachabilitySystem, CountsAnswersOfEveryKindOfAddress) {
  const std::string link_local = link_local_of_peer();
  // Until the kernel has found that address unique, it does not answer.
  EXPECT_TRUE(eventually(
      [&] {
        auto rows = ask({target("four", kPeer4), target("six", kPeer6), target("link", link_local),
                         target("nobody", "10.99.0.200")});
        return rows.size() == 4 && number_at(rows["four"], "reachable") == 1 &&
               number_at(rows["six"], "reachable") == 1 &&
               number_at(rows["link"], "reachable") == 1 &&
               number_at(rows["nobody"], "reachable", -1) == 0;
      },
      std::chrono::seconds(15)));
  EXPECT_TRUE(checked_.ok());
  const auto rows = ask({target("four", kPeer4)});
  EXPECT_EQ(integer_at(rows.at("four"), "sent"), 20);
  EXPECT_GT(number_at(rows.at("four"), "rtt_p50_s"), 0);
  EXPECT_LT(number_at(rows.at("four"), "rtt_p50_s"), 0.3);
}

TEST_F(ReachabilitySystem, OneAddressThatAnswersIsEnough) {
  const auto rows = ask({target("node", "10.99.0.200"), target("node", kPeer6)});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(number_at(rows.at("node"), "reachable"), 1);
  EXPECT_EQ(rows.at("node").at("addresses")[0].at("answered"), 0);
}

TEST_F(ReachabilitySystem, WhatIsDroppedIsNotAnswered) {
  ASSERT_EQ(on_peer("nft add table inet t; "
                    "nft add chain inet t c { type filter hook input priority 0\\; }; "
                    "nft add rule inet t c icmp type echo-request drop")
                .text,
            "");
  const auto rows = ask({target("four", kPeer4), target("six", kPeer6)});
  EXPECT_EQ(number_at(rows.at("four"), "reachable", -1), 0);
  EXPECT_EQ(number_at(rows.at("six"), "reachable", -1), 1);
  EXPECT_EQ(rows.at("four").count("rtt_p50_s"), 0u);
}

// Whoever looked only for the address that was asked would take a leak for a cut.
TEST_F(ReachabilitySystem, AnAnswerFromAnotherAddressIsAnAnswer) {
  ASSERT_EQ(on_peer("nft add table ip t; "
                    "nft add chain ip t c { type filter hook postrouting priority 0\\; }; "
                    "nft add rule ip t c ip saddr 10.99.0.2 ip saddr set 10.99.0.77")
                .text,
            "");
  const auto rows = ask({target("four", kPeer4)});
  EXPECT_EQ(number_at(rows.at("four"), "reachable", -1), 1);
}

TEST_F(ReachabilitySystem, NoWayIsAnErrorAndNoMeasurement) {
  const auto rows = ask({target("far", "192.0.2.1"), target("four", kPeer4)});
  EXPECT_EQ(number_at(rows.at("four"), "reachable"), 1);
  ASSERT_FALSE(checked_.ok());
  EXPECT_EQ(checked_.error().code, Code::kUnavailable);
  EXPECT_NE(checked_.error().message.find("far"), std::string::npos);
}

}  // namespace
}  // namespace mixproof
