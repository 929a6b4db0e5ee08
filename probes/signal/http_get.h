// One GET over plain HTTP, with a deadline, on a connection of its own.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "harness/base/result.h"
#include "probes/inference/request.h"

namespace mixproof::signal {

// Pages are far smaller; what is larger is refused rather than held.
inline constexpr std::size_t kPageLimitBytes = 16 << 20;

struct Url {
  inference::Endpoint endpoint;  // of "http://host:port"
  std::string path;              // "/" when it has none
};

// "http://10.0.0.1:8080/metrics". A name is resolved once. kInvalid, kUnavailable as
// resolve_endpoint.
Result<Url> resolve_url(const std::string& url);

struct Page {
  int status = 0;
  std::string body;
};

// Waits until `deadline_ns` of CLOCK_MONOTONIC, or a stop, for the whole answer. kTimeout,
// kUnavailable (no connection), kCorrupt (not HTTP, cut short, too large), kRefused when stopped.
Result<Page> http_get(const inference::Endpoint& endpoint, const std::string& target,
                      std::int64_t deadline_ns, const std::stop_token& stop);

}  // namespace mixproof::signal
