// The operator of HoldStopped: seizes every thread of a process by ptrace and keeps it in a tracing
// stop. The kernel detaches and resumes all of them when the process that holds this object dies,
// however it dies.
#pragma once

#include <memory>

#include "harness/base/host_operation.h"

namespace mixproof {

// `host` must outlive it. Must be used from one thread: ptrace ties a tracee to the thread that
// seized it.
std::unique_ptr<HostOperator> make_hold_stopped(const HostView& host);

}  // namespace mixproof
