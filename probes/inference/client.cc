#include "probes/inference/client.h"

#include <sys/eventfd.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stop_token>

#include "harness/base/check.h"

namespace mixproof::inference {
namespace {

constexpr std::uint64_t kWakeToken = std::numeric_limits<std::uint64_t>::max();
// Sleeping ends this long before a send is due and polling takes over: a plain sleep is late by 50
// us at the median and by over a millisecond at p99 in a virtual machine.
constexpr std::int64_t kSpin = 60 * kMicrosecond;
constexpr std::int64_t kReadFirst = 50 * kMillisecond;

void allow_descriptors(int wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= static_cast<rlim_t>(wanted))
    return;
  limit.rlim_cur = std::min(limit.rlim_max, static_cast<rlim_t>(wanted));
  setrlimit(RLIMIT_NOFILE, &limit);  // when it fails, what cannot be opened is counted as dropped
}

}  // namespace

Client::Client(std::vector<Endpoint> endpoints, ClientOptions options,
               std::unique_ptr<TlsContext> tls, Fd epoll, Fd wake)
    : options_(std::move(options)),
      tls_(std::move(tls)),
      epoll_(std::move(epoll)),
      wake_(std::move(wake)),
      buffer_(64 * 1024) {
  for (Endpoint& endpoint : endpoints) pools_.push_back({.endpoint = std::move(endpoint)});
}

Result<std::unique_ptr<Client>> Client::create(Endpoint endpoint, ClientOptions options) {
  std::vector<Endpoint> one;
  one.push_back(std::move(endpoint));
  return create(std::move(one), std::move(options));
}

Result<std::unique_ptr<Client>> Client::create(std::vector<Endpoint> endpoints,
                                               ClientOptions options) {
  CHECK(!endpoints.empty());
  const bool any_tls = std::any_of(endpoints.begin(), endpoints.end(),
                                   [](const Endpoint& endpoint) { return endpoint.tls; });
  std::unique_ptr<TlsContext> tls;
  if (any_tls) tls = TRY(TlsContext::create(options.tls));
  Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return system_error("epoll_create1");
  Fd wake(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake) return system_error("eventfd");
  epoll_event interest{};
  interest.events = EPOLLIN;
  interest.data.u64 = kWakeToken;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &interest) != 0)
    return system_error("epoll_ctl");
  allow_descriptors(options.max_in_flight +
                    options.connections * static_cast<int>(endpoints.size()) + 64);
  return std::unique_ptr<Client>(new Client(std::move(endpoints), std::move(options),
                                            std::move(tls), std::move(epoll), std::move(wake)));
}

// ---- The loop

Status Client::turn(std::int64_t wake_at_ns) {
  const std::int64_t wait = std::max<std::int64_t>(0, wake_at_ns - monotonic_ns());
  const timespec timeout = timespec_of(wait);
  const int count =
      epoll_pwait2(epoll_.get(), ready_.data(), static_cast<int>(ready_.size()), &timeout, nullptr);
  if (count < 0 && errno != EINTR) return system_error("epoll_pwait2");
  if (count > 0) offset_.sample();
  for (int e = 0; e < count; ++e) handle(ready_[static_cast<std::size_t>(e)]);
  drained_ = count < static_cast<int>(ready_.size());
  return ok();
}

