// Outcome: how a request ended, exactly one class each, and the table that decides it.
#pragma once

#include <cstdint>
#include <string_view>

namespace mixproof::inference {

enum class Outcome {
  kOk,             // complete, with every token asked for
  kShort,          // complete, with fewer tokens than were forced
  kEmpty,          // complete, without a token
  kHttpError,      // a status other than 200
  kConnectError,   // no connection
  kTimeoutFirst,   // no first token in time
  kTimeoutIdle,    // silence within the answer
  kTimeoutTotal,   // not complete by the deadline
  kStreamError,    // the server reported an error inside the answer, whatever its status said
  kTruncated,      // the connection or the body ended before the answer did
  kMalformed,      // not HTTP, not an event stream, or not the JSON of one
  kClientDropped,  // never sent: the client's own limit. Says nothing about the server
};

std::string_view outcome_name(Outcome outcome);  // "OK", "TIMEOUT_FIRST", ...

// What stopped an exchange.
enum class Ending {
  kComplete,  // the response ended where HTTP says that it does
  kCut,       // end of file or reset before that
  kTimeoutFirst,
  kTimeoutIdle,
  kTimeoutTotal,
  kNotConnected,
  kDropped,
};

struct AnswerFacts {
  Ending ending = Ending::kComplete;
  int status = 0;  // 0 when no head arrived
  bool malformed = false;
  bool error = false;     // an error object, or `event: error`
  bool done = false;      // [DONE]
  bool finished = false;  // a finish_reason for each choice
  bool length_reached =
      false;  // the finish_reason was "length": the server says that it sent all it was asked for
  bool whole = false;       // one body instead of a stream: its end is the end of the answer
  bool estimated = false;   // tokens are counted events, not the server's count
  std::int64_t events = 0;  // token events seen
  std::int64_t tokens = 0;
  std::int64_t forced = 0;  // tokens the server had to send; 0 when it was free to stop
};

// OK needs [DONE] or every finish_reason (or to be a whole answer), and a clean end of the body. A
// counted estimate below the forced number is short unless the server says that the length was
// reached (a chunk may carry several tokens); in a whole answer there is nothing to count.
Outcome decide(const AnswerFacts& facts);

}  // namespace mixproof::inference
