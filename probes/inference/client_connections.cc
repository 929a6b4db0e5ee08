// The client's connections: pools, handshakes, what goes out.
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stop_token>

#include "harness/base/check.h"
#include "probes/inference/client.h"

namespace mixproof::inference {

Status Client::open_pool(std::int64_t deadline_ns, const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] { eventfd_write(wake_.get(), 1); });
  for (Pool& pool : pools_) {
    pool.open_failure.clear();
    pool.refill_at = 0;
  }
  const auto is_open = [this](const Pool& pool) { return pool.idle_count >= options_.connections; };
  while (true) {
    const std::int64_t now = monotonic_ns();
    const Pool* waiting = nullptr;
    for (Pool& pool : pools_) {
      if (is_open(pool)) continue;
      waiting = &pool;
      if (stop.stop_requested())
        return Error{Code::kTimeout, "stopped while connecting to " + pool.endpoint.url};
      if (pool.open_failure.empty()) refill(pool, now);
      if (!pool.open_failure.empty())
        return Error{Code::kPeerLost, "connect to " + pool.endpoint.url + ": " + pool.open_failure};
    }
    if (waiting == nullptr) return ok();
    if (now >= deadline_ns)
      return Error{Code::kTimeout, "connect to " + waiting->endpoint.url + ": " +
                                       std::to_string(waiting->idle_count) + " of " +
                                       std::to_string(options_.connections) +
                                       " connections opened in time"};
    TRY(turn(std::min(deadline_ns, now + 100 * kMillisecond)));
  }
}

std::uint32_t Client::free_index() {
  if (free_.empty()) {
    connections_.push_back(std::make_unique<Connection>());
    return static_cast<std::uint32_t>(connections_.size() - 1);
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  return index;
}

void Client::watch(std::uint32_t index, std::uint32_t events, int operation) {
  Connection& connection = *connections_[index];
  epoll_event interest{};
  interest.events = events;
  interest.data.u64 = (std::uint64_t{connection.generation} << 32) | index;
  CHECK(epoll_ctl(epoll_.get(), operation, connection.fd.get(), &interest) == 0);
}

// Begins to connect a closed slot; on failure the slot stays closed and belongs to the caller.
Connecting Client::connect(std::uint32_t index, std::uint32_t target) {
  Pool& pool = pools_[target];
  Connecting begun = start_connect(pool.endpoint);
  if (!begun.fd) return begun;
  Connection& connection = *connections_[index];
  connection.fd = std::move(begun.fd);
  ++connection.generation;
  connection.state = Connection::State::kOpening;
  connection.target = target;
  connection.was_pooled = connection.request_written = false;
  connection.out_done = 0;
  ++pool.open_count;
  watch(index, EPOLLOUT, EPOLL_CTL_ADD);
  return begun;
}

void Client::close(Connection& connection) {
  Pool& pool = pool_of(connection);
  if (connection.state == Connection::State::kIdle) --pool.idle_count;
  connection.fd.reset();  // leaves epoll with it
  connection.tls.reset();
  connection.wire.clear();
  connection.state = Connection::State::kClosed;
  ++connection.generation;
  connection.has_request = connection.wants_write = false;
  --pool.open_count;
}

void Client::make_idle(std::uint32_t index) {
  Connection& connection = *connections_[index];
  Pool& pool = pool_of(connection);
  connection.state = Connection::State::kIdle;
  ++pool.idle_count;
  pool.idle.push_back({index, connection.generation});
}

std::optional<std::uint32_t> Client::take_idle(Pool& pool) {
  while (!pool.idle.empty()) {
    const Slot slot = pool.idle.front();
    pool.idle.pop_front();
    Connection& connection = *connections_[slot.index];
    if (connection.generation != slot.generation || connection.state != Connection::State::kIdle)
      continue;
    --pool.idle_count;
    return slot.index;
  }
  return std::nullopt;
}

void Client::refill(Pool& pool, std::int64_t now) {
  while (pool.open_count < options_.connections && now >= pool.refill_at) {
    const std::uint32_t index = free_index();
    const auto target = static_cast<std::uint32_t>(&pool - pools_.data());
    if (const Connecting begun = connect(index, target); begun.error != 0) {
      free_.push_back(index);
      pool.open_failure = std::strerror(begun.error);
      pool.refill_at = now + kRefillPause;
    }
  }
}

std::int64_t Client::next_refill() const {
  std::int64_t at = kNever;
  for (const Pool& pool : pools_)
    if (pool.open_count < options_.connections) at = std::min(at, pool.refill_at);
  return at;
}

// The socket is open; with TLS the handshake is next.
void Client::connected(std::uint32_t index) {
  Connection& connection = *connections_[index];
  const Pool& pool = pool_of(connection);
  watch(index, EPOLLIN | EPOLLRDHUP, EPOLL_CTL_MOD);
  if (!pool.endpoint.tls) return ready(index);
  connection.tls = std::make_unique<TlsSession>(*tls_, pool.endpoint.name);
  connection.wire.clear();
  if (!connection.tls->error().empty()) return broken(index, connection.tls->error(), false);
  connection.tls->take_output(connection.wire);
  flush(index);
}

// May take a request.
void Client::ready(std::uint32_t index) {
  Connection& connection = *connections_[index];
  if (!connection.has_request) return make_idle(index);
  connection.state = Connection::State::kBusy;
  write(index);
}

void Client::shake_hands(std::uint32_t index, std::uint32_t events) {
  Connection& connection = *connections_[index];
  const std::uint32_t generation = connection.generation;
  if ((events & EPOLLOUT) != 0 && !flush(index)) return;
  if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) == 0) return;
  const Received received = receive(connection.fd.get(), buffer_);
  if (received.bytes < 0) {
    if (received.error != EAGAIN) lost(index, received.error);
    return;
  }
  if (received.bytes == 0) return broken(index, "TLS: closed during the handshake", false);
  plain_.clear();
  const bool good =
      connection.tls->receive({buffer_.data(), static_cast<std::size_t>(received.bytes)}, plain_);
  if (!good) return broken(index, connection.tls->error(), false);
  if (!plain_.empty() || connection.tls->peer_closed())
    return broken(index, "TLS: the server spoke before it was asked", false);
  connection.tls->take_output(connection.wire);
  if (!flush(index) || connection.generation != generation) return;
  if (connection.tls->handshake_done()) ready(index);
}

