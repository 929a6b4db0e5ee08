// Ring: the communicator of the UCX backend, on the tag interface.
#pragma once

#include <memory>

#include "probes/backends/communicator.h"

namespace mixproof {

Result<std::unique_ptr<Communicator>> create_ucx_ring(const CommunicatorOptions& options);

}  // namespace mixproof
