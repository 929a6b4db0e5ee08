// The operator of FillDisk: a file without a name that takes every free block, and blocks that
// become free meanwhile.
#pragma once

#include <memory>

#include "harness/base/host_operation.h"

namespace mixproof {

// `host` must outlive it.
std::unique_ptr<HostOperator> make_fill_disk(const HostView& host);

}  // namespace mixproof
