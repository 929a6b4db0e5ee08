// The operator of DropPackets: an nft table that belongs to the socket of its holder, with its
// addresses on a timer.
#pragma once

#include <memory>

#include "harness/base/host_operation.h"

namespace mixproof {

// `host` must outlive it.
std::unique_ptr<HostOperator> make_drop_packets(const HostView& host);

}  // namespace mixproof
