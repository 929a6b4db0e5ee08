// Lanes: which transports the connections of a UCX endpoint use, read from the text that UCX prints
// about it.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "harness/base/result.h"

namespace mixproof {

// Transport names of all lanes in the output of ucp_ep_print_info (UCX 1.13 to 1.18: "lane[0]:
// 2:tcp/eth0.0 md[1] ..."). kDevice when it shows no lane, or one that cannot be read: an unknown
// format must not look like the right transport.
Result<std::set<std::string>> lane_transports(std::string_view printed);

// kUnavailable unless every used transport is one of those asked for ("tcp", or "rc,ud"). A name
// stands for its family: "rc" allows "rc_mlx5". Shared memory is never a silent substitute for a
// network.
Status check_transports(const std::set<std::string>& used, const std::string& asked);

}  // namespace mixproof
