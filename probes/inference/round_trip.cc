// By itself: <linux/tcp.h> knows the least round trip, and does not go with <netinet/tcp.h>.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "probes/inference/clock.h"
#include "probes/inference/socket.h"

namespace mixproof::inference {

// Not the smoothed one: an acknowledgement that waits for the answer makes it as long as that.
std::int64_t round_trip_ns(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return std::int64_t{info.tcpi_min_rtt} * kMicrosecond;
}

}  // namespace mixproof::inference
