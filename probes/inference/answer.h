// Answer: what the events of one OpenAI chat/completions (or completions) stream mean.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mixproof::inference {

class Answer {
 public:
  enum class Event {
    kToken,  // carried non-empty text: content, reasoning, tool-call arguments or completion text
    kOther,  // role-only, empty, usage-only, finish-only
    kDone,   // [DONE]
    kError,  // an error object or `event: error`; message() has its text
    kMalformed,  // not a JSON object; message() has its beginning
  };

  // `type` and `data` as the SSE parser gives them. Events after [DONE] are kOther.
  Event take(std::string_view type, std::string_view data);
  void reset();

  bool done() const { return done_; }
  // Every choice that appeared has its finish_reason, and at least one did appear.
  bool finished() const { return choices_seen_ != 0 && choices_seen_ == choices_finished_; }
  bool length_reached() const { return length_reached_; }
  std::int64_t completion_tokens() const {
    return completion_tokens_;
  }  // the server's count; -1 when it gave none
  std::int64_t cached_tokens() const {
    return cached_tokens_;
  }                                                  // of the prompt; 0 when it said nothing
  const std::string& text() const { return text_; }  // of the last token event
  const std::string& message() const { return message_; }

 private:
  std::string text_, message_, key_;  // key_: scratch that keeps its capacity from event to event
  std::uint64_t choices_seen_ = 0, choices_finished_ = 0;
  bool done_ = false, length_reached_ = false;
  std::int64_t completion_tokens_ = -1, cached_tokens_ = 0;
};

// At most `limit` bytes of foreign text, with everything but printable ASCII replaced, for
// messages.
std::string printable(std::string_view text, std::size_t limit = 160);

}  // namespace mixproof::inference
