// The network of a lab: a bridge without any way out, and one shaped link a node. Internal to the
// lab.
#pragma once

#include "harness/controller/lab.h"

namespace mixproof {

inline constexpr std::size_t kLabNodesMax = 250;
std::string lab_address(std::size_t index);  // 10.77.0.2 and up

// Fabric and inits must be there. Inside a node its link is eth0; both directions are shaped, each
// at its sender.
Status make_network(const Lab& lab, double link_bits_per_s, const std::string& tools_cgroup);

}  // namespace mixproof
