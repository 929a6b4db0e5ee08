// Load: users' questions to an OpenAI-compatible server, open loop, and how the answers came.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/check.h"
#include "harness/base/text.h"
#include "probes/inference/arrival_params.h"
#include "probes/inference/arrival_tests.h"
#include "probes/inference/arrivals.h"
#include "probes/inference/client.h"
#include "probes/inference/row_writer.h"
#include "probes/inference/scheduling.h"
#include "probes/inference/server_params.h"
#include "probes/probe.h"

namespace mixproof {
namespace {

using inference::kMillisecond;
using inference::kSecond;

constexpr std::int64_t kConnectTimeout = 5 * kSecond;
constexpr std::int64_t kWarmUpTimeout =
    30 * kSecond;  // a cold engine compiles, maps and faults in its weights
constexpr std::int64_t kWarmUps = 4;
// Of the length of a phase between prepare() and run(): seconds become nanoseconds at other places.
constexpr std::int64_t kRounding = 1000;
constexpr std::int64_t kByHand =
    3600 * kSecond;  // without phases the load runs until stopped, at most so long
// A proxy that holds an answer back delivers it in one read, long after it was asked; then the
// first token's time says nothing.
constexpr std::int64_t kBufferedTokens = 8, kBufferedRoundTrips = 20;

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

// How many requests of each phase this worker sends.
Json phases_json(const inference::Schedule& schedule,
                 const std::vector<inference::SchedulePhase>& phases,
                 const inference::Share& share) {
  std::vector<std::int64_t> counts(phases.size(), 0);
  for (std::size_t i = 0; i < schedule.arrivals.size(); ++i)
    if (share.has(static_cast<std::int64_t>(i))) ++counts[schedule.arrivals[i].phase];
  Json out = Json::object();
  for (std::size_t p = 0; p < phases.size(); ++p) out[phases[p].name] = counts[p];
  return out;
}

// Answers that are not recorded: they only prove that the server answers as it should.
class WarmUp final : public inference::ClientEvents {
 public:
  WarmUp(const inference::Schedule& schedule, inference::Requests& requests)
      : schedule_(schedule), requests_(requests) {}
  std::string_view request(std::int64_t i) override { return requests_.write(schedule_, i); }
  void finished(const inference::RequestRecord& record) override { records.push_back(record); }

  std::vector<inference::RequestRecord> records;

 private:
  const inference::Schedule& schedule_;
  inference::Requests& requests_;
};

// What run() records.
class Recorder final : public inference::ClientEvents {
 public:
  Recorder(const inference::Schedule& schedule, inference::Requests& requests, RowSink& rows,
           const inference::RowLabels& labels, const inference::Share& share)
      : schedule_(schedule),
        requests_(requests),
        out_(rows, labels),
        times_recorded(schedule.arrivals.size(), 0),
        delays(schedule.arrivals.size(), inference::kNotMine) {
    for (std::size_t i = 0; i < delays.size(); ++i)
      if (share.has(static_cast<std::int64_t>(i))) delays[i] = inference::kNotSent;
  }
  std::string_view request(std::int64_t i) override { return requests_.write(schedule_, i); }
  void finished(const inference::RequestRecord& record) override {
    std::uint8_t& times = times_recorded[static_cast<std::size_t>(record.i)];
    times = static_cast<std::uint8_t>(std::min(255, times + 1));
    if (record.send > 0) delays[static_cast<std::size_t>(record.i)] = record.send - record.sched;
    if (record.retry_after) ++retry_after;
    if (record.outcome == inference::Outcome::kOk) {
      ++answers;
      if (!record.estimated && record.tokens != record.events && !first_mismatch)
        first_mismatch = record;
      if (record.events > kBufferedTokens && record.token_reads == 1 &&
          record.last - record.sent > kBufferedRoundTrips * record.round_trip)
        ++buffered;
    }
    out_.add(record);
  }
  void second(const inference::ClientSecond& second) override { out_.add(second); }
  void finish() { out_.finish(); }

 private:
  const inference::Schedule& schedule_;
  inference::Requests& requests_;
  inference::RowWriter out_;

