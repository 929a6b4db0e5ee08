// A listening socket on a port of its own, and a thread for each connection to it.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace mixproof {

class LoopbackListener {
 public:
  // `serve` owns nothing: the socket is closed when it returns. It must return soon once stopped.
  explicit LoopbackListener(std::function<void(int fd, const std::stop_token& stop)> serve)
      : serve_(std::move(serve)) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = to(0);
    socklen_t size = sizeof(address);
    if (fd_ < 0 || ::bind(fd_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(fd_, 64) != 0 ||
        ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      std::abort();
    port_ = ntohs(address.sin_port);
    acceptor_ = std::jthread([this](const std::stop_token& stop) { accept(stop); });
  }
  ~LoopbackListener() {
    acceptor_.request_stop();
    acceptor_.join();
    connections_.clear();
    ::close(fd_);
  }
  LoopbackListener(const LoopbackListener&) = delete;
  LoopbackListener& operator=(const LoopbackListener&) = delete;

  int port() const { return port_; }

  static sockaddr_in to(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  // Whether there is something to read within 20 ms.
  static bool readable(int fd) {
    pollfd one{fd, POLLIN, 0};
    return ::poll(&one, 1, 20) > 0;
  }

 private:
  void accept(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (!readable(fd_)) continue;
      const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      connections_.emplace_back([this, fd](const std::stop_token& mine) {
        serve_(fd, mine);
        ::close(fd);
      });
    }
  }

  std::function<void(int, const std::stop_token&)> serve_;
  int fd_ = -1, port_ = 0;
  std::vector<std::jthread> connections_;  // of the acceptor's thread until it has ended
  std::jthread acceptor_;
};

}  // namespace mixproof
