#include "probes/inference/exchange.h"

#include <algorithm>

namespace mixproof::inference {
namespace {

constexpr std::size_t kKeptBody =
    4096;  // of an answer that is not what was asked for: enough for its error object
constexpr std::size_t kMaxWholeBody = 64 << 20;

}  // namespace

void Exchange::use(const Reading* reading) {
  reading_ = reading;
  answer_.expect(reading == nullptr ? nullptr : &reading->form);
}

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
  record_.read_lag = lag;
  if (lag) record_.lag = std::max(record_.lag.value_or(0), *lag);
  token_in_read_ = false;
  const bool was_head = http_.head_done();
  const bool is_http = http_.feed(bytes, body_);
  // What came before the break counts, or the record would depend on how reads cut the bytes.
  if (!was_head && http_.head_done() && !take_head(at_ns)) return true;
  if (take_body()) return true;
  if (is_http) return http_.done();
  malformed_ = true;
  record_.detail = "not HTTP: " + http_.error();
  return true;
}

// False when what follows can be of no use.
bool Exchange::take_head(std::int64_t at_ns) {
  record_.head = at_ns;
  record_.status = http_.status();
  record_.retry_after = !http_.retry_after().empty();
  if (http_.status() != 200) return true;
  event_stream_ = http_.content_type() == "text/event-stream" && !expects_whole();
  const std::string& coding = http_.content_encoding();
  if (coding.empty() || coding == "identity") return true;
  malformed_ = true;
  record_.detail = "compressed (" + foreign(coding, 40) + "), though identity was asked for";
  return false;
}

// True when the rest of the answer does not matter any more.
bool Exchange::take_body() {
  if (!event_stream_) {
    const bool needed = expects_whole() && http_.status() == 200;
    if (!needed && body_.size() > kKeptBody) body_.resize(kKeptBody);
    if (body_.size() <= kMaxWholeBody) return false;
    malformed_ = true;
    record_.detail = "an answer larger than " + std::to_string(kMaxWholeBody) + " bytes";
    return true;
  }
  if (!sse_.feed(body_, *this) && !malformed_) {
    malformed_ = true;
    record_.detail = "an event larger than " + std::to_string(SseParser::kMaxEventBytes) + " bytes";
  }
  body_.clear();
  if (token_in_read_) ++record_.token_reads;
  return malformed_ || error_;
}

void Exchange::take_token(std::int64_t at_ns) {
  if (record_.events == 0) {
    record_.first = at_ns;
  } else if (at_ns - record_.last > record_.max_gap) {
    record_.max_gap = at_ns - record_.last;
    record_.max_gap_end = at_ns;
  }
  record_.last = at_ns;
  ++record_.events;
  if (observer_ != nullptr) observer_->token(record_, at_ns, answer_.text());
}

void Exchange::event(std::string_view type, std::string_view data) {
  if (malformed_ || error_) return;
  alive_at_ = now_;
  switch (answer_.take(type, data)) {
    case Answer::Event::kToken:
      token_in_read_ = true;
      take_token(now_);
      break;
    case Answer::Event::kError:
      error_ = true;
      record_.detail = "the server reports: " + foreign(answer_.message());
      break;
    case Answer::Event::kMalformed:
      malformed_ = true;
      record_.detail = "an event that is no JSON object: " + foreign(answer_.message());
      break;
    case Answer::Event::kOther:
    case Answer::Event::kDone:
      break;
  }
}

// A body that is no event stream, whether one was wanted or not.
void Exchange::take_whole(std::int64_t at_ns) {
  const Answer::Event event = answer_.take("", body_);
  error_ = event == Answer::Event::kError;
  if (error_) {
    record_.detail = "the server reports: " + foreign(answer_.message());
    return;
  }
  const bool stream = http_.content_type() == "text/event-stream";
  malformed_ = !expects_whole() || stream || event == Answer::Event::kMalformed ||
               event == Answer::Event::kDone;
  if (!malformed_) {
    if (event == Answer::Event::kToken) take_token(at_ns);
    return;
  }
  const char* wanted = !expects_whole() ? "not an event stream but \""
                       : stream         ? "not a whole answer but \""
                                        : "no JSON object but \"";
  record_.detail = wanted + foreign(http_.content_type(), 60) + "\": " + foreign(body_);
}

void Exchange::comment() {
  if (malformed_ || error_) return;
  alive_at_ = now_;
  ++record_.comments;
}

Ending Exchange::peer_closed(bool clean) {
  const bool ended = http_.end_of_connection();
  return ended && (clean || http_.framed()) ? Ending::kComplete : Ending::kCut;
}

void Exchange::finish(Ending ending, std::int64_t at_ns, std::string_view detail) {
  record_.end = at_ns;
  if (ending == Ending::kComplete && http_.status() == 200 && !event_stream_ && !malformed_)
    take_whole(at_ns);
  record_.estimated = answer_.completion_tokens() < 0;
  record_.tokens = record_.estimated ? record_.events : answer_.completion_tokens();
  record_.cached = answer_.cached_tokens();
  set_outcome(ending);
  if (record_.outcome == Outcome::kOk) record_.detail.clear();
  if (record_.outcome == Outcome::kHttpError) {
    record_.detail = std::to_string(http_.status()) + " " + foreign(http_.reason(), 60);
    if (!http_.retry_after().empty())
      record_.detail += ", retry after " + foreign(http_.retry_after(), 40);
    if (!body_.empty()) record_.detail += ": " + foreign(body_);
  }
  if (record_.outcome != Outcome::kOk && record_.detail.empty())
    record_.detail = detail.empty() ? describe() : std::string(detail);
}

// A custom stream has no finish_reason that we know of: the end of its body must do, if it is not
// merely that of the connection.
bool Exchange::complete_without_done(Ending ending) const {
  return reading_ != nullptr && reading_->form.api == Api::kCustom && ending == Ending::kComplete &&
         http_.framed();
}

void Exchange::set_outcome(Ending ending) {
  record_.outcome = decide({.ending = ending,
                            .status = http_.status(),
                            .malformed = malformed_,
                            .error = error_,
                            .done = answer_.done(),
                            .finished = answer_.finished() || complete_without_done(ending),
                            .length_reached = answer_.length_reached(),
                            .whole = expects_whole(),
                            .estimated = record_.estimated,
                            .events = record_.events,
                            .tokens = record_.tokens,
                            .forced = forced_});
}

std::string Exchange::foreign(std::string_view text, std::size_t limit) const {
  if (reading_ == nullptr || reading_->secret.empty()) return printable(text, limit);
  return printable(without_secret(text, reading_->secret), limit);
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
