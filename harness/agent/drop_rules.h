// The text of DropPackets for nft, and what nft's listings say: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/base/host_operation.h"

namespace mixproof {

// Everything that becomes nft text: addresses are numeric, the table carries our mark and plain
// letters, the share is one that a rule can express. kInvalid says what is not.
Status check_drop(const DropPackets& drop);
Status check_table_name(const std::string& table);

// A transaction that makes the table, and fails when there is one of that name. `owned`: the kernel
// deletes it when the socket that made it closes, and lets nobody else touch it (Linux 5.12).
// Packets are looked at on arrival ("prerouting"), before connection tracking, so that those for
// containers and others behind this node are dropped as well as its own. IPv6's neighbour and
// router discovery goes through, as ARP does for IPv4: otherwise a fault in one direction would
// stop both.
// Of a checked operation.
std::string drop_text(const DropPackets& drop, std::int64_t lease_ms, bool owned);

// Deletes and adds every address in one transaction, which fails when one of them has expired.
// Adding alone keeps the old timeout on some kernels and revives what has ended on all.
std::string renewal_text(const DropPackets& drop, std::int64_t lease_ms);

struct DropElement {
  std::string address;
  std::int64_t timeout_ms = 0, left_ms = 0;  // 0: none, it would stay for ever
};
struct DropTable {
  bool owned = false;  // by a socket that is open
  int drop_rules = 0;
  std::vector<DropElement> elements;
  std::int64_t packets = 0, bytes = 0;
};
// Of "list table". kCorrupt when an element or counter cannot be read.
Result<DropTable> read_table(const std::string& listing);

// ok when the table has a rule for every family and every address with this timeout, within the
// kernel's tick (at most 10 ms), and no other.
Status check_table(const DropTable& table, const DropPackets& drop, std::int64_t lease_ms);

// Names in "list tables inet".
std::vector<std::string> read_tables(const std::string& listing);

// "1m39s", "15s120ms", "1d2h": nft's way to write a time.
Result<std::int64_t> read_time_ms(const std::string& text);

}  // namespace mixproof
