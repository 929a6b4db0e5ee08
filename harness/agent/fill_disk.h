// The operator of FillDisk: files without a name that take every free block, and blocks that become
// free meanwhile.
//
// preimage() makes the files, empty, and writes down their handles (name_to_handle_at(2)): inode
// and generation, which no later file has again. So whoever recovers the fault can ask the kernel
// for those very files; one is gone only when the kernel says that its handle is stale, which is
// after its blocks have been given back. Nameless files do not outlive the kernel: after a reboot
// there is nothing to look for.
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
