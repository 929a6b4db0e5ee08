// Instrument: a null server and the client, each in a process of its own, and everything that both
// saw. What the self-checks of the client and its bench are made of. For a single-threaded parent:
// both processes are forks of it, and die with it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/result.h"
#include "probes/inference/client.h"
#include "probes/inference/null_server.h"

namespace mixproof::inference {

// A null server of its own process, on a free port of 127.0.0.1. It runs ahead of busy loops where
// that is allowed, since it is the yardstick.
class NullServerProcess {
 public:
  static Result<NullServerProcess> start(NullServerOptions options, int cpu);
  NullServerProcess(NullServerProcess&& other) noexcept;
  NullServerProcess& operator=(NullServerProcess&&) = delete;
  ~NullServerProcess();  // kills it

  std::string url() const;
  // Requests that it has read and not yet answered to the end. Memory shared with it: costs it
  // nothing.
  std::int64_t in_flight() const;
  struct Counts {
    std::int64_t connections = 0, requests = 0, answers = 0, tokens = 0;
  };
  Result<Counts> counts() const;                       // asked over HTTP
  Result<std::vector<std::int64_t>> arrivals() const;  // likewise; CLOCK_MONOTONIC ns

  // SIGSTOP and SIGCONT, with the time between which every thread of it stood.
  Status stop();
  Status go_on();
  std::int64_t stopped_at() const { return stopped_at_; }
  std::int64_t went_on_at() const { return went_on_at_; }

 private:
  NullServerProcess() = default;
  pid_t pid_ = 0;
  int port_ = 0;
  NullServerCounts* counts_ = nullptr;  // shared
  std::int64_t stopped_at_ = 0, went_on_at_ = 0;
};

struct PlannedRequest {
  std::int64_t at_ns = 0;  // from the begin of the run
  std::int64_t tokens = 0;
};
// `seconds` of Poisson arrivals from `begin_s` on.
Result<std::vector<PlannedRequest>> poisson_plan(double rate_per_s, double begin_s, double seconds,
                                                 std::uint64_t seed, std::int64_t tokens);

struct ClientJob {
  std::string url, model = "mixproof";
  std::vector<PlannedRequest> requests;  // by time
  ClientOptions options{.connections = 64, .max_in_flight = 20'000};
  std::int64_t timeout_ns = 10 * kSecond;
  int cpu = -1;
  bool raise_priority = true;  // false: scheduled like any other process
  bool keep_awake = false;  // no processor of the machine sleeps meanwhile, where that is allowed
};

// What is kept of a request. Times of CLOCK_MONOTONIC, 0 when not reached.
struct SeenRequest {
  std::int64_t i = 0, sched = 0, send = 0, sent = 0, first = 0, last = 0, end = 0;
  std::int64_t tokens = 0, events = 0;
  std::int64_t lag = -1;         // largest from the kernel's stamp of a read to ours; -1: none
  std::int64_t first_stamp = 0;  // when the server sent the first token, as the token says
  std::int64_t worst_error = 0;  // largest from a token's stamp to ours
  Outcome outcome = Outcome::kOk;
};

struct ClientRun {
  std::vector<SeenRequest> requests;            // by i, the index into the job's requests
  std::vector<std::int64_t> receive_errors_ns;  // our stamp minus the token's, of every token
  std::vector<std::int64_t>
      read_lags_ns;  // kernel's stamp to ours, of every read that brought a token and had one
  std::int64_t begin_ns = 0, end_ns = 0;
  double cpu_s = 0;               // of the client's thread, from begin to end
  double steal = 0;               // share of the machine's time that its hypervisor took
  std::int64_t memory_bytes = 0;  // peak of the process above what it had before it connected
  std::string scheduling;         // the priority that the client got
  bool kept_awake = false;        // as the job asked, and the machine allowed
};

// Runs the job and returns what was seen. `watch` is called about every millisecond meanwhile, with
// the time, in this process. kTimeout, with the client killed, when it does not end in time.
Result<ClientRun> run_client(const ClientJob& job,
                             const std::function<Status(std::int64_t now)>& watch = {});

}  // namespace mixproof::inference
