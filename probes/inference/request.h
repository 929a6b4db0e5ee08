// What is sent: the endpoint that a base URL names, and the bytes of a chat/completions request.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "harness/base/result.h"

namespace mixproof::inference {

struct Endpoint {
  std::string url;   // the base URL as given, for messages
  std::string host;  // of the Host header
  std::string path;  // of chat/completions
  sockaddr_storage address{};
  socklen_t address_size = 0;
};

// "http://10.77.0.2:8000", with or without a path; a trailing "/v1" is part of the API's path. A
// name is resolved once. kInvalid for https and what is no URL, kUnavailable for a name that does
// not resolve.
Result<Endpoint> resolve_endpoint(const std::string& url);

struct RequestShape {
  std::string model;
  bool ignore_eos = true;
};

// Writes requests that differ in their prompt and in how long an answer they ask for, into one
// buffer.
class RequestWriter {
 public:
  RequestWriter(const Endpoint& endpoint, const RequestShape& shape);
  // The whole request, head and body; valid until the next call. `prompt` is plain ASCII without
  // quotes.
  std::string_view write(std::string_view prompt, std::int64_t answer_tokens);

 private:
  std::string head_, body_begin_, body_end_, request_;
};

}  // namespace mixproof::inference
