// SseParser: server-sent events as the HTML standard defines them ("9.2.6 Interpreting an event
// stream"). Any split of the bytes into reads gives the same events.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mixproof::inference {

class SseHandler {
 public:
  virtual ~SseHandler() = default;
  // `type` is the value of the event field, empty when there was none. Views last for the call
  // only.
  virtual void event(std::string_view type, std::string_view data) = 0;
  virtual void comment() = 0;  // a keep-alive: the server lives
};

class SseParser {
 public:
  static constexpr std::size_t kMaxEventBytes = 4 << 20;

  // False once a line or the data of an event is larger than kMaxEventBytes; the stream is of no
  // use from then on.
  bool feed(std::string_view bytes, SseHandler& handler);
  void reset();

 private:
  void line(std::string_view text, SseHandler& handler);

  std::string line_, data_, type_;
  bool has_data_ = false;
  bool skip_lf_ = false;    // the last read ended in CR: an LF that follows belongs to it
  bool first_line_ = true;  // may start with a byte order mark
};

}  // namespace mixproof::inference
