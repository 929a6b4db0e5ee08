// Exchange: one request's answer, from the bytes of each read to the record of how it went. Touches
// no socket and no clock, so that everything it decides is tested without either.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "probes/inference/answer.h"
#include "probes/inference/http.h"
#include "probes/inference/outcome.h"
#include "probes/inference/sse.h"

namespace mixproof::inference {

// Times are nanoseconds of CLOCK_MONOTONIC, 0 when not reached.
struct RequestRecord {
  std::int64_t i = 0;
  std::int64_t sched = 0;  // when it was due: latency counts from here
  std::int64_t send =
      0;  // the client acted: first byte to the kernel, or the connection it had to open first
  std::int64_t sent = 0;             // last byte to the kernel
  std::int64_t head = 0;             // status line and fields complete
  std::int64_t first = 0, last = 0;  // token events; of a whole answer: its end
  std::int64_t end = 0;              // the outcome was known
  std::int64_t tokens = 0;           // the server's count, else that of the events (`estimated`)
  std::int64_t events = 0;           // token events; several in one read share a time
  std::int64_t max_gap = 0, max_gap_end = 0;
  std::int64_t cached = 0;       // prompt tokens that the server had cached
  std::int64_t comments = 0;     // keep-alives
  std::int64_t token_reads = 0;  // reads that brought a token event
  std::uint32_t target = 0;      // which of the client's endpoints
  std::int64_t round_trip = 0;   // the kernel's least; only of a stream that came in one read
  int status = 0;                // of HTTP; 0 before the head
  bool retry_after = false;      // the server asked to come back later
  std::optional<std::int64_t>
      lag;  // largest delay from the kernel's stamp of a read to ours; none when no stamp held
  std::optional<std::int64_t> read_lag;  // that of the newest read
  std::int64_t reconnects = 0;
  bool estimated = false;
  Outcome outcome = Outcome::kOk;
  std::string detail;  // for people, when not OK
};

// Sees every token as it arrives.
class TokenObserver {
 public:
  virtual ~TokenObserver() = default;
  virtual void token(const RequestRecord& record, std::int64_t at_ns, std::string_view text) = 0;
};

// How answers are read; the same for all of a client.
struct Reading {
  AnswerForm form;
  std::string secret;  // never repeated in `detail`, whatever the server quotes; may be empty
};

class Exchange final : private SseHandler {
 public:
  // For all requests to come; must outlive this. The default is a chat stream without a secret.
  void use(const Reading* reading);

  // `forced_tokens`: what the server had to send, 0 when it was free to stop.
  void start(std::int64_t i, std::int64_t sched, std::int64_t forced_tokens,
             TokenObserver* observer);

  // One read, stamped once. True when the exchange is over for good: complete, or beyond saving.
  bool read(std::string_view bytes, std::int64_t at_ns, std::optional<std::int64_t> lag);
  // The connection is gone. Complete when that is how the body ends and the end was a `clean` one:
  // no reset, and over TLS the peer said that it would close.
  Ending peer_closed(bool clean);
  // Decides the outcome and fills in the rest of the record.
  void finish(Ending ending, std::int64_t at_ns, std::string_view detail);

  // Of a finished exchange that was complete: the connection can take another request.
  bool reusable() const { return http_.reusable(); }
  bool any_bytes() const { return any_bytes_; }
  std::int64_t last_sign_of_life() const {
    return alive_at_;
  }  // newest event or comment; 0 before any
  RequestRecord& record() { return record_; }
  const RequestRecord& record() const { return record_; }

 private:
  void event(std::string_view type, std::string_view data) override;
  void comment() override;
  bool take_body();
  bool take_head(std::int64_t at_ns);
  void take_token(std::int64_t at_ns);
  void take_whole(std::int64_t at_ns);
  bool expects_whole() const { return reading_ != nullptr && !reading_->form.stream; }
  bool complete_without_done(Ending ending) const;
  void set_outcome(Ending ending);
  std::string foreign(std::string_view text, std::size_t limit = 160) const;
  std::string describe() const;

  HttpResponse http_;
  SseParser sse_;
  Answer answer_;
  RequestRecord record_;
  TokenObserver* observer_ = nullptr;
  const Reading* reading_ = nullptr;
  std::string body_;  // of this read, or what is kept of a body that is not an event stream
  std::int64_t forced_ = 0, alive_at_ = 0, now_ = 0;
  bool any_bytes_ = false, event_stream_ = false, malformed_ = false, error_ = false,
       token_in_read_ = false;
};

}  // namespace mixproof::inference
