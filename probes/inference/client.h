// Client: an open-loop load generator in one thread. Requests go out at their scheduled times
// whatever the server does; what it cannot send in time it says so.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/result.h"
#include "probes/inference/clock.h"
#include "probes/inference/exchange.h"
#include "probes/inference/request.h"
#include "probes/inference/scheduling.h"
#include "probes/inference/socket.h"
#include "probes/inference/tls.h"

namespace mixproof::inference {

struct ClientOptions {
  int connections = 8;      // held open to each endpoint, idle or not
  int max_in_flight = 512;  // beyond it a request is CLIENT_DROPPED
  TlsOptions tls = {};      // of endpoints that want it
  Reading reading = {};     // what answers look like
};

// All from the scheduled time, except idle_ns: from the last event or comment.
struct Timeouts {
  std::int64_t first_token_ns = 0, idle_ns = 0, total_ns = 0;
};

struct Send {
  std::int64_t i = 0;              // of the request, for the one who asked
  std::int64_t at_ns = 0;          // CLOCK_MONOTONIC
  std::int64_t forced_tokens = 0;  // what the server must send; 0: it may stop when it likes
  std::uint32_t target = 0;        // which of the client's endpoints
};

struct ClientSecond {
  std::int64_t at = 0;
  double cpu = 0, steal = 0;
  std::int64_t dropped = 0;      // CLIENT_DROPPED in this second
  std::int64_t in_flight = 0;    // at its end
  std::int64_t clock_steps = 0;  // times the realtime clock was seen to step; voids kernel stamps
};

class ClientEvents : public TokenObserver {
 public:
  virtual std::string_view request(
      std::int64_t i) = 0;  // the bytes to send; read before the next call
  virtual void finished(const RequestRecord& record) = 0;
  virtual void second(const ClientSecond&) {}
  void token(const RequestRecord&, std::int64_t, std::string_view) override {}
};

struct RunEnd {
  bool stopped = false;
  std::vector<std::int64_t> left_out;  // in flight when stopped: they say nothing about the server
};

class Client {
 public:
  static Result<std::unique_ptr<Client>> create(std::vector<Endpoint> endpoints,
                                                ClientOptions options);
  static Result<std::unique_ptr<Client>> create(Endpoint endpoint, ClientOptions options);

  // Opens the pools, TLS handshakes included. The error names the URL and why.
  Status open_pool(std::int64_t deadline_ns, const std::stop_token& stop);

  // Sends `sends` (ordered by time) and returns when all have ended and `until_ns` has passed, or
  // within a turn of the loop when stopped. Every send gets exactly one record, except those left
  // out.
  Result<RunEnd> run(std::span<const Send> sends, std::int64_t until_ns, const Timeouts& timeouts,
                     const std::stop_token& stop, ClientEvents& events);

 private:
  struct Connection {
    enum class State { kClosed, kOpening, kIdle, kBusy };
    Fd fd;
    State state = State::kClosed;
    std::uint32_t target = 0;
    std::unique_ptr<TlsSession> tls;  // while open, of an endpoint that wants it
    std::uint32_t generation = 0;     // so that an event of a socket that is gone reaches nobody
    bool has_request = false;         // waits for the connection, or is under way
    bool was_pooled = false;          // the server may have closed it before it saw the request
    bool wants_write = false;
    bool request_written = false;  // all of it is in `wire`
    std::string request;
    std::string wire;  // encrypted, with TLS; without it `request` goes out as it is
    std::size_t out_done = 0;
    Exchange exchange;

    const std::string& out() const { return tls ? wire : request; }
  };
  struct Slot {
    std::uint32_t index = 0, generation = 0;
  };
  // One endpoint's connections.
  struct Pool {
    Endpoint endpoint;
    // Oldest first: a server with a thread a connection may not serve the newest yet.
    std::deque<Slot> idle;
    int open_count = 0, idle_count = 0;
    std::string open_failure;  // of the last connection that could not be opened
    std::int64_t refill_at = 0;
  };
  // Between tries when the server takes no connection.
  static constexpr std::int64_t kRefillPause = 250 * kMillisecond;
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  Client(std::vector<Endpoint> endpoints, ClientOptions options, std::unique_ptr<TlsContext> tls,
         Fd epoll, Fd wake);

  // The loop.
  Status turn(std::int64_t wake_at_ns);
  void handle(const epoll_event& event);

  // Connections.
  Pool& pool_of(const Connection& connection) { return pools_[connection.target]; }
  Connecting connect(std::uint32_t index, std::uint32_t target);
  std::uint32_t free_index();
  void close(Connection& connection);
  void make_idle(std::uint32_t index);
  std::optional<std::uint32_t> take_idle(Pool& pool);
  void watch(std::uint32_t index, std::uint32_t events, int operation);
  void refill(Pool& pool, std::int64_t now);
  std::int64_t next_refill() const;
  void connected(std::uint32_t index);
  void ready(std::uint32_t index);
  bool flush(std::uint32_t index);
  void shake_hands(std::uint32_t index, std::uint32_t events);
  void idle_event(std::uint32_t index);

  // Requests.
  void dispatch(const Send& send);
  void reject(const Send& send, Ending ending, std::string_view why);
  void write(std::uint32_t index);
  void readable(std::uint32_t index);
  void lost(std::uint32_t index, int error);
  void broken(std::uint32_t index, const std::string& why, bool clean_end);
  int reconnect(std::uint32_t index);
  void note_round_trip(const Connection& connection, RequestRecord& record) const;
  void finish(std::uint32_t index, Ending ending, std::int64_t at, std::string_view detail);
  std::int64_t due(const Connection& connection) const;
  void expire(std::int64_t now);
  RunEnd abandon();

  const ClientOptions options_;
  std::unique_ptr<TlsContext> tls_;
  Fd epoll_, wake_;
  std::vector<Pool> pools_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::uint32_t> free_;
  std::vector<char> buffer_;
  std::string plain_;  // what a read over TLS brought
  // Few a turn: a request that is due waits for the rest of the turn.
  std::array<epoll_event, 32> ready_{};
  int in_flight_ = 0;
  std::int64_t expire_at_ = kNever;
  bool drained_ = true;  // the last turn left no event unread
  ClockOffset offset_;

  ClientEvents* events_ = nullptr;  // during run()
  Timeouts timeouts_;
  ClientSecond second_;
};

}  // namespace mixproof::inference