void Client::handle(const epoll_event& event) {
  if (event.data.u64 == kWakeToken) return;  // the caller looks at its stop token
  const auto index = static_cast<std::uint32_t>(event.data.u64);
  const auto generation = static_cast<std::uint32_t>(event.data.u64 >> 32);
  Connection& connection = *connections_[index];
  if (connection.generation != generation) return;
  switch (connection.state) {
    case Connection::State::kClosed:
      return;
    case Connection::State::kOpening:
      if (connection.tls) return shake_hands(index, event.events);
      if (const int error = connect_error(connection.fd.get()); error != 0)
        return lost(index, error);
      return connected(index);
    case Connection::State::kIdle:
      return idle_event(index);
    case Connection::State::kBusy:
      if ((event.events & EPOLLOUT) != 0) write(index);
      if (connection.generation != generation || connection.state != Connection::State::kBusy)
        return;
      if ((event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) readable(index);
  }
}

Result<RunEnd> Client::run(std::span<const Send> sends, std::int64_t until_ns,
                           const Timeouts& timeouts, const std::stop_token& stop,
                           ClientEvents& events) {
  const std::stop_callback wake(stop, [this] { eventfd_write(wake_.get(), 1); });
  events_ = &events;
  timeouts_ = timeouts;
  expire_at_ = kNever;
  second_ = ClientSecond{};
  ShareMeter meter;
  std::size_t next = 0;
  std::int64_t second_at = monotonic_ns() + kSecond;
  const auto end_second = [&](std::int64_t now) {
    const ShareMeter::Sample share = meter.sample();
    second_.at = now;
    second_.cpu = share.cpu;
    second_.steal = share.steal;
    second_.in_flight = in_flight_;
    second_.clock_steps = offset_.steps();
    events.second(second_);
    second_.dropped = 0;
    second_at = now + kSecond;
  };
  while (!stop.stop_requested()) {
    std::int64_t now = monotonic_ns();
    while (next < sends.size() && sends[next].at_ns <= now) dispatch(sends[next++]);
    // What has arrived is read before anyone is declared late, unless reading never catches up.
    if (now >= expire_at_ && (drained_ || now >= expire_at_ + kReadFirst)) expire(now);
    if (now >= second_at) end_second(now);
    for (Pool& pool : pools_) refill(pool, now);
    if (next == sends.size() && in_flight_ == 0 && now >= until_ns) {
      end_second(now);
      return RunEnd{};
    }
    const std::int64_t send_at = next < sends.size() ? sends[next].at_ns - kSpin : kNever;
    const std::int64_t until = now < until_ns ? until_ns : kNever;
    TRY(turn(std::min({send_at, expire_at_, second_at, next_refill(), until})));
  }
  end_second(monotonic_ns());
  return abandon();
}

RunEnd Client::abandon() {
  RunEnd end;
  end.stopped = true;
  for (std::uint32_t index = 0; index < connections_.size(); ++index) {
    Connection& connection = *connections_[index];
    if (!connection.has_request) continue;
    end.left_out.push_back(connection.exchange.record().i);
    close(connection);
    free_.push_back(index);
  }
  in_flight_ = 0;
  return end;
}

// ---- Requests

void Client::dispatch(const Send& send) {
  const std::int64_t now = monotonic_ns();
  if (now - send.at_ns >= timeouts_.total_ns)
    return reject(send, Ending::kDropped, "the client came to it after its deadline");
  if (in_flight_ >= options_.max_in_flight)
    return reject(send, Ending::kDropped, std::to_string(in_flight_) + " requests in flight");
  const std::optional<std::uint32_t> pooled = take_idle(pools_[send.target]);
  const std::uint32_t index = pooled ? *pooled : free_index();
  Connection& connection = *connections_[index];
  if (!pooled) {
    if (const Connecting begun = connect(index, send.target); begun.error != 0) {
      free_.push_back(index);
      return reject(send, begun.our_limit ? Ending::kDropped : Ending::kNotConnected,
                    std::strerror(begun.error));
    }
  }
  connection.exchange.use(&options_.reading);
  connection.exchange.start(send.i, send.at_ns, send.forced_tokens, events_);
  connection.exchange.record().target = send.target;
  connection.exchange.record().send = now;
  connection.request.assign(events_->request(send.i));
  connection.request_written = false;
  if (!connection.tls) connection.out_done = 0;
  connection.has_request = true;
  connection.was_pooled = pooled.has_value();
  ++in_flight_;
  expire_at_ = std::min(expire_at_, due(connection));
  if (!pooled) return;
  connection.state = Connection::State::kBusy;
  connection.exchange.record().send = monotonic_ns();
  write(index);
}

void Client::reject(const Send& send, Ending ending, std::string_view why) {
  if (ending == Ending::kDropped) ++second_.dropped;
  const std::int64_t now = monotonic_ns();
  Exchange none;
  none.start(send.i, send.at_ns, send.forced_tokens, nullptr);
  none.record().target = send.target;
  if (ending != Ending::kDropped) none.record().send = now;
  none.finish(ending, now, why);
  events_->finished(none.record());
}

void Client::write(std::uint32_t index) {
  Connection& connection = *connections_[index];
  if (!connection.request_written && connection.tls) {
    if (!connection.tls->send(connection.request))
      return broken(index, connection.tls->error(), false);
    connection.tls->take_output(connection.wire);
  }
  connection.request_written = true;
  if (!flush(index)) return;
  const bool all = !connection.wants_write;
  if (all && connection.exchange.record().sent == 0)
    connection.exchange.record().sent = monotonic_ns();
}

void Client::readable(std::uint32_t index) {
  Connection& connection = *connections_[index];
  const Received received = receive(connection.fd.get(), buffer_);
  const std::int64_t at = monotonic_ns();  // one stamp a read, before anything is parsed
  if (received.bytes < 0) {
    if (received.error != EAGAIN) lost(index, received.error);
    return;
  }
  if (received.bytes == 0) return lost(index, 0);
  std::optional<std::int64_t> lag;
  if (received.kernel_realtime_ns)
    if (const auto stamp = offset_.to_monotonic(*received.kernel_realtime_ns))
      lag = std::max<std::int64_t>(0, at - *stamp);
  std::string_view bytes(buffer_.data(), static_cast<std::size_t>(received.bytes));
  if (connection.tls) {
    plain_.clear();
    const bool good = connection.tls->receive(bytes, plain_);
    bytes = plain_;
    connection.tls->take_output(connection.wire);
    if (bytes.empty() && !good) return broken(index, connection.tls->error(), false);
  }
  if (!bytes.empty() && connection.exchange.read(bytes, at, lag))
    return finish(index, Ending::kComplete, at, "");
  if (connection.tls && !connection.wire.empty() && !flush(index)) return;
  if (connection.tls && !connection.tls->error().empty())
    return broken(index, connection.tls->error(), false);
  if (connection.tls && connection.tls->peer_closed()) return broken(index, "", true);
  if (timeouts_.idle_ns < timeouts_.total_ns) expire_at_ = std::min(expire_at_, due(connection));
}

// The connection is gone: `error` is 0 for an end of file.
void Client::lost(std::uint32_t index, int error) {
  const Connection& connection = *connections_[index];
  const bool clean = error == 0 && (!connection.tls || connection.tls->peer_closed());
  broken(index, error == 0 ? "" : std::strerror(error), clean);
}

void Client::broken(std::uint32_t index, const std::string& why, bool clean_end) {
  Connection& connection = *connections_[index];
  const std::int64_t now = monotonic_ns();
  const bool opening = connection.state == Connection::State::kOpening;
  if (!connection.has_request) {
    if (opening) {
      pool_of(connection).open_failure = why.empty() ? "closed at once" : why;
      pool_of(connection).refill_at = now + kRefillPause;
    }
    close(connection);
    free_.push_back(index);
    return;
  }
  if (opening)
    return finish(index, Ending::kNotConnected, now, why.empty() ? "closed at once" : why);
  if (connection.was_pooled && !connection.exchange.any_bytes()) {
    if (const int failure = reconnect(index); failure != 0)
      finish(index, Ending::kNotConnected, now, std::strerror(failure));
    return;
  }
  finish(index, connection.exchange.peer_closed(clean_end), now,
         why.empty() ? "" : "connection lost: " + why);
}

// An idle connection that the server closed as the request went out: once more, on a new one; the
// clock runs on.
int Client::reconnect(std::uint32_t index) {
  Connection& connection = *connections_[index];
  close(connection);
  connection.has_request = true;
  ++connection.exchange.record().reconnects;
  connection.exchange.record().sent = 0;
  return connect(index, connection.target).error;
}

// Needed to tell a stream that something held back from one that came that fast.
void Client::note_round_trip(const Connection& connection, RequestRecord& record) const {
  if (record.events < 2 || record.token_reads != 1 || !connection.fd) return;
  record.round_trip = round_trip_ns(connection.fd.get());
}

void Client::finish(std::uint32_t index, Ending ending, std::int64_t at, std::string_view detail) {
  Connection& connection = *connections_[index];
  connection.exchange.finish(ending, at, detail);
  note_round_trip(connection, connection.exchange.record());
  connection.has_request = false;
  --in_flight_;
  const bool keep =
      connection.state == Connection::State::kBusy && ending == Ending::kComplete &&
      connection.exchange.reusable() && connection.request_written && !connection.wants_write &&
      !(connection.tls && (connection.tls->peer_closed() || !connection.tls->error().empty()));
  if (keep) {
    make_idle(index);
  } else {
    if (connection.state != Connection::State::kClosed) close(connection);
    free_.push_back(index);
  }
  events_->finished(connection.exchange.record());
}

std::int64_t Client::due(const Connection& connection) const {
  const RequestRecord& record = connection.exchange.record();
  const std::int64_t total = record.sched + timeouts_.total_ns;
  if (record.first == 0) return std::min(total, record.sched + timeouts_.first_token_ns);
  return std::min(total, connection.exchange.last_sign_of_life() + timeouts_.idle_ns);
}

// Looks at all in flight, but only when the earliest deadline known has come; what moved it since
// only moved it later.
void Client::expire(std::int64_t now) {
  expire_at_ = kNever;
  for (std::uint32_t index = 0; index < connections_.size(); ++index) {
    const Connection& connection = *connections_[index];
    if (!connection.has_request) continue;
    const std::int64_t at = due(connection);
    if (now < at) {
      expire_at_ = std::min(expire_at_, at);
      continue;
    }
    const RequestRecord& record = connection.exchange.record();
    if (connection.state == Connection::State::kOpening) {
      finish(index, Ending::kNotConnected, now, "no connection by the deadline");
    } else if (record.first == 0) {
      finish(index, Ending::kTimeoutFirst, now, "");
    } else {
      finish(
          index,
          now >= record.sched + timeouts_.total_ns ? Ending::kTimeoutTotal : Ending::kTimeoutIdle,
          now, "");
    }
  }
  if (expire_at_ != kNever) expire_at_ = std::max(expire_at_, now + kMillisecond);
}

}  // namespace mixproof::inference
