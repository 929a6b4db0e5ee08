// Numeric network addresses, as text.
#pragma once

#include <string>

namespace mixproof {

// As inet_ntop writes it; empty when the text is no numeric address, or one that no packet from
// another node has as its source: unspecified, loopback, multicast, broadcast, IPv4 mapped into
// IPv6.
std::string canonical_address(const std::string& text);

bool is_ipv6(const std::string& canonical);
bool is_link_local_ipv6(const std::string& canonical);  // reached only by naming an interface

}  // namespace mixproof