 public:
  std::vector<std::uint8_t> times_recorded;  // by request
  std::vector<std::int64_t> delays;          // of their sending, by request
  std::int64_t answers = 0, buffered = 0, retry_after = 0;
  std::optional<inference::RequestRecord> first_mismatch;
};

class InferenceLoad final : public Probe {
 public:
  Params params() override {
    Params out = server_.params();
    const Params more = {
        inference::arrivals_param(arrivals_),
        number("deadline_s", &deadline_s_,
               "an answer that is not complete so long after it was due is a failure",
               {.min = 0.01, .max = 3600}),
        number("first_token_s", &first_token_s_, "deadline of the first token; 0: deadline_s",
               {.min = 0, .max = 3600}),
        number("idle_s", &idle_s_, "longest silence within an answer; 0: deadline_s",
               {.min = 0, .max = 3600}),
        integer("connections", &connections_,
                "connections held open to each server, by each worker", {.min = 1, .max = 10'000}),
        integer("max_in_flight", &max_in_flight_,
                "requests under way at once in a worker; what exceeds it is CLIENT_DROPPED",
                {.min = 1, .max = 100'000}),
        flag("event_is_token", &event_is_token_,
             "an answer whose token events are not as many as its tokens is corrupt; false for "
             "servers that put several "
             "tokens into one event"),
        flag("short_is_ok", &short_is_ok_,
             "judge answers with fewer tokens than were asked for (SHORT) like complete ones"),
        flag(
            "keep_awake", &keep_awake_,
            "no processor of the client's machine sleeps while it runs (needs root); not where the server "
            "runs as well, which would answer faster than it does"),
        integer("workers", &workers_,
                "processes that share the requests of one schedule, over the role's nodes in order",
                {.min = 1, .max = 1024}),
    };
    out.insert(out.end(), more.begin(), more.end());
    for (Param& one : inference::length_params(lengths_)) out.push_back(std::move(one));
    return out;
  }

  Status check_params() override {
    TRY(inference::check_process(arrivals_));
    return inference::check_lengths(lengths_, arrivals_.kind == "trace");
  }

  Cost cost() override {
    constexpr double kEventBytes = 300;  // one token's chunk, as engines write it
    const double peak_per_s = inference::peak_rate(arrivals_);
    const double tokens = lengths_.answer.kind == "trace"
                              ? static_cast<double>(arrivals_.trace.max_answer_tokens)
                              : inference::mean_length(lengths_.answer, lengths_.answer_tokens);
    return {.network_bytes_per_s = peak_per_s * tokens * kEventBytes, .requests_per_s = peak_per_s};
  }

  Status prepare(ProbeContext& context) override {
    by_hand_ = context.phases.empty();
    if (context.workers != workers_)
      return Error{Code::kInvalid, format("workers: this one is of %d, not of %lld",
                                          context.workers, static_cast<long long>(workers_)) +
                                       (by_hand_ ? "; only a run has several" : "")};
    TRY(server_.prepare());
    share_ = {context.worker, workers_, std::ssize(server_.endpoints())};
    if (max_in_flight_ < share_.targets)
      return Error{Code::kInvalid, "max_in_flight: fewer than there are servers"};
    phases_.clear();
    for (const PhaseSpan& phase : context.phases)
      phases_.push_back({phase.name, phase.begin_ns, phase.end_ns});
    if (by_hand_) phases_.push_back({"by_hand", 0, kByHand});
    schedule_ = TRY(inference::draw_schedule(arrivals_, phases_, context.seed, lengths_));
    requests_.emplace(server_, share_);
    client_ = TRY(inference::Client::create(server_.endpoints(),
                                            {.connections = static_cast<int>(connections_),
                                             .max_in_flight = static_cast<int>(max_in_flight_),
                                             .tls = server_.tls(),
                                             .reading = server_.reading()}));
    TRY(client_->open_pool(inference::monotonic_ns() + kConnectTimeout, context.stop));
    const bool counts_tokens = TRY(warm_up(context));
    const inference::Priority priority;  // to learn what run() will get
    std::string scheduling = priority.description();
    if (keep_awake_)
      scheduling += inference::Awake().held()
                        ? ", processors kept awake"
                        : ", processors may sleep (not allowed to keep them awake)";
    context.info = server_.info();
    context.info.update({{"schedule_hash", schedule_.hash},
                         {"arrivals", inference::arrivals_info(arrivals_, schedule_, phases_)},
                         {"token_source", counts_tokens ? "usage" : "events"},
                         {"scheduling", scheduling}});
    context.info["arrivals"]["by_phase"] = phases_json(schedule_, phases_, share_);
    if (workers_ > 1) context.info["worker"] = {{"index", share_.worker}, {"of", share_.workers}};
    return ok();
  }

  Status run(ProbeContext& context) override {
    CHECK(client_ != nullptr);
    const std::vector<inference::Send> sends = TRY(absolute_times(context));
    inference::Timeouts timeouts;
    timeouts.total_ns = nanoseconds(deadline_s_);
    timeouts.first_token_ns = first_token_s_ > 0 ? nanoseconds(first_token_s_) : timeouts.total_ns;
    timeouts.idle_ns = idle_s_ > 0 ? nanoseconds(idle_s_) : timeouts.total_ns;
    recorder_.emplace(schedule_, *requests_, context.rows,
                      inference::RowLabels{.worker = share_.worker,
                                           .with_worker = share_.workers > 1,
                                           .with_target = share_.targets > 1},
                      share_);
    Result<inference::RunEnd> end = [&] {
      const inference::Priority priority;
      std::optional<inference::Awake> awake;
      if (keep_awake_) awake.emplace();
      return client_->run(sends, ends_.back(), timeouts, context.stop, *recorder_);
    }();
    ended_at_ = inference::monotonic_ns();
    recorder_->finish();
    if (!end) return std::move(end).error();
    end_ = std::move(*end);
    if (!by_hand_) tell_arrivals(context.rows);
    tell(context);
    return ok();
  }

  Status check(ProbeContext&) override {
    if (!recorder_) return Error{Code::kInternal, "nothing was run"};
    std::vector<std::uint8_t> left_out(schedule_.arrivals.size(), 0);
    for (const std::int64_t i : end_.left_out) left_out[static_cast<std::size_t>(i)] = 1;
    for (std::size_t i = 0; i < schedule_.arrivals.size(); ++i) {
      if (!share_.has(static_cast<std::int64_t>(i))) continue;
      const std::uint32_t phase = schedule_.arrivals[i].phase;
      const int rows = recorder_->times_recorded[i];
      const bool due = (!end_.stopped || ends_[phase] <= ended_at_) && left_out[i] == 0;
      if (rows > 1 || (due && rows != 1))
        return Error{Code::kInternal, format("request %zu of phase %s has %d rows, not one", i,
                                             phases_[phase].name.c_str(), rows)};
    }
    if (event_is_token_ && server_.events_are_tokens() && recorder_->first_mismatch) {
      const inference::RequestRecord& record = *recorder_->first_mismatch;
      return Error{
          Code::kCorrupt,
          format("%s: request %lld brought %lld token events, the server counts %lld tokens",
                 server_.endpoints()[record.target].url.c_str(), static_cast<long long>(record.i),
                 static_cast<long long>(record.events), static_cast<long long>(record.tokens))};
    }
    return ok();
  }

 private:
  // What people should know of the run.
  void tell(ProbeContext& context) const {
    const auto note = [&](const std::string& message) {
      context.rows.row({{"row", "note"}, {"message", context.name + ": " + message}});
    };
    if (!end_.left_out.empty())
      note(format("stopped with %zu requests in flight; they are left out", end_.left_out.size()));
    if (recorder_->buffered * 2 > recorder_->answers)
      note(format(
          "%lld of %lld answers came in one read each: something buffers the stream, "
          "the time of the first token says nothing about the server",
          static_cast<long long>(recorder_->buffered), static_cast<long long>(recorder_->answers)));
    if (recorder_->retry_after > 0)
      note(format("%lld answers asked to come back later (Retry-After); no request was retried",
                  static_cast<long long>(recorder_->retry_after)));
    if (server_.unverified())
      note("the certificate of the server was not verified (tls_verify is false)");
  }

  std::int64_t forced_tokens(const inference::Arrival& arrival) const {
    return server_.forced_tokens(arrival.answer_tokens);
  }

  // Of the phases that were run to their end.
  void tell_arrivals(RowSink& rows) const {
    std::int64_t until = end_.stopped ? 0 : phases_.back().end_ns;
    for (std::size_t p = 0; p < phases_.size(); ++p)
      if (ends_[p] <= ended_at_) until = std::max(until, phases_[p].end_ns);
    for (Json& row : inference::arrivals_rows(arrivals_, phases_, schedule_, recorder_->delays,
                                              until, static_cast<int>(share_.workers))) {
      if (share_.workers > 1) row["worker"] = share_.worker;
      rows.row(row);
    }
  }

  // Whether the server counts the tokens. The error names the URL.
  Result<bool> warm_up(const ProbeContext& context) {
    const auto count = static_cast<std::uint32_t>(
        std::max(share_.targets, std::min<std::int64_t>({connections_, max_in_flight_, kWarmUps})));
    const inference::Schedule schedule = inference::warm_up_schedule(schedule_, count, lengths_);
    std::vector<inference::Send> sends;
    const std::int64_t now = inference::monotonic_ns();
    const inference::Share all{.worker = 0, .workers = 1, .targets = share_.targets};
    inference::Requests requests(server_, all);
    for (std::int64_t i = 0; i < std::ssize(schedule.arrivals); ++i)
      sends.push_back({i, now, forced_tokens(schedule.arrivals[static_cast<std::size_t>(i)]),
                       all.target_of(i)});
    WarmUp events(schedule, requests);
    const inference::Timeouts timeouts{kWarmUpTimeout, kWarmUpTimeout, kWarmUpTimeout};
    const inference::RunEnd end = TRY(client_->run(sends, now, timeouts, context.stop, events));
    if (end.stopped) return Error{Code::kTimeout, "stopped while warming up " + server_.names()};
    bool counts_tokens = true;
    for (const inference::RequestRecord& record : events.records) {
      counts_tokens = counts_tokens && !record.estimated;
      if (record.outcome == inference::Outcome::kOk) continue;
      return Error{Code::kPeerLost,
                   "POST " + requests.path(record.target) + " at " +
                       server_.endpoints()[record.target].url + " does not answer as it should: " +
                       std::string(outcome_name(record.outcome)) + ", " + record.detail};
    }
    return counts_tokens;
  }

  // The schedule on this node's clock.
  Result<std::vector<inference::Send>> absolute_times(const ProbeContext& context) {
    std::vector<std::int64_t> begins;
    ends_.clear();
    if (by_hand_) {
      begins.push_back(inference::monotonic_ns() + 100 * kMillisecond);
      ends_.push_back(begins.back() + kByHand);
    } else {
      if (context.phases.size() != phases_.size())
        return Error{Code::kInternal, "the phases are not those that the schedule was drawn for"};
      for (std::size_t p = 0; p < phases_.size(); ++p) {
        const PhaseSpan& phase = context.phases[p];
        const std::int64_t longer =
            phase.end_ns - phase.begin_ns - (phases_[p].end_ns - phases_[p].begin_ns);
        if (phase.name != phases_[p].name || std::abs(longer) > kRounding)
          return Error{Code::kInternal,
                       "phase " + phase.name + " is not the one that the schedule was drawn for"};
        begins.push_back(phase.begin_ns);
        ends_.push_back(phase.end_ns);
      }
    }
    std::vector<inference::Send> sends;
    sends.reserve(schedule_.arrivals.size() / static_cast<std::size_t>(share_.workers) + 1);
    for (std::int64_t i = 0; i < std::ssize(schedule_.arrivals); ++i) {
      if (!share_.has(i)) continue;
      const inference::Arrival& arrival = schedule_.arrivals[static_cast<std::size_t>(i)];
      sends.push_back({i, begins[arrival.phase] + arrival.at_ns - phases_[arrival.phase].begin_ns,
                       forced_tokens(arrival), share_.target_of(i)});
    }
    return sends;
  }

  inference::ServerParams server_;
  inference::ArrivalProcess arrivals_;
  inference::Lengths lengths_;
  std::int64_t connections_ = 8, max_in_flight_ = 512, workers_ = 1;
  bool keep_awake_ = false;
  double deadline_s_ = 10, first_token_s_ = 0, idle_s_ = 0;
  bool event_is_token_ = true, short_is_ok_ = false;

  inference::Share share_;
  std::vector<inference::SchedulePhase> phases_;  // from 0
  bool by_hand_ = false;
  inference::Schedule schedule_;
  std::optional<inference::Requests> requests_;
  std::unique_ptr<inference::Client> client_;
  std::optional<Recorder> recorder_;
  std::vector<std::int64_t> ends_;  // of the phases, on this node's clock
  std::int64_t ended_at_ = 0;
  inference::RunEnd end_;
};

constexpr MetricSpec kMetrics[] = {
    {"inference.ttft", "s", Better::kLower,
     "time to first token: first non-empty token minus scheduled time; infinite for failed "
     "requests"},
    {"inference.service_ttft", "s", Better::kLower,
     "first token minus the last byte of the request: the server's share, for comparison with "
     "other tools"},
    {"inference.tpot", "s", Better::kLower,
     "time per output token: last minus first token over the server's count minus one; only "
     "answers of two or more"},
    {"inference.max_gap", "s", Better::kLower, "longest gap between token events of an answer"},
    {"inference.longest_wait", "s", Better::kLower,
     "larger of time to first token and longest gap, infinite unless OK: a stall shows whether or "
     "not a stream was open"},
    {"inference.event_gap", "s", Better::kLower, "gaps between token events, all answers together"},
    {"inference.e2e", "s", Better::kLower, "last token minus scheduled time"},
    {"inference.client_delay", "s", Better::kLower,
     "the client's own lateness: its first act for a request minus the scheduled time"},
    {"inference.receive_lag", "s", Better::kLower,
     "the client's own delay in reading: largest difference between its stamp and the kernel's "
     "within an answer"},
    {"inference.attainment", "1", Better::kHigher,
     "share of scheduled requests that are good: OK and within the SLO"},
    {"inference.violations", "1", Better::kLower, "scheduled requests that are not good"},
    {"inference.goodput", "1/s", Better::kHigher, "good requests a second"},
    {"inference.offered_rate", "1/s", Better::kNone, "scheduled requests a second"},
    {"inference.token_rate", "1/s", Better::kHigher,
     "tokens a second, by the time of their arrival"},
    {"inference.stall_time", "s", Better::kLower,
     "sum over gaps of what exceeds the stall threshold"},
    {"inference.lost_time", "s", Better::kLower,
     "sum over requests of what the time to first token exceeds its limit by, capped at the "
     "deadline"},
    {"inference.outcomes", "1", Better::kNone, "requests by outcome class"},
    {"inference.arrival_ks", "1", Better::kNone,
     "Kolmogorov-Smirnov distance of the gaps between sendings, the rate taken out, from the "
     "declared distribution"},
    {"inference.arrival_dispersion", "1", Better::kNone,
     "variance over mean of the counts of sendings: 1 as declared, above it lumps"},
    {"inference.arrival_moved", "1", Better::kNone,
     "share of the gaps between sendings that differ from those between due times"},
    {"inference.time_to_impact", "s", Better::kNone,
     "from the fault to the first violation beyond what the baseline shows; an interval"},
    {"inference.time_to_recover", "s", Better::kLower,
     "from the end of the fault to the first run of clean requests; an interval"},
};

}  // namespace

extern const ProbeSpec inference_probe;
const ProbeSpec inference_probe = {
    .name = "inference",
    .summary = "Asks an OpenAI-compatible server, open loop, and records how each answer came.",
    .load = true,
    .generator = true,
    .ranks = false,
    .metrics = kMetrics,
    .create = []() -> std::unique_ptr<Probe> { return std::make_unique<InferenceLoad>(); },
};

}  // namespace mixproof
