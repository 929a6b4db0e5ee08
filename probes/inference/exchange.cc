#include "probes/inference/exchange.h"

#include <algorithm>

namespace mixproof::inference {
namespace {

constexpr std::size_t kKeptBody =
    4096;  // of an answer that is no event stream: enough for its error object

}  // namespace

void Exchange::start(std::int64_t i, std::int64_t sched, std::int64_t forced_tokens,
                     TokenObserver* observer) {
  http_.reset();
  sse_.reset();
  answer_.reset();
  record_ = RequestRecord{};
  record_.i = i;
  record_.sched = sched;
  observer_ = observer;
  body_.clear();
  forced_ = forced_tokens;
  alive_at_ = now_ = 0;
  any_bytes_ = event_stream_ = malformed_ = error_ = false;
}

bool Exchange::read(std::string_view bytes, std::int64_t at_ns, std::optional<std::int64_t> lag) {
  any_bytes_ = true;
  now_ = at_ns;
  if (lag) record_.lag = std::max(record_.lag.value_or(0), *lag);
  token_in_read_ = false;
  const bool was_head = http_.head_done();
  if (!http_.feed(bytes, body_)) {
    malformed_ = true;
    record_.detail = "not HTTP: " + http_.error();
    return true;
  }
  if (!was_head && http_.head_done()) {
    record_.head = at_ns;
    event_stream_ = http_.status() == 200 && http_.content_type() == "text/event-stream";
  }
  if (take_body()) return true;
  return http_.done();
}

// True when the rest of the answer does not matter any more.
bool Exchange::take_body() {
  if (!event_stream_) {
    if (body_.size() > kKeptBody) body_.resize(kKeptBody);
    return false;
  }
  if (!sse_.feed(body_, *this) && !malformed_) {
    malformed_ = true;
    record_.detail = "an event larger than " + std::to_string(SseParser::kMaxEventBytes) + " bytes";
  }
  body_.clear();
  if (token_in_read_) ++record_.token_reads;
  return malformed_ || error_;
}

void Exchange::event(std::string_view type, std::string_view data) {
  if (malformed_ || error_) return;
  alive_at_ = now_;
  switch (answer_.take(type, data)) {
    case Answer::Event::kToken: {
      token_in_read_ = true;
      if (record_.events == 0) {
        record_.first = now_;
      } else if (now_ - record_.last > record_.max_gap) {
        record_.max_gap = now_ - record_.last;
        record_.max_gap_end = now_;
      }
      record_.last = now_;
      ++record_.events;
      if (observer_ != nullptr) observer_->token(record_, now_, answer_.text());
      break;
    }
    case Answer::Event::kError:
      error_ = true;
      record_.detail = "the server reports: " + printable(answer_.message());
      break;
    case Answer::Event::kMalformed:
      malformed_ = true;
      record_.detail = "an event that is no JSON object: " + printable(answer_.message());
      break;
    case Answer::Event::kOther:
    case Answer::Event::kDone:
      break;
  }
}

void Exchange::comment() {
  alive_at_ = now_;
  ++record_.comments;
}

Ending Exchange::peer_closed() {
  return http_.end_of_connection() ? Ending::kComplete : Ending::kCut;
}

void Exchange::finish(Ending ending, std::int64_t at_ns, std::string_view detail) {
  record_.end = at_ns;
  const int status = http_.status();
  if (ending == Ending::kComplete && status == 200 && !event_stream_ && !malformed_) {
    error_ = answer_.take("", body_) == Answer::Event::kError;
    malformed_ = !error_;
    record_.detail = error_ ? "the server reports: " + printable(answer_.message())
                            : "not an event stream but \"" + printable(http_.content_type(), 60) +
                                  "\": " + printable(body_);
  }
  record_.estimated = answer_.completion_tokens() < 0;
  record_.tokens = record_.estimated ? record_.events : answer_.completion_tokens();
  record_.cached = answer_.cached_tokens();
  record_.outcome = decide({.ending = ending,
                            .status = status,
                            .malformed = malformed_,
                            .error = error_,
                            .done = answer_.done(),
                            .finished = answer_.finished(),
                            .length_reached = answer_.length_reached(),
                            .estimated = record_.estimated,
                            .events = record_.events,
                            .tokens = record_.tokens,
                            .forced = forced_});
  if (record_.outcome == Outcome::kOk) record_.detail.clear();
  if (record_.outcome == Outcome::kHttpError) {
    record_.detail = std::to_string(status) + " " + printable(http_.reason(), 60);
    if (!http_.retry_after().empty())
      record_.detail += ", retry after " + printable(http_.retry_after(), 40);
    if (!body_.empty()) record_.detail += ": " + printable(body_);
  }
  if (record_.outcome != Outcome::kOk && record_.detail.empty())
    record_.detail = detail.empty() ? describe() : std::string(detail);
}

std::string Exchange::describe() const {
  switch (record_.outcome) {
    case Outcome::kShort:
      return std::to_string(record_.tokens) + " of " + std::to_string(forced_) + " tokens";
    case Outcome::kEmpty:
      return "the answer ended without a token";
    case Outcome::kTruncated:
      return !any_bytes_ ? "closed before the answer began"
                         : "ended after " + std::to_string(record_.events) + " token events, " +
                               (answer_.done() || answer_.finished() ? "before the end of the body"
                                                                     : "unfinished");
    case Outcome::kTimeoutFirst:
      return "no token by the deadline";
    case Outcome::kTimeoutIdle:
      return "silent after " + std::to_string(record_.events) + " token events";
    case Outcome::kTimeoutTotal:
      return "unfinished after " + std::to_string(record_.events) + " token events";
    default:
      return "";
  }
}

}  // namespace mixproof::inference
