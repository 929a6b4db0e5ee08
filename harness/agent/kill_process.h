// The operator of KillProcess: SIGKILL by pidfd, to the processes that were meant and no others.
#pragma once

#include <memory>

#include "harness/base/host_operation.h"

namespace mixproof {

// `host` must outlive it.
std::unique_ptr<HostOperator> make_kill_process(const HostView& host);

}  // namespace mixproof
