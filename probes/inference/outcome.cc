#include "probes/inference/outcome.h"

namespace mixproof::inference {

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk:
      return "OK";
    case Outcome::kShort:
      return "SHORT";
    case Outcome::kEmpty:
      return "EMPTY";
    case Outcome::kHttpError:
      return "HTTP_ERROR";
    case Outcome::kConnectError:
      return "CONNECT_ERROR";
    case Outcome::kTimeoutFirst:
      return "TIMEOUT_FIRST";
    case Outcome::kTimeoutIdle:
      return "TIMEOUT_IDLE";
    case Outcome::kTimeoutTotal:
      return "TIMEOUT_TOTAL";
    case Outcome::kStreamError:
      return "STREAM_ERROR";
    case Outcome::kTruncated:
      return "TRUNCATED";
    case Outcome::kMalformed:
      return "MALFORMED";
    case Outcome::kClientDropped:
      return "CLIENT_DROPPED";
  }
  return "MALFORMED";
}

Outcome decide(const AnswerFacts& facts) {
  if (facts.ending == Ending::kDropped) return Outcome::kClientDropped;
  if (facts.ending == Ending::kNotConnected) return Outcome::kConnectError;
  if (facts.status != 0 && facts.status != 200) return Outcome::kHttpError;
  if (facts.error) return Outcome::kStreamError;
  if (facts.malformed) return Outcome::kMalformed;
  if (facts.ending == Ending::kTimeoutFirst) return Outcome::kTimeoutFirst;
  if (facts.ending == Ending::kTimeoutIdle) return Outcome::kTimeoutIdle;
  if (facts.ending == Ending::kTimeoutTotal) return Outcome::kTimeoutTotal;
  if (facts.ending == Ending::kCut || facts.status == 0) return Outcome::kTruncated;
  if (facts.events == 0) return Outcome::kEmpty;
  if (!facts.done && !facts.finished && !facts.whole) return Outcome::kTruncated;
  const bool all_sent_by_its_word = facts.estimated && (facts.length_reached || facts.whole);
  if (facts.tokens < facts.forced && !all_sent_by_its_word) return Outcome::kShort;
  return Outcome::kOk;
}

}  // namespace mixproof::inference
