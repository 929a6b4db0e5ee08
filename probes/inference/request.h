// What is sent: the endpoint that a base URL names, and the bytes of a request to one of its APIs.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/result.h"
#include "probes/inference/answer.h"

namespace mixproof::inference {

struct Endpoint {
  std::string url;   // the base URL as given, for messages
  std::string name;  // the host alone, without brackets or port: whom a certificate must name
  std::string host;  // of the Host header
  std::string
      base_path;     // of the URL, without the "/v1" of the APIs and without a slash at its end
  bool tls = false;  // https
  sockaddr_storage address{};
  socklen_t address_size = 0;
};

// "https://api.example:8443/models/a", with or without a path; a trailing "/v1" is part of the
// API's path. A name is resolved once. kInvalid for what is no such URL, and for one with a user or
// password in it (not repeated then); kUnavailable for a name that does not resolve.
Result<Endpoint> resolve_endpoint(const std::string& url);

struct RequestShape {
  std::string model;
  bool ignore_eos = true;
  Api api = Api::kChat;
  bool stream = true;
  // Of a custom API: its path behind the URL's, and the body as JSON text. In its strings {prompt},
  // {salt} (the prompt's first word), {model} and {answer_tokens} are replaced; a string that is
  // "{answer_tokens}" and no more becomes the number.
  std::string path, body;
  std::string bearer;  // the token of the Authorization header; empty: none
};

// Writes requests that differ in their prompt and in how long an answer they ask for, into one
// buffer.
class RequestWriter {
 public:
  RequestWriter(const Endpoint& endpoint, const RequestShape& shape);
  // The whole request, head and body; valid until the next call. `prompt` is plain ASCII without
  // quotes and backslashes.
  std::string_view write(std::string_view prompt, std::int64_t answer_tokens);
  const std::string& path() const { return path_; }

 private:
  enum class Part { kText, kPrompt, kSalt, kTokens };
  struct Piece {
    Part part;
    std::string text;
  };
  void take_apart(std::string_view body, const std::string& model);

  std::string path_, head_, request_;
  std::vector<Piece> body_;
};

}  // namespace mixproof::inference
