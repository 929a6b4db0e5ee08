#include "harness/base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

namespace mixproof {
namespace {

bool no_source(const in_addr& address) {
  const std::uint32_t bits = ntohl(address.s_addr);
  return (bits >> 24) == 0 || (bits >> 24) == 127 || (bits >> 28) >= 0xe;
}

bool no_source(const in6_addr& address) {
  return IN6_IS_ADDR_UNSPECIFIED(&address) || IN6_IS_ADDR_LOOPBACK(&address) ||
         IN6_IS_ADDR_MULTICAST(&address) || IN6_IS_ADDR_V4MAPPED(&address);
}

}  // namespace

std::string canonical_address(const std::string& text) {
  char out[INET6_ADDRSTRLEN] = "";
  in_addr ipv4{};
  in6_addr ipv6{};
  if (text.find('\0') != std::string::npos) return "";
  if (::inet_pton(AF_INET, text.c_str(), &ipv4) == 1) {
    if (!no_source(ipv4)) ::inet_ntop(AF_INET, &ipv4, out, sizeof out);
  } else if (::inet_pton(AF_INET6, text.c_str(), &ipv6) == 1) {
    if (!no_source(ipv6)) ::inet_ntop(AF_INET6, &ipv6, out, sizeof out);
  }
  return out;
}

bool is_ipv6(const std::string& canonical) { return canonical.find(':') != std::string::npos; }

bool is_link_local_ipv6(const std::string& canonical) {
  in6_addr ipv6{};
  return ::inet_pton(AF_INET6, canonical.c_str(), &ipv6) == 1 && IN6_IS_ADDR_LINKLOCAL(&ipv6);
}

}  // namespace mixproof
