#include "probes/inference/socket.h"

#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "probes/inference/clock.h"

namespace mixproof::inference {
namespace {

bool is_our_limit(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM ||
         error == EADDRNOTAVAIL || error == EAGAIN;
}

}  // namespace

Connecting start_connect(const Endpoint& endpoint) {
  Fd fd(::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                 IPPROTO_TCP));
  if (!fd) return {Fd{}, errno, is_our_limit(errno)};
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const int stamps = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
  setsockopt(fd.get(), SOL_SOCKET, SO_TIMESTAMPING, &stamps,
             sizeof(stamps));  // without it `lag` is not recorded
  const auto* address = reinterpret_cast<const sockaddr*>(&endpoint.address);
  if (::connect(fd.get(), address, endpoint.address_size) != 0 && errno != EINPROGRESS)
    return {Fd{}, errno, is_our_limit(errno)};
  return {std::move(fd), 0, false};
}

int connect_error(int fd) {
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

Received receive(int fd, std::span<char> buffer) {
  alignas(cmsghdr) std::array<char, 256> control;
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  Received received;
  do {
    received.bytes = ::recvmsg(fd, &message, 0);
  } while (received.bytes < 0 && errno == EINTR);
  if (received.bytes < 0) {
    received.error = errno;
    return received;
  }
  for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr;
       item = CMSG_NXTHDR(&message, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_TIMESTAMPING) continue;
    scm_timestamping stamps{};
    std::memcpy(&stamps, CMSG_DATA(item), sizeof(stamps));
    if (stamps.ts[0].tv_sec != 0)
      received.kernel_realtime_ns = stamps.ts[0].tv_sec * kSecond + stamps.ts[0].tv_nsec;
  }
  return received;
}

}  // namespace mixproof::inference
