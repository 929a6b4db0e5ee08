#include "probes/inference/null_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <queue>
#include <string_view>
#include <vector>

#include "harness/base/check.h"
#include "harness/base/text.h"
#include "probes/inference/clock.h"
#include "probes/inference/null_answers.h"
#include "probes/inference/socket.h"

namespace mixproof::inference {
namespace {

constexpr std::uint64_t kListener = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kWake = kListener - 1;
constexpr std::size_t kMaxRequestBytes = 16 << 20;
constexpr std::size_t kMaxArrivals = 1'000'000;

struct HttpRequest {
  std::string method, target, body;
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return out;
}

// Takes one whole request (with a Content-Length or without a body) off the front; nothing while it
// is incomplete.
std::optional<HttpRequest> take_request(std::string& in) {
  const std::size_t head_end = in.find("\r\n\r\n");
  if (head_end == std::string::npos) return std::nullopt;
  const std::string head = in.substr(0, head_end);
  std::size_t length = 0;
  for (const std::string& line : split(head, '\n'))
    if (const std::string text = lower(line); starts_with(text, "content-length:"))
      length = static_cast<std::size_t>(std::max(0LL, std::atoll(text.c_str() + 15)));
  if (in.size() < head_end + 4 + length) return std::nullopt;
  HttpRequest request;
  request.method = head.substr(0, head.find(' '));
  const std::size_t target = request.method.size() + 1;
  if (target < head.size()) request.target = head.substr(target, head.find(' ', target) - target);
  request.body = in.substr(head_end + 4, length);
  in.erase(0, head_end + 4 + length);
  return request;
}

Result<Fd> listen_on(const std::string& address, int port, int* bound) {
  sockaddr_storage storage{};
  socklen_t size = 0;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<std::uint16_t>(port));
    size = sizeof(sockaddr_in);
  } else if (inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<std::uint16_t>(port));
    size = sizeof(sockaddr_in6);
  } else {
    return Error{Code::kInvalid, "\"" + address + "\" is not a numeric address"};
  }
  Fd fd(::socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_error("socket");
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const std::string where = address + " port " + std::to_string(port);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&storage), size) != 0) {
    const int error = errno;
    if (error == EADDRINUSE) return Error{Code::kRefused, where + ": " + std::strerror(error)};
    return system_error("bind " + where, error);
  }
  if (::listen(fd.get(), 4096) != 0) return system_error("listen " + where);
  size = sizeof(storage);
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&storage), &size) != 0)
    return system_error("getsockname");
  *bound = ntohs(storage.ss_family == AF_INET ? v4->sin_port : v6->sin6_port);
  return fd;
}

class NullServer {
 public:
  NullServer(const NullServerOptions& options, NullServerCounts& counts)
      : options_(options), counts_(counts) {}

  Status serve(const std::stop_token& stop);

 private:
  struct Connection {
    Fd fd;
    std::uint64_t generation = 0;
    std::string in, out;
    bool answering = false, close_when_written = false, watching_write = false;
    bool has_slot = false;
    int served = 0;
    NullAnswer answer;
    NullRequest request;
    std::int64_t sent_tokens = 0;
  };
  struct Due {
    std::int64_t at = 0;
    std::uint32_t index = 0;
    std::uint64_t generation = 0;
    bool operator>(const Due& other) const { return at > other.at; }
  };

  Status open();
  Status turn();
  void accept_all();
  void readable(std::uint32_t index);
  void take_requests(std::uint32_t index);
  void respond(std::uint32_t index, const HttpRequest& request);
  void begin_answer(std::uint32_t index, NullRequest request);
  void take_slot(std::uint32_t index);
  void leave_slot();
  void step(std::uint32_t index);
  void end_answer(std::uint32_t index);
  void send(std::uint32_t index, std::string_view bytes);
  void flush(std::uint32_t index);
  void close(std::uint32_t index);
  void watch(std::uint32_t index, std::uint32_t events, int operation);
  void wait_until(std::uint32_t index, std::int64_t at) {
    due_.push({at, index, connections_[index]->generation});
  }
  std::string counts_text() const;
  std::string arrivals_text() const;

  const NullServerOptions& options_;
  NullServerCounts& counts_;
  Fd epoll_, listener_, wake_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::uint32_t> free_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::deque<Due> waiting_;  // for a slot
  int busy_slots_ = 0;
  std::vector<std::int64_t> arrivals_;
  std::int64_t read_at_ = 0;  // of the newest read
  std::array<char, 64 * 1024> buffer_{};
};

Status NullServer::open() {
  int bound = 0;
  listener_ = TRY(listen_on(options_.address, options_.port, &bound));
  epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  wake_ = Fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!epoll_ || !wake_) return system_error("epoll_create1, eventfd");
  for (const auto& [fd, token] :
       {std::pair{listener_.get(), kListener}, std::pair{wake_.get(), kWake}}) {
    epoll_event interest{};
    interest.events = EPOLLIN;
    interest.data.u64 = token;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &interest) != 0)
      return system_error("epoll_ctl");
  }
  if (options_.on_listening) options_.on_listening(bound);
  return ok();
}

