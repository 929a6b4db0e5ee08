#include "harness/agent/drop_rules.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mixproof {
namespace {

DropPackets a_drop() {
  return {.net_namespace = 1,
          .table = "mixproof_0123abcd",
          .from = {"10.77.0.4", "fe80::4", "10.77.0.3", "10.77.0.3"},
          .share = 1};
}

TEST(DropRules, APartitionOfBothFamilies) {
  EXPECT_EQ(drop_text(a_drop(), 15000, true),
            "create table inet mixproof_0123abcd { flags owner; }\n"
            "table inet mixproof_0123abcd {\n"
            "\tflags owner;\n"
            "\tset from4 {\n"
            "\t\ttype ipv4_addr; flags timeout;\n"
            "\t\telements = { 10.77.0.3 timeout 15000ms, 10.77.0.4 timeout 15000ms }\n"
            "\t}\n"
            "\tset from6 {\n"
            "\t\ttype ipv6_addr; flags timeout;\n"
            "\t\telements = { fe80::4 timeout 15000ms }\n"
            "\t}\n"
            "\tcounter dropped { }\n"
            "\tchain arriving {\n"
            "\t\ttype filter hook prerouting priority -300; policy accept;\n"
            "\t\ticmpv6 type { 133, 134, 135, 136 } accept\n"
            "\t\tip saddr @from4 counter name \"dropped\" drop\n"
            "\t\tip6 saddr @from6 counter name \"dropped\" drop\n"
            "\t}\n"
            "}\n");
}

TEST(DropRules, ALossThatSparesTheController) {
  DropPackets drop = a_drop();
  drop.from = {"10.77.0.3"};
  drop.share = 0.5;
  drop.spared_address = "10.77.0.3";
  drop.spared_port = 22;
  EXPECT_EQ(drop_text(drop, 1500, false),
            "create table inet mixproof_0123abcd\n"
            "table inet mixproof_0123abcd {\n"
            "\tset from4 {\n"
            "\t\ttype ipv4_addr; flags timeout;\n"
            "\t\telements = { 10.77.0.3 timeout 1500ms }\n"
            "\t}\n"
            "\tcounter dropped { }\n"
            "\tchain arriving {\n"
            "\t\ttype filter hook prerouting priority -300; policy accept;\n"
            "\t\tip saddr 10.77.0.3 tcp dport 22 accept\n"
            "\t\tip saddr @from4 numgen random mod 10000 < 5000 counter name \"dropped\" drop\n"
            "\t}\n"
            "}\n");
}

TEST(DropRules, ARenewalDeletesAndAddsEveryAddress) {
  EXPECT_EQ(
      renewal_text(a_drop(), 15000),
      "delete element inet mixproof_0123abcd from4 { 10.77.0.3, 10.77.0.4 }\n"
      "add element inet mixproof_0123abcd from4 { 10.77.0.3 timeout 15000ms, 10.77.0.4 timeout "
      "15000ms }\n"
      "delete element inet mixproof_0123abcd from6 { fe80::4 }\n"
      "add element inet mixproof_0123abcd from6 { fe80::4 timeout 15000ms }\n");
}

TEST(DropRules, OnlyWhatIsCheckedBecomesText) {
  ASSERT_TRUE(check_drop(a_drop()).ok());
  const auto refused = [](auto change) {
    DropPackets drop = a_drop();
    change(drop);
    const Status status = check_drop(drop);
    return !status.ok() && status.error().code == Code::kInvalid;
  };
  for (const char* table : {"", "mixproof", "filter", "mixproof_A", "mixproof_a b", "mixproof_a;",
                            "mixproof_a{", "mixproof_\n", "x mixproof_a"})
    EXPECT_TRUE(refused([&](DropPackets& drop) { drop.table = table; })) << table;
  EXPECT_TRUE(refused([](DropPackets& drop) { drop.table = "mixproof_" + std::string(80, 'a'); }));
  for (const char* address : {"", "node-1", "10.77.0.0/16", "10.77.0.3 }", "127.0.0.1", "::1",
                              "10.77.0.3 timeout 1d", "fe80::1%eth0"})
    EXPECT_TRUE(refused([&](DropPackets& drop) { drop.from.emplace_back(address); })) << address;
  EXPECT_TRUE(refused([](DropPackets& drop) { drop.from.clear(); }));
  EXPECT_TRUE(refused([](DropPackets& drop) { drop.from.assign(5000, "10.77.0.3"); }));
  for (const double share : {0.0, -1.0, 1.5, 1e-9, std::nan("")})
    EXPECT_TRUE(refused([&](DropPackets& drop) { drop.share = share; })) << share;
  EXPECT_TRUE(refused([](DropPackets& drop) { drop.spared_port = 22; })) << "of whom?";
  EXPECT_TRUE(refused([](DropPackets& drop) { drop.spared_address = "10.0.0.1"; }))
      << "which port?";
  EXPECT_TRUE(refused([](DropPackets& drop) {
    drop.spared_address = "10.0.0.1";
    drop.spared_port = 70000;
  }));
}

// As nft 1.0.6 prints it.
constexpr const char* kListing =
    "table inet mixproof_0123abcd { # progname mixproof\n"
    "\tflags owner\n"
    "\n"
    "\tcounter dropped {\n"
    "\t\tpackets 12 bytes 1008\n"
    "\t}\n"
    "\n"
    "\tset from4 {\n"
    "\t\ttype ipv4_addr\n"
    "\t\tflags timeout\n"
    "\t\telements = { 10.77.0.3 timeout 15s expires 14s992ms,\n"
    "\t\t\t     10.77.0.4 timeout 15s expires 14s992ms }\n"
    "\t}\n"
    "\n"
    "\tset from6 {\n"
    "\t\ttype ipv6_addr\n"
    "\t\tflags timeout\n"
    "\t\telements = { fe80::4 timeout 15s expires 14s992ms }\n"
    "\t}\n"
    "\n"
    "\tchain arriving {\n"
    "\t\ttype filter hook prerouting priority raw; policy accept;\n"
    "\t\ticmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert "
    "} accept\n"
    "\t\tip saddr @from4 counter name \"dropped\" drop\n"
    "\t\tip6 saddr @from6 counter name \"dropped\" drop\n"
    "\t}\n"
    "}\n";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

Status checked(const std::string& listing) {
  const DropTable table = TRY(read_table(listing));
  return check_table(table, a_drop(), 15000);
}

TEST(DropRules, AListingIsReadBack) {
  const Result<DropTable> table = read_table(kListing);
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_TRUE(table->owned);
  EXPECT_EQ(table->drop_rules, 2);
  EXPECT_EQ(table->packets, 12);
  EXPECT_EQ(table->bytes, 1008);
  ASSERT_EQ(table->elements.size(), 3u);
  EXPECT_EQ(table->elements[1].address, "10.77.0.4");
  EXPECT_EQ(table->elements[1].timeout_ms, 15000);
  EXPECT_EQ(table->elements[1].left_ms, 14992);
  EXPECT_TRUE(checked(kListing).ok());
  EXPECT_FALSE(read_table(replaced(kListing, "\tflags owner\n", ""))->owned);
}

TEST(DropRules, RulesThatAreNotWhatWasAskedForAreNoticed) {
  const std::pair<const char*, const char*> kChanges[] = {
      {"10.77.0.3 timeout 15s expires 14s992ms", "10.77.0.3"},       // permanent
      {"10.77.0.3 timeout 15s", "10.77.0.3 timeout 16s"},            // too long
      {"10.77.0.3 timeout 15s", "10.77.0.3 timeout 1s"},             // too short
      {"10.77.0.3 ", "10.77.0.9 "},                                  // another
      {"fe80::4", "fe80::5"},                                        //
      {"fe80::4", "fe80::4 timeout 15s expires 15s, fe80::5"},       // one more
      {"\t\tip6 saddr @from6 counter name \"dropped\" drop\n", ""},  // no rule
      {"timeout 15s", "timeout 15parsecs"},                          //
      {"packets 12 bytes 1008", "packets many"}};                    // no end
  for (const auto& [from, to] : kChanges)
    EXPECT_FALSE(checked(replaced(kListing, from, to)).ok()) << from << " -> " << to;
  EXPECT_FALSE(checked("table inet mixproof_0123abcd {\n}\n").ok()) << "made, and empty";
  EXPECT_FALSE(checked("").ok());
  const std::string whole = kListing;
  EXPECT_FALSE(checked(whole.substr(0, whole.find("10.77.0.4"))).ok()) << "cut off";
  EXPECT_TRUE(checked(replaced(kListing, "timeout 15s", "timeout 14s996ms")).ok())
      << "ticks of a kernel";
}

TEST(DropRules, TablesAreListedByName) {
  EXPECT_EQ(read_tables("table inet filter\ntable inet mixproof_1\ntable ip nat\n"),
            (std::vector<std::string>{"filter", "mixproof_1"}));
  EXPECT_TRUE(read_tables("").empty());
}

TEST(DropRules, TimesAreReadInNftsWay) {
  EXPECT_EQ(read_time_ms("15s120ms").value(), 15120);
  EXPECT_EQ(read_time_ms("1m39s").value(), 99000);
  EXPECT_EQ(read_time_ms("4ms").value(), 4);
  EXPECT_EQ(read_time_ms("1d1h").value(), 90'000'000);
  for (const char* bad : {"", "15", "s", "15s12", "1.5s", "-1s", "15 s", "never"})
    EXPECT_FALSE(read_time_ms(bad).ok()) << bad;
}

}  // namespace
}  // namespace mixproof
