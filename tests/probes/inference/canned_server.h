// A server that answers every request with what a function says, and keeps what it was asked.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "tests/fake/loopback.h"

namespace mixproof::inference {

class CannedServer {
 public:
  // `answer` gets the request, head and body; called by one thread at a time.
  explicit CannedServer(std::function<std::string(const std::string& request)> answer)
      : answer_(std::move(answer)),
        listener_([this](int fd, const std::stop_token& stop) { serve(fd, stop); }) {}

  std::string url() const { return "http://127.0.0.1:" + std::to_string(listener_.port()); }
  int port() const { return listener_.port(); }
  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

  static std::string json(const std::string& body, const std::string& status = "200 OK") {
    return "HTTP/1.1 " + status +
           "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
  }
  static std::string body_of(const std::string& request) {
    return request.substr(request.find("\r\n\r\n") + 4);
  }

 private:
  // Empty at the end of the connection.
  static std::string next_request(int fd, const std::stop_token& stop, std::string& left) {
    std::size_t wanted = std::string::npos;
    while (!stop.stop_requested()) {
      const std::size_t head = left.find("\r\n\r\n");
      const std::size_t length = left.find("Content-Length: ");
      if (head != std::string::npos && length < head)
        wanted = head + 4 + std::stoul(left.substr(length + 16));
      if (left.size() >= wanted) {
        std::string request = left.substr(0, wanted);
        left.erase(0, wanted);
        return request;
      }
      if (!LoopbackListener::readable(fd)) continue;
      char buffer[4096];
      const ssize_t n = ::recv(fd, buffer, sizeof(buffer), 0);
      if (n <= 0) return "";
      left.append(buffer, static_cast<std::size_t>(n));
    }
    return "";
  }

  void serve(int fd, const std::stop_token& stop) {
    std::string left;
    for (std::string request = next_request(fd, stop, left); !request.empty();
         request = next_request(fd, stop, left)) {
      std::string out;
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
        out = answer_(request);
      }
      if (::send(fd, out.data(), out.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(out.size()))
        return;
    }
  }

  std::mutex mutex_;
  std::function<std::string(const std::string&)> answer_;
  std::vector<std::string> requests_;
  LoopbackListener listener_;
};

}  // namespace mixproof::inference
