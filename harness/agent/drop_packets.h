// The operator of DropPackets: an nft table that belongs to the socket of its holder where the
// kernel knows that (Linux 5.12), with its addresses on a timer of the lease's length. When the
// holder dies the kernel deletes the table at once, or lets its addresses expire; such an empty
// table drops nothing and is left for `recover`.
#pragma once

#include <memory>

#include "harness/base/host_operation.h"

namespace mixproof {

// `host` must outlive it. Its tables live no longer than this object, in the network namespace in
// which it is first used.
std::unique_ptr<HostOperator> make_drop_packets(const HostView& host);

}  // namespace mixproof
