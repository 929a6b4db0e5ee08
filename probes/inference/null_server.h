// Null server: an OpenAI-compatible streaming server that computes nothing. An instrument: it knows
// exactly when it sent each token, because the token's text is its CLOCK_MONOTONIC time of sending
// in nanoseconds.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>

#include "harness/base/result.h"

namespace mixproof::inference {

struct NullServerCounts {
  std::atomic<std::int64_t> connections{0}, requests{0}, answers{0},
      tokens{0};  // answers: sent to their end
};

struct NullServerOptions {
  std::string address = "127.0.0.1";  // numeric IPv4 or IPv6
  int port = 0;                       // 0: any free one
  double ttft_ms = 20, gap_ms = 10;  // from the request to the first token, and from token to token
  int slots =
      0;  // answers at once; further requests wait in the order of their arrival. 0: no bound
  std::function<void(int port)> on_listening;
  NullServerCounts* counts = nullptr;
};

// Serves until stopped. kRefused when the port is taken.
//
//   POST .../v1/chat/completions   max_completion_tokens (else max_tokens) tokens; head and role
//                                  chunk at once, first token after ttft_ms; with slots, from when
//                                  it has one
//   GET  /health                   200 {"status": "ok"}
//   GET  /counts                   connections, requests, answers, tokens so far
//   GET  /arrivals                 when each POST was read, CLOCK_MONOTONIC ns in the order of
//   arrival,
//                                  a JSON list; of the first million
//
// With slots its capacity is known: slots over the time of an answer, which is
// ttft_ms + (max_tokens - 1) x gap_ms.
//
// The model's name selects a misbehaviour, so that a client can be tested for what it makes of it:
//   cut, error, stall:MS, stall_first:MS, freeze:MS (the whole server), http503, close,
//   drop_reused, empty, html, short, no_done, no_finish, unfinished, until_eof, garbage, no_usage,
//   miscount, at_once
Status serve_null(const NullServerOptions& options, std::stop_token stop);

// `mixproof null-server`: serves until killed. Returns the exit status.
int null_server_main(std::span<const std::string> args);

}  // namespace mixproof::inference