Status NullServer::serve(const std::stop_token& stop) {
  TRY(open());
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {  // thousands of streams
    descriptors.rlim_cur = descriptors.rlim_max;
    setrlimit(RLIMIT_NOFILE, &descriptors);
  }
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  const std::stop_callback wake(stop, [this] { eventfd_write(wake_.get(), 1); });
  while (!stop.stop_requested()) TRY(turn());
  return ok();
}

Status NullServer::turn() {
  while (!due_.empty() && due_.top().at <= monotonic_ns()) {
    const Due due = due_.top();
    due_.pop();
    if (connections_[due.index]->generation == due.generation) step(due.index);
  }
  std::array<epoll_event, 256> ready;
  timespec timeout{};
  if (!due_.empty())
    timeout = timespec_of(std::max<std::int64_t>(0, due_.top().at - monotonic_ns()));
  const int count = epoll_pwait2(epoll_.get(), ready.data(), static_cast<int>(ready.size()),
                                 due_.empty() ? nullptr : &timeout, nullptr);
  if (count < 0 && errno != EINTR) return system_error("epoll_pwait2");
  for (int e = 0; e < count; ++e) {
    const epoll_event& event = ready[static_cast<std::size_t>(e)];
    if (event.data.u64 == kWake) continue;
    if (event.data.u64 == kListener) {
      accept_all();
      continue;
    }
    const auto index = static_cast<std::uint32_t>(event.data.u64);
    const Connection& connection = *connections_[index];
    if (!connection.fd) continue;
    if ((event.events & EPOLLOUT) != 0) flush(index);
    if (connection.fd && (event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0)
      readable(index);
  }
  return ok();
}

void NullServer::accept_all() {
  while (true) {
    Fd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) return;
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    std::uint32_t index = 0;
    if (free_.empty()) {
      connections_.push_back(std::make_unique<Connection>());
      index = static_cast<std::uint32_t>(connections_.size() - 1);
    } else {
      index = free_.back();
      free_.pop_back();
    }
    connections_[index]->fd = std::move(fd);
    watch(index, EPOLLIN, EPOLL_CTL_ADD);
    ++counts_.connections;
  }
}

void NullServer::watch(std::uint32_t index, std::uint32_t events, int operation) {
  epoll_event interest{};
  interest.events = events;
  interest.data.u64 = index;
  CHECK(epoll_ctl(epoll_.get(), operation, connections_[index]->fd.get(), &interest) == 0);
}

void NullServer::close(std::uint32_t index) {
  Connection& connection = *connections_[index];
  if (!connection.fd) return;
  const std::uint64_t generation = connection.generation + 1;
  const bool had_slot = connection.has_slot;
  connection = Connection{};
  connection.generation = generation;  // what is due for it is void
  free_.push_back(index);
  if (had_slot) leave_slot();
}

void NullServer::readable(std::uint32_t index) {
  Connection& connection = *connections_[index];
  const ssize_t n = ::recv(connection.fd.get(), buffer_.data(), buffer_.size(), 0);
  read_at_ = monotonic_ns();
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return close(index);
  connection.in.append(buffer_.data(), static_cast<std::size_t>(n));
  if (connection.in.size() > kMaxRequestBytes) return close(index);
  take_requests(index);
}

void NullServer::take_requests(std::uint32_t index) {
  Connection& connection = *connections_[index];
  while (connection.fd && !connection.answering) {
    // Not the letter of a method: TLS, perhaps. Servers answer that they understand nothing.
    if (!connection.in.empty() && (connection.in.front() < 'A' || connection.in.front() > 'Z')) {
      connection.close_when_written = true;
      return send(index, plain_response(400, "Bad Request", "application/json",
                                        R"({"error":{"message":"not HTTP"}})"));
    }
    const std::optional<HttpRequest> request = take_request(connection.in);
    if (!request) return;
    ++connection.served;
    respond(index, *request);
  }
}

void NullServer::respond(std::uint32_t index, const HttpRequest& request) {
  if (request.target == "/health")
    return send(index, plain_response(200, "OK", "application/json", R"({"status":"ok"})"));
  if (request.target == "/counts")
    return send(index, plain_response(200, "OK", "application/json", counts_text()));
  if (request.target == "/arrivals")
    return send(index, plain_response(200, "OK", "application/json", arrivals_text()));
  if (request.method != "POST" || request.target != "/v1/chat/completions")
    return send(index, plain_response(404, "Not Found", "application/json",
                                      R"({"error":{"message":"no such page"}})"));
  ++counts_.requests;
  if (arrivals_.size() < kMaxArrivals) arrivals_.push_back(read_at_);
  Result<NullRequest> wanted = parse_null_request(request.body);
  if (!wanted)
    return send(index, plain_response(400, "Bad Request", "application/json",
                                      R"({"error":{"message":"not JSON"}})"));
  begin_answer(index, std::move(*wanted));
}

