// Sockets of the client: non-blocking TCP with the kernel's receive stamps.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <optional>
#include <span>

#include "harness/base/handle.h"
#include "probes/inference/request.h"

namespace mixproof::inference {

struct FdTraits {
  using Raw = int;
  static Raw null() { return -1; }
  static void close(Raw fd) noexcept { ::close(fd); }
};
using Fd = Handle<FdTraits>;

struct Connecting {
  Fd fd;
  int error = 0;           // errno, when there is no fd
  bool our_limit = false;  // no descriptor, port or memory left here: says nothing about the server
};

// Begins to connect; the socket is writable once the outcome is known (connect_error).
Connecting start_connect(const Endpoint& endpoint);
int connect_error(int fd);  // 0: connected

std::int64_t round_trip_ns(int fd);  // the least that the kernel saw; 0 when it does not know

struct Received {
  std::int64_t bytes = 0;  // 0: end of file; -1: see error
  int error = 0;
  std::optional<std::int64_t>
      kernel_realtime_ns;  // of the newest bytes of this read, CLOCK_REALTIME
};

Received receive(int fd, std::span<char> buffer);

}  // namespace mixproof::inference
