// A null server in a thread of the test, on a port of its own.
#pragma once

#include <future>
#include <string>
#include <thread>

#include "probes/inference/null_server.h"

namespace mixproof::inference {

class RunningNullServer {
 public:
  explicit RunningNullServer(double ttft_ms = 2, double gap_ms = 1, int slots = 0) {
    std::promise<int> listening;
    std::future<int> port = listening.get_future();
    thread_ = std::jthread([this, ttft_ms, gap_ms, slots,
                            promise = std::move(listening)](const std::stop_token& stop) mutable {
      NullServerOptions options;
      options.ttft_ms = ttft_ms;
      options.gap_ms = gap_ms;
      options.slots = slots;
      options.counts = &counts;
      options.on_listening = [&](int bound) { promise.set_value(bound); };
      if (!serve_null(options, stop).ok()) std::abort();
    });
    port_ = port.get();
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int port() const { return port_; }

  NullServerCounts counts;

 private:
  int port_ = 0;
  std::jthread thread_;
};

}  // namespace mixproof::inference