void NullServer::begin_answer(std::uint32_t index, NullRequest request) {
  Connection& connection = *connections_[index];
  if (request.manner == Manner::kClose ||
      (request.manner == Manner::kDropReused && connection.served > 1))
    return close(index);
  if (request.manner == Manner::kFreeze) {  // as a stopped process: nobody is served meanwhile
    const timespec pause = timespec_of(request.pause_ns);
    nanosleep(&pause, nullptr);
  }
  connection.answer.start(request);
  connection.request = std::move(request);
  if (!connection.answer.is_stream()) return send(index, connection.answer.begin());
  connection.answering = true;
  connection.sent_tokens = 0;
  if (options_.slots > 0 && busy_slots_ >= options_.slots)
    return waiting_.push_back({0, index, connection.generation});
  take_slot(index);
}

void NullServer::take_slot(std::uint32_t index) {
  Connection& connection = *connections_[index];
  ++busy_slots_;
  connection.has_slot = true;
  const std::int64_t extra =
      connection.request.manner == Manner::kStallFirst ? connection.request.pause_ns : 0;
  const std::int64_t first_at =
      monotonic_ns() + extra + static_cast<std::int64_t>(options_.ttft_ms * 1e6);
  if (connection.request.manner == Manner::kAtOnce) {  // as a proxy that buffers
    std::string all = connection.answer.begin();
    for (std::int64_t t = 0; t < connection.answer.tokens(); ++t)
      all += connection.answer.token(first_at);
    connection.out = std::move(all);
    connection.sent_tokens = connection.answer.tokens();
    counts_.tokens += connection.sent_tokens;
  } else {
    const std::uint64_t generation = connection.generation;
    send(index, connection.answer.begin());
    if (connection.generation != generation) return;
  }
  wait_until(index, first_at);
}

// To the longest waiting request that is still there.
void NullServer::leave_slot() {
  --busy_slots_;
  while (!waiting_.empty() && (options_.slots == 0 || busy_slots_ < options_.slots)) {
    const Due next = waiting_.front();
    waiting_.pop_front();
    if (connections_[next.index]->generation == next.generation) return take_slot(next.index);
  }
}

void NullServer::step(std::uint32_t index) {
  Connection& connection = *connections_[index];
  if (connection.sent_tokens >= connection.answer.tokens()) return end_answer(index);
  ++connection.sent_tokens;
  ++counts_.tokens;
  const std::int64_t now = monotonic_ns();
  const std::uint64_t generation = connection.generation;
  if (connection.sent_tokens < connection.answer.tokens()) {
    send(index, connection.answer.token(now));
    if (connection.generation != generation) return;
    const bool stalls = connection.request.manner == Manner::kStall && connection.sent_tokens == 1;
    return wait_until(index, now + static_cast<std::int64_t>(options_.gap_ms * 1e6) +
                                 (stalls ? connection.request.pause_ns : 0));
  }
  connection.out += connection.answer.token(now);  // the last one leaves with the end
  end_answer(index);
}

void NullServer::end_answer(std::uint32_t index) {
  Connection& connection = *connections_[index];
  connection.answering = false;
  connection.close_when_written = connection.answer.ends_connection();
  connection.has_slot = false;
  ++counts_.answers;
  send(index, connection.answer.end());
  leave_slot();
  if (connection.fd) take_requests(index);
}

void NullServer::send(std::uint32_t index, std::string_view bytes) {
  Connection& connection = *connections_[index];
  connection.out += bytes;
  if (!connection.watching_write) flush(index);
}

void NullServer::flush(std::uint32_t index) {
  Connection& connection = *connections_[index];
  while (!connection.out.empty()) {
    const ssize_t n =
        ::send(connection.fd.get(), connection.out.data(), connection.out.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      connection.out.erase(0, static_cast<std::size_t>(n));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return close(index);
    if (!connection.watching_write) watch(index, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
    connection.watching_write = true;
    return;
  }
  if (connection.watching_write) watch(index, EPOLLIN, EPOLL_CTL_MOD);
  connection.watching_write = false;
  if (connection.close_when_written) close(index);
}

std::string NullServer::counts_text() const {
  return format(R"({"connections":%lld,"requests":%lld,"answers":%lld,"tokens":%lld})",
                static_cast<long long>(counts_.connections),
                static_cast<long long>(counts_.requests), static_cast<long long>(counts_.answers),
                static_cast<long long>(counts_.tokens));
}

std::string NullServer::arrivals_text() const {
  std::string out = "[";
  for (const std::int64_t at : arrivals_) {
    if (out.size() > 1) out += ',';
    out += std::to_string(at);
  }
  return out + "]";
}

}  // namespace

Status serve_null(const NullServerOptions& options, std::stop_token stop) {
  NullServerCounts own;
  NullServer server(options, options.counts != nullptr ? *options.counts : own);
  return server.serve(stop);
}

}  // namespace mixproof::inference
