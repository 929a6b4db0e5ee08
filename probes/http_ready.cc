// http_ready: waits until a server answers 200, as people and proxies would find out, by asking it.
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "harness/base/handle.h"
#include "harness/base/text.h"
#include "probes/probe.h"

namespace mixproof {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr MetricSpec kMetrics[] = {
    {"service.ready_time", "s", Better::kLower, "from the first question to the first 200"},
};

// One question may take this long; a server that hangs is asked again.
constexpr milliseconds kAttempt{2000};
// How often a wait looks at the stop.
constexpr milliseconds kSlice{100};

struct SocketTraits {
  using Raw = int;
  static Raw null() { return -1; }
  static void close(Raw raw) noexcept { ::close(raw); }
};
using Socket = Handle<SocketTraits>;

struct Url {
  std::string host, port, path;
};

// http://host[:port][/path]; an IPv6 address stands in brackets.
Result<Url> parse_url(const std::string& text) {
  const Error wrong{Code::kInvalid, "/url: \"" + text + "\" is not http://host[:port][/path]"};
  constexpr std::string_view kScheme = "http://";
  if (!starts_with(text, kScheme)) return wrong;
  const std::size_t slash = text.find('/', kScheme.size());
  const std::string authority =
      text.substr(kScheme.size(), slash == text.npos ? slash : slash - kScheme.size());
  Url url{"", "80", slash == std::string::npos ? "/" : text.substr(slash)};
  const std::size_t bracket = authority.find(']');
  const std::size_t colon = authority.find(':', bracket == std::string::npos ? 0 : bracket);
  url.host = authority.substr(0, colon);
  if (colon != std::string::npos) url.port = authority.substr(colon + 1);
  if (bracket != std::string::npos) {
    if (url.host.front() != '[' || url.host.back() != ']') return wrong;
    url.host = url.host.substr(1, url.host.size() - 2);
  }
  const bool digits =
      !url.port.empty() && url.port.find_first_not_of("0123456789") == std::string::npos;
  const bool in_range = digits && url.port.size() <= 5 && std::stoi(url.port) <= 65535;
  if (url.host.empty() || !in_range || text.find_first_of(" \r\n") != std::string::npos)
    return wrong;
  return url;
}

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

Result<Address> resolve(const Url& url) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found);
  if (failed != 0)
    return Error{Code::kUnavailable, "cannot resolve " + url.host + ": " + gai_strerror(failed)};
  Address address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

// One question: connect, ask, read the status line. Leaves early on a stop or at `until`.
class Attempt {
 public:
  Attempt(const std::stop_token& stop, Clock::time_point until) : stop_(stop), until_(until) {}

  // The status, or what was seen instead of one.
  Result<int> ask(const Address& address, const Url& url) {
    const Socket socket(
        ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket) return system_error("socket");
    if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.storage),
                address.length) != 0) {
      if (errno != EINPROGRESS) return seen(errno);
      if (!wait(socket.get(), POLLOUT)) return silence("no connection");
      int error = 0;
      socklen_t size = sizeof error;
      getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) return seen(error);
    }
    const std::string request = "GET " + url.path + " HTTP/1.1\r\nHost: " + url.host + ":" +
                                url.port +
                                "\r\nConnection: close\r\nAccept-Encoding: identity\r\n\r\n";
    // A few hundred bytes always fit into the buffer of a new socket.
    if (send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(request.size()))
      return seen(errno);
    return read_status(socket.get());
  }

 private:
  static Error seen(int error) {
    std::string text = std::strerror(error);
    if (!text.empty())
      text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
    return {Code::kUnavailable, text};
  }
  static Error silence(const char* what) {
    return {Code::kTimeout, format("%s before the deadline of the question", what)};
  }

  bool wait(int socket, short events) const {
    while (!stop_.stop_requested()) {
      const auto left = std::chrono::duration_cast<milliseconds>(until_ - Clock::now());
      if (left.count() <= 0) return false;
      pollfd waiting{socket, events, 0};
      if (poll(&waiting, 1, static_cast<int>(std::min(left, kSlice).count())) > 0) return true;
    }
    return false;
  }

  Result<int> read_status(int socket) const {
    std::string head;
    while (head.find('\n') == std::string::npos) {
      if (!wait(socket, POLLIN)) return silence("no answer");
      std::array<char, 512> buffer{};
      const ssize_t count = recv(socket, buffer.data(), buffer.size(), 0);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (count < 0) return seen(errno);
      if (count == 0)
        return Error{Code::kUnavailable, "the connection was closed without an answer"};
      head.append(buffer.data(), static_cast<std::size_t>(count));
      if (head.size() > 4096) break;
    }
    int status = 0;
    if (std::sscanf(head.c_str(), "HTTP/1.%*1d %3d", &status) != 1)
      return Error{Code::kUnavailable, "an answer that is not HTTP"};
    return status;
  }

  const std::stop_token& stop_;
  Clock::time_point until_;
};

class HttpReady final : public Probe {
 public:
  Params params() override {
    return {required(text("url", &url_text_, "what is asked; http only")),
            number("deadline_s", &deadline_s_, "give up after", {.min = 0.01, .max = 86400}),
            number("interval_s", &interval_s_, "between questions", {.min = 0.001, .max = 60})};
  }

  Cost cost() override { return {.requests_per_s = 1 / interval_s_}; }

  Status prepare(ProbeContext& context) override {
    url_ = TRY(parse_url(url_text_));
    address_ = TRY(resolve(url_));
    context.info["url"] = url_text_;
    return ok();
  }

  Status run(ProbeContext& context) override {
    const Clock::time_point begin = Clock::now();
    const Clock::time_point end = begin + duration_of(deadline_s_);
    std::string last = "nothing was asked";
    while (!context.stop.stop_requested()) {
      const Clock::time_point now = Clock::now();
      if (now >= end)
        return Error{Code::kTimeout, format("%s did not answer 200 within %.10g s; last seen: %s",
                                            url_text_.c_str(), deadline_s_, last.c_str())};
      const Result<int> status =
          Attempt(context.stop, std::min(end, now + kAttempt)).ask(address_, url_);
      ready_ = status.ok() && *status == 200;
      if (ready_) {
        const std::chrono::duration<double> taken = Clock::now() - begin;
        context.rows.row({{"row", "sample"},
                          {"metric", "service.ready_time"},
                          {"value", taken.count()},
                          {"unit", "s"},
                          {"labels", {{"url", url_text_}}}});
        return ok();
      }
      last = status.ok() ? "status " + std::to_string(*status) : status.error().message;
      pause(context.stop, std::min(end, Clock::now() + duration_of(interval_s_)));
    }
    return ok();
  }

  Status check(ProbeContext&) override {
    if (ready_) return ok();
    return Error{Code::kTimeout, url_text_ + " was never seen to answer 200"};
  }

 private:
  static Clock::duration duration_of(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  static void pause(const std::stop_token& stop, Clock::time_point until) {
    while (!stop.stop_requested() && Clock::now() < until)
      std::this_thread::sleep_until(std::min(until, Clock::now() + kSlice));
  }

  std::string url_text_;
  double deadline_s_ = 60, interval_s_ = 0.1;
  Url url_;
  Address address_;
  bool ready_ = false;
};

std::unique_ptr<Probe> create() { return std::make_unique<HttpReady>(); }

}  // namespace

extern const ProbeSpec http_ready_probe;
const ProbeSpec http_ready_probe{
    .name = "http_ready",
    .summary = "waits until a URL answers 200",
    .load = false,
    .generator = true,
    .ranks = false,
    .metrics = kMetrics,
    .create = create,
};

}  // namespace mixproof
