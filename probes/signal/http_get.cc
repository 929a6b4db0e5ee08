#include "probes/signal/http_get.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "probes/inference/clock.h"
#include "probes/inference/http.h"
#include "probes/inference/socket.h"

namespace mixproof::signal {
namespace {

using inference::kMillisecond;

// How often a wait looks at the stop.
constexpr std::int64_t kSliceNs = 100 * kMillisecond;

Error unavailable(int error) { return {Code::kUnavailable, std::strerror(error)}; }

class Exchange {
 public:
  Exchange(std::int64_t deadline_ns, const std::stop_token& stop)
      : deadline_ns_(deadline_ns), stop_(stop) {}

  Result<Page> ask(const inference::Endpoint& endpoint, const std::string& target) {
    inference::Connecting connecting = inference::start_connect(endpoint);
    if (!connecting.fd) return unavailable(connecting.error);
    const int fd = connecting.fd.get();
    TRY(wait(fd, POLLOUT, "no connection"));
    if (const int error = inference::connect_error(fd); error != 0) return unavailable(error);
    TRY(send_all(fd, "GET " + target + " HTTP/1.1\r\nHost: " + endpoint.host +
                         "\r\nUser-Agent: mixproof\r\nAccept: text/plain;version=0.0.4, "
                         "*/*;q=0.5\r\nAccept-Encoding: identity\r\nConnection: close\r\n\r\n"));
    return read_all(fd);
  }

 private:
  Status wait(int fd, short events, const char* missing) const {
    while (!stop_.stop_requested()) {
      const std::int64_t left = deadline_ns_ - inference::monotonic_ns();
      if (left <= 0) return Error{Code::kTimeout, std::string(missing) + " before the deadline"};
      pollfd waiting{fd, events, 0};
      const auto slice = std::min(left, kSliceNs);
      if (poll(&waiting, 1, static_cast<int>((slice + kMillisecond - 1) / kMillisecond)) > 0)
        return ok();
    }
    return Error{Code::kRefused, "stopped"};
  }

  Status send_all(int fd, std::string_view rest) const {
    while (!rest.empty()) {
      const ssize_t sent = ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EAGAIN) {
        TRY(wait(fd, POLLOUT, "the request was not taken"));
        continue;
      }
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) return unavailable(errno);
      rest.remove_prefix(static_cast<std::size_t>(sent));
    }
    return ok();
  }

  Result<Page> read_all(int fd) const {
    inference::HttpResponse response;
    Page page;
    std::array<char, 16384> buffer;
    while (!response.done()) {
      TRY(wait(fd, POLLIN, "no whole answer"));
      const ssize_t count = ::recv(fd, buffer.data(), buffer.size(), 0);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (count < 0) return unavailable(errno);
      if (count == 0 && response.end_of_connection()) break;
      if (count == 0) return Error{Code::kCorrupt, "the answer was cut short"};
      if (!response.feed({buffer.data(), static_cast<std::size_t>(count)}, page.body))
        return Error{Code::kCorrupt, "not HTTP: " + response.error()};
      if (page.body.size() > kPageLimitBytes)
        return Error{Code::kCorrupt, "the answer is larger than 16 MiB"};
    }
    page.status = response.status();
    return page;
  }

  const std::int64_t deadline_ns_;
  const std::stop_token& stop_;
};

}  // namespace

Result<Url> resolve_url(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  const std::size_t slash =
      url.size() < kScheme.size() ? std::string::npos : url.find('/', kScheme.size());
  Url out;
  out.endpoint = TRY(inference::resolve_endpoint(url.substr(0, slash)));
  out.path = slash == std::string::npos ? "/" : url.substr(slash);
  return out;
}

Result<Page> http_get(const inference::Endpoint& endpoint, const std::string& target,
                      std::int64_t deadline_ns, const std::stop_token& stop) {
  return Exchange(deadline_ns, stop).ask(endpoint, target);
}

}  // namespace mixproof::signal
