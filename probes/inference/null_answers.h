// What the null server says: the bytes of its answers, and its misbehaviours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "harness/base/result.h"

namespace mixproof::inference {

enum class Manner {
  kPlain,
  kCut,
  kError,
  kStall,
  kStallFirst,
  kFreeze,
  kHttp503,
  kClose,
  kDropReused,
  kEmpty,
  kHtml,
  kShort,
  kNoDone,
  kNoFinish,
  kUnfinished,
  kUntilEof,
  kGarbage,
  kNoUsage,
  kMiscount,
  kAtOnce
};

struct NullRequest {
  std::string model;
  Manner manner = Manner::kPlain;
  std::int64_t pause_ns = 0;  // of stall, stall_first and freeze
  std::int64_t tokens = 16;   // max_completion_tokens, else max_tokens
};

// Of the body of a chat/completions request; a model that names no misbehaviour is served plainly.
Result<NullRequest> parse_null_request(std::string_view body);

// One answer's text, piece by piece. `at_ns` becomes the text of the token.
class NullAnswer {
 public:
  void start(const NullRequest& request);
  bool is_stream() const;                          // false: begin() is the whole answer
  bool ends_connection() const;                    // nothing may follow on this connection
  std::int64_t tokens() const { return tokens_; }  // to be sent
  std::string begin();                             // head, and for a stream the role chunk
  std::string token(std::int64_t at_ns);
  std::string end();  // finish reason, usage, [DONE], last chunk; may be cut short

 private:
  std::string framed(std::string_view data) const;
  std::string event(std::string_view delta, std::string_view finish_reason) const;

  NullRequest request_;
  std::string prefix_;  // of every chunk, up to the delta
  std::int64_t tokens_ = 0;
};

std::string plain_response(int status, std::string_view reason, std::string_view type,
                           std::string_view body, std::string_view fields = "");

}  // namespace mixproof::inference
