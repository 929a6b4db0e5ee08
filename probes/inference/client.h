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

namespace mixproof::inference {

struct ClientOptions {
  int connections = 8;      // held open, idle or not
  int max_in_flight = 512;  // beyond it a request is CLIENT_DROPPED
};

// All from the scheduled time, except idle_ns: from the last event or comment.
struct Timeouts {
  std::int64_t first_token_ns = 0, idle_ns = 0, total_ns = 0;
};

struct Send {
  std::int64_t i = 0;              // of the request, for the one who asked
  std::int64_t at_ns = 0;          // CLOCK_MONOTONIC
  std::int64_t forced_tokens = 0;  // what the server must send; 0: it may stop when it likes
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
  static Result<std::unique_ptr<Client>> create(Endpoint endpoint, ClientOptions options);

  // Opens the pool. The error names the URL and why.
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
    std::uint32_t generation = 0;  // so that an event of a socket that is gone reaches nobody
    bool has_request = false;      // waits for the connection, or is under way
    bool was_pooled = false;       // the server may have closed it before it saw the request
    bool wants_write = false;
    std::string out;
    std::size_t out_done = 0;
    Exchange exchange;
  };
  struct Slot {
    std::uint32_t index = 0, generation = 0;
  };
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  Client(Endpoint endpoint, ClientOptions options, Fd epoll, Fd wake);

  // The loop.
  Status turn(std::int64_t wake_at_ns);
  void handle(const epoll_event& event);

  // Connections.
  Connecting connect(std::uint32_t index);
  std::uint32_t free_index();
  void close(Connection& connection);
  void make_idle(std::uint32_t index);
  std::optional<std::uint32_t> take_idle();
  void watch(std::uint32_t index, std::uint32_t events, int operation);
  void refill(std::int64_t now);

  // Requests.
  void dispatch(const Send& send);
  void reject(const Send& send, Ending ending, std::string_view why);
  void connected(std::uint32_t index);
  void write(std::uint32_t index);
  void readable(std::uint32_t index);
  void lost(std::uint32_t index, int error);
  int reconnect(std::uint32_t index);
  void finish(std::uint32_t index, Ending ending, std::int64_t at, std::string_view detail);
  std::int64_t due(const Connection& connection) const;
  void expire(std::int64_t now);
  RunEnd abandon();

  const Endpoint endpoint_;
  const ClientOptions options_;
  Fd epoll_, wake_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::uint32_t> free_;
  std::deque<Slot>
      idle_;  // oldest first: a server with a thread a connection may not serve the newest yet
  std::vector<char> buffer_;
  // Few a turn: a request that is due waits for the rest of the turn.
  std::array<epoll_event, 32> ready_{};
  int open_count_ = 0, idle_count_ = 0, in_flight_ = 0;
  int open_failure_ = 0;  // errno of the last connection that the pool could not open
  std::int64_t refill_at_ = 0, expire_at_ = kNever;
  bool drained_ = true;  // the last turn left no event unread
  ClockOffset offset_;

  ClientEvents* events_ = nullptr;  // during run()
  Timeouts timeouts_;
  ClientSecond second_;
};

}  // namespace mixproof::inference
