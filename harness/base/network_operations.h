// Operations on what comes over the network.
// What each operation is and needs, its fields as JSON (read_fields: kCorrupt when they cannot be
// an operation's), and in words. host_operation.h has them all behind one type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/json.h"
#include "harness/base/result.h"

namespace mixproof {

// Packets that come in from these addresses are dropped before anything else sees them, in the
// node's own network namespace. The table belongs to its guard's socket and its addresses are on a
// timer of the lease's length: the kernel ends it either way.
struct DropPackets {
  static constexpr std::string_view kType = "drop_packets";
  std::uint64_t net_namespace = 0;  // inode: undone only in the namespace that it was made in
  std::string table;                // nft table of family inet; its name carries our mark
  std::vector<std::string> from;    // numeric, IPv4 and IPv6
  double share = 1;                 // of packets, chosen at random; 1: all
  // Never dropped, whatever `from` says: TCP to this port from this address (how the controller
  // reaches the agent). Port 0: none.
  std::string spared_address;
  int spared_port = 0;
};

Json fields_of(const DropPackets& drop);
Status read_fields(const Json& json, DropPackets& drop);
std::string describe(const DropPackets& drop);
std::string mark_of(const DropPackets& drop);

}  // namespace mixproof
