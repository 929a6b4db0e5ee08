// EpollWorld: the real World of one process. Not thread-safe: one thread makes it, uses it and runs
// it.
#pragma once

#include <functional>
#include <memory>

#include "harness/base/world.h"

namespace mixproof {

class RealWorld : public World {
 public:
  // Delivers events, one at a time, until `done` says so. The only call that waits.
  virtual void run_until(const std::function<bool()>& done) = 0;
};

// Blocks SIGTERM, SIGINT, SIGHUP and SIGPIPE in this process (the first three arrive through
// listen()).
Result<std::unique_ptr<RealWorld>> make_epoll_world();

std::unique_ptr<Files> make_real_files();
std::unique_ptr<HostView> make_real_host_view();

}  // namespace mixproof
