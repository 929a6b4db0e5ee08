// HttpResponse: one HTTP/1.x response from bytes: chunked, with a length, or until the end of the
// connection. Interim responses (1xx) before it are skipped.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace mixproof::inference {

class HttpResponse {
 public:
  HttpResponse();
  ~HttpResponse();
  HttpResponse(HttpResponse&&) noexcept;
  HttpResponse& operator=(HttpResponse&&) noexcept;

  void reset();  // for the next response

  // Takes one read and appends what it holds of the body to `body`. False when this is not HTTP;
  // see error().
  bool feed(std::string_view bytes, std::string& body);
  // The peer closed. True when that is where the response ends (a body without a length), false
  // when it is cut short.
  bool end_of_connection();

  bool head_done() const;
  // The body has a length or chunks: its end is not that of the connection.
  bool framed() const;
  bool done() const;
  bool reusable() const;  // done, keep-alive, and nothing beyond the response arrived
  int status() const;     // 0 before the head
  const std::string& reason() const;
  const std::string& content_type() const;      // lower case, without parameters
  const std::string& content_encoding() const;  // lower case; empty for identity
  const std::string& retry_after() const;
  const std::string& error() const;

 private:
  bool feed_body(std::string_view bytes);

  struct State;  // Boost.Beast stays in http.cc
  std::unique_ptr<State> state_;
};

}  // namespace mixproof::inference
