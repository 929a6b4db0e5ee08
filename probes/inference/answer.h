// Answer: what an API's answer means, event by event of a stream or as one whole body.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/result.h"

namespace mixproof::inference {

enum class Api { kChat, kCompletions, kEmbeddings, kCustom };

// A JSON pointer (RFC 6901), taken apart. kInvalid for what is none.
using JsonPath = std::vector<std::string>;
Result<JsonPath> parse_json_pointer(std::string_view text);

// How answers come and where their parts are.
struct AnswerForm {
  Api api = Api::kChat;
  bool stream = true;  // false: one whole body
  // Of a custom API: the text and the count of tokens, in each event or in the whole body. Without
  // a text path every event that is a JSON object counts as a token event.
  JsonPath text, tokens;
};

class Answer {
 public:
  enum class Event {
    kToken,  // carried non-empty text: content, reasoning, tool-call arguments or completion text;
             // of embeddings: a vector
    kOther,  // role-only, empty, usage-only, finish-only
    kDone,   // [DONE]
    kError,  // an error object or `event: error`; message() has its text
    kMalformed,  // not a JSON object; message() has its beginning
  };

  // For all answers to come; must outlive this. The default is a chat stream.
  void expect(const AnswerForm* form) { form_ = form; }

  // `type` and `data` as the SSE parser gives them, or the whole body. Events after [DONE] are
  // kOther. Allocates nothing once its buffers have grown to the size of what comes.
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
  }                                                        // of the prompt; 0 when it said nothing
  const std::string& text() const { return text_; }        // of the last token event
  const std::string& message() const { return message_; }  // foreign bytes: see printable()

 private:
  const AnswerForm* form_ = nullptr;
  // The last two: scratch that keeps its capacity from event to event.
  std::string text_, message_, key_, scratch_;
  std::uint64_t choices_seen_ = 0, choices_finished_ = 0;
  bool done_ = false, length_reached_ = false;
  std::int64_t completion_tokens_ = -1, cached_tokens_ = 0;
};

// At most `limit` bytes of foreign text, with everything but printable ASCII replaced, for
// messages.
std::string printable(std::string_view text, std::size_t limit = 160);

// Foreign text without `secret`, of which a server's complaint may quote all, or the beginning at
// the text's end. An empty secret changes nothing.
std::string without_secret(std::string_view text, std::string_view secret);

}  // namespace mixproof::inference
