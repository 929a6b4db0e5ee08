// The operator of FillDisk: a file without a name that takes every free block, and blocks that
// become free meanwhile.
//
// preimage() makes the file, empty, and writes down its handle (name_to_handle_at(2)): inode and
// generation, which no later file has again. So whoever recovers the fault can ask the kernel for
// that very file; it is gone only when the kernel says that the handle is stale, which is after its
// blocks have been given back. Nameless files do not outlive the kernel: after a reboot there is
// nothing to look for.
//
// Refused (kUnavailable): file systems that cannot make files without a name, reserve space or give
// handles, and those in memory that would take more than half of what the node has left.
#pragma once

#include <memory>

#include "harness/base/host_operation.h"

namespace mixproof {

// `host` must outlive it.
std::unique_ptr<HostOperator> make_fill_disk(const HostView& host);

}  // namespace mixproof