// Closed, or said something that nobody asked for; over TLS it may be a ticket, which is neither.
void Client::idle_event(std::uint32_t index) {
  Connection& connection = *connections_[index];
  if (!connection.tls) return lost(index, 0);
  const Received received = receive(connection.fd.get(), buffer_);
  if (received.bytes < 0 && received.error == EAGAIN) {
    if (connection.wants_write) flush(index);
    return;
  }
  plain_.clear();
  const bool good =
      received.bytes > 0 &&
      connection.tls->receive({buffer_.data(), static_cast<std::size_t>(received.bytes)}, plain_);
  if (!good || !plain_.empty() || connection.tls->peer_closed()) return lost(index, 0);
  connection.tls->take_output(connection.wire);
  flush(index);
}

// Hands to the kernel what it takes. False when the connection was lost over it.
bool Client::flush(std::uint32_t index) {
  Connection& connection = *connections_[index];
  const std::string& out = connection.out();
  while (connection.out_done < out.size()) {
    const ssize_t n = ::send(connection.fd.get(), out.data() + connection.out_done,
                             out.size() - connection.out_done, MSG_NOSIGNAL);
    if (n >= 0) {
      connection.out_done += static_cast<std::size_t>(n);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      lost(index, errno);
      return false;
    }
    if (!connection.wants_write) watch(index, EPOLLIN | EPOLLRDHUP | EPOLLOUT, EPOLL_CTL_MOD);
    connection.wants_write = true;
    return true;
  }
  if (connection.tls) {
    connection.wire.clear();
    connection.out_done = 0;
  }
  if (connection.wants_write) watch(index, EPOLLIN | EPOLLRDHUP, EPOLL_CTL_MOD);
  connection.wants_write = false;
  return true;
}

}  // namespace mixproof::inference
