// The highest rate that a server is proved to hold: open-loop trials, each with prompts of its own,
// until the bracket is narrow. How it decides: probes/inference/capacity_search.h.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "harness/base/statistics.h"
#include "harness/base/text.h"
#include "probes/inference/arrivals.h"
#include "probes/inference/capacity_search.h"
#include "probes/inference/client.h"
#include "probes/inference/request.h"
#include "probes/inference/scheduling.h"
#include "probes/probe.h"

namespace mixproof {
namespace {

using inference::CapacityBounds;
using inference::CapacitySearch;
using inference::kMillisecond;
using inference::kSecond;
using inference::monotonic_ns;
using inference::Outcome;
using inference::RequestRecord;
using inference::TrialVerdict;

constexpr std::int64_t kConnectTimeout = 5 * kSecond, kAnswerTimeout = 30 * kSecond;
// Beyond these a trial tells about the client (as for the loads of a suite).
constexpr double kLatenessFloorS = 0.001, kLatenessShare = 0.02;
constexpr double kDroppedShare = 0.001;
constexpr int kDraws = 1000;  // one in six is good at least where rates are of any use
constexpr double kCpuLimit = 0.85, kStealLimit = 0.05;

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

struct Slo {
  double ttft_s = 1, tpot_s = 0, max_gap_s = 0;  // 0: no bound
};

bool is_good(const RequestRecord& record, const Slo& slo) {
  if (record.outcome != Outcome::kOk) return false;
  const auto within = [](std::int64_t ns, double bound_s) {
    return bound_s == 0 || 1e-9 * static_cast<double>(ns) <= bound_s;
  };
  const bool paced = record.tokens < 2 || record.events < 2 ||
                     within((record.last - record.first) / (record.tokens - 1), slo.tpot_s);
  return paced && within(record.first - record.sched, slo.ttft_s) &&
         within(record.max_gap, slo.max_gap_s);
}

// What one stretch of requests came to.
class Tally final : public inference::ClientEvents {
 public:
  Tally(const inference::Schedule& schedule, inference::RequestWriter& writer)
      : schedule_(schedule), writer_(writer) {}

  std::string_view request(std::int64_t i) override {
    const inference::Arrival& arrival = schedule_.arrivals[static_cast<std::size_t>(i)];
    return writer_.write(prompt_text(schedule_, arrival), arrival.answer_tokens);
  }
  void finished(const RequestRecord& record) override { records.push_back(record); }
  void second(const inference::ClientSecond& second) override {
    const bool whole = second.at - last_second_ > kSecond / 2;  // the last one may be a sliver
    last_second_ = second.at;
    if (!whole) return;
    cpu = std::max(cpu, second.cpu);
    steal = std::max(steal, second.steal);
  }

  std::vector<RequestRecord> records;
  double cpu = 0, steal = 0;  // of the worst second

 private:
  const inference::Schedule& schedule_;
  inference::RequestWriter& writer_;
  std::int64_t last_second_ = monotonic_ns();
};

std::optional<double> p99_s(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return nearest_rank(values, 0.99);
}

// Why the client, not the server, may have decided these requests; empty when it did not.
std::string client_trouble(const Tally& tally, double ttft_limit_s) {
  std::vector<double> late, lag;
  double dropped = 0;
  for (const RequestRecord& record : tally.records) {
    dropped += record.outcome == Outcome::kClientDropped ? 1 : 0;
    if (record.send > 0) late.push_back(1e-9 * static_cast<double>(record.send - record.sched));
    if (record.lag) lag.push_back(1e-9 * static_cast<double>(*record.lag));
  }
  const auto n = static_cast<double>(tally.records.size());
  if (dropped > kDroppedShare * n)
    return format("the client dropped %.0f of %.0f requests", dropped, n);
  const double bound = std::max(kLatenessFloorS, kLatenessShare * ttft_limit_s);
  for (const auto& [values, words] : {std::pair{&late, "sent"}, {&lag, "read"}})
    if (const auto p99 = p99_s(*values); p99 && !(*p99 <= bound))
      return format("the client %s late: p99 %.1f ms, allowed %.1f ms", words, *p99 * 1e3,
                    bound * 1e3);
  if (!(tally.cpu <= kCpuLimit))
    return format("the client used %.0f %% of its core", 100 * tally.cpu);
  if (!(tally.steal <= kStealLimit))
    return format("%.1f %% of the machine's time was stolen", 100 * tally.steal);
  return "";
}

class Capacity final : public Probe {
 public:
  Params params() override {
    return {
        required(text("url", &url_, "base URL of the server")),
        text("model", &shape_.model, "name of the model to ask for"),
        number("rate_low_per_s", &bounds_.rate_low, "where the search begins",
               {.min = 0.01, .max = 100'000}),
        number("rate_high_per_s", &bounds_.rate_high, "beyond which it does not go",
               {.min = 0.01, .max = 100'000}),
        number("resolution", &bounds_.resolution,
               "ends when the lowest rate that is not proved lies within this factor",
               {.min = 1.01, .max = 2}),
        number("target", &bounds_.target, "share of requests that must be good",
               {.min = 0.5, .max = 0.999}),
        number("confidence", &bounds_.confidence, "of the whole search",
               {.min = 0.5, .max = 0.9999}),
        number("ttft_s", &slo_.ttft_s, "good: the first token within, from the scheduled time",
               {.min = 0.0001, .max = 3600}),
        number("tpot_s", &slo_.tpot_s, "good: time per output token within; 0: no bound",
               {.min = 0, .max = 3600}),
        number("max_gap_s", &slo_.max_gap_s, "good: every gap within; 0: no bound",
               {.min = 0, .max = 3600}),
        number("deadline_s", &deadline_s_,
               "an answer that is not complete so long after it was due has failed",
               {.min = 0.01, .max = 3600}),
        integer("prompt_words", &lengths_.prompt_words,
                "words in a prompt, behind a salt of eight digits", {.min = 0, .max = 1e6}),
        integer("answer_tokens", &lengths_.answer_tokens, "tokens to ask for",
                {.min = 1, .max = 1e6}),
        flag("ignore_eos", &shape_.ignore_eos,
             "ask the server to send exactly answer_tokens; fewer are then SHORT"),
        number("settle_s", &settle_s_, "of each trial: requests that are sent and not counted",
               {.min = 0, .max = 3600}),
        number("trial_s", &trial_s_,
               "counted part of a trial at least; longer where the rate needs it for a proof",
               {.min = 0.1, .max = 3600}),
        number("pause_s", &pause_s_, "between trials", {.min = 0, .max = 3600}),
        integer("max_trials", &max_trials_, "rates that are tried at most", {.min = 2, .max = 100}),
        integer("looks", &looks_,
                "how often an undecided trial is looked at, each time with as "
                "many requests more",
                {.min = 1, .max = 20}),
        integer("connections", &connections_, "connections held open", {.min = 1, .max = 10'000}),
        integer("max_in_flight", &max_in_flight_,
                "requests under way at once; a trial that exceeds it is the client's limit",
                {.min = 1, .max = 100'000}),
    };
  }

  Cost cost() override { return {.requests_per_s = bounds_.rate_high}; }

  Status prepare(ProbeContext& context) override {
    if (bounds_.rate_high <= bounds_.rate_low)
      return Error{Code::kInvalid, "/rate_high_per_s: not above rate_low_per_s"};
    bounds_.max_trials = static_cast<int>(max_trials_);
    bounds_.looks = static_cast<int>(looks_);
    endpoint_ = TRY(inference::resolve_endpoint(url_));
    writer_.emplace(endpoint_, shape_);
    client_ = TRY(
        inference::Client::create(endpoint_, {.connections = static_cast<int>(connections_),
                                              .max_in_flight = static_cast<int>(max_in_flight_)}));
    TRY(client_->open_pool(monotonic_ns() + kConnectTimeout, context.stop));
    TRY(still_answers(context));
    const inference::Priority priority;  // to learn what run() will get
    context.info = {{"url", url_}, {"scheduling", priority.description()}};
    return ok();
  }

  Status run(ProbeContext& context) override {
    const inference::Priority priority;
    CapacitySearch search(bounds_);
    while (search.end() == CapacitySearch::End::kNone) {
      const Result<TrialVerdict> verdict = trial(context, search);
      if (context.stop.stop_requested()) return ok();
      if (!verdict.ok())
        return Error(verdict.error())
            .in(format("trial at %.4g/s (proved up to %.4g/s)", search.next_rate(),
                       search.proved()));
      if (*verdict != TrialVerdict::kProved) TRY(still_answers(context));
      search.report(*verdict);
    }
    return conclude(context, search);
  }

  Status check(ProbeContext&) override {
    if (concluded_) return ok();
    return Error{Code::kTimeout, "stopped before the search had ended"};
  }

 private:
  // One answer, however slow: a server that is gone is an error, not one without capacity.
  Status still_answers(ProbeContext& context) {
    const std::vector<inference::SchedulePhase> once = {
        {format("answer %d", ++stretches_), 0, kMillisecond}};
    const inference::Schedule schedule = TRY(inference::draw_schedule(
        {.kind = "constant", .rate_per_s = 1000}, once, context.seed, lengths_));
    Tally tally(schedule, *writer_);
    TRY(send(context, schedule, 0, kAnswerTimeout, tally));
    if (context.stop.stop_requested()) return ok();
    const RequestRecord& record = tally.records.front();
    if (record.outcome == Outcome::kOk) return ok();
    return Error{Code::kPeerLost,
                 url_ + " does not answer: " + std::string(outcome_name(record.outcome)) + ", " +
                     record.detail};
  }

  Status send(ProbeContext& context, const inference::Schedule& schedule, std::int64_t until,
              std::int64_t timeout, Tally& tally) {
    const std::int64_t begin = monotonic_ns() + kMillisecond;
    std::vector<inference::Send> sends;
    for (std::size_t i = 0; i < schedule.arrivals.size(); ++i)
      sends.push_back({static_cast<std::int64_t>(i), begin + schedule.arrivals[i].at_ns,
                       shape_.ignore_eos ? schedule.arrivals[i].answer_tokens : 0});
    TRY(client_->run(sends, begin + until, {timeout, timeout, timeout}, context.stop, tally));
    return ok();
  }

  // Poisson arrivals whose number is the one that the rate stands for, within one in a hundred: a
  // draw with fewer would prove a rate that was not asked for.
  Result<inference::Schedule> draw(double rate, std::int64_t length_ns, std::uint64_t seed) {
    const double expected = 1e-9 * static_cast<double>(length_ns) * rate;
    ++stretches_;
    for (int attempt = 0; attempt < kDraws; ++attempt) {
      const std::vector<inference::SchedulePhase> phases = {
          {format("trial %d, draw %d", stretches_, attempt), 0, length_ns}};
      inference::Schedule schedule = TRY(inference::draw_schedule(
          {.kind = "poisson", .rate_per_s = rate}, phases, seed, lengths_));
      const double difference = static_cast<double>(schedule.arrivals.size()) - expected;
      if (std::fabs(difference) <= std::max(1.0, 0.01 * expected)) return schedule;
    }
    return Error{Code::kInternal, "no schedule has as many requests as its rate stands for"};
  }

  Result<TrialVerdict> trial(ProbeContext& context, const CapacitySearch& search) {
    const double rate = search.next_rate();
    // Enough to prove the target with a few that are not good, and to see a queue grow.
    const auto least =
        static_cast<double>(least_n(bounds_.target, inference::confidence_of_a_look(bounds_), 2));
    const double wanted =
        std::max(1.2 * least, inference::requests_to_see_growth(bounds_.resolution));
    const double counted_s = std::max(trial_s_, wanted / rate);
    std::int64_t good = 0, n = 0;
    bool grows = false;
    inference::TrialJudgement judgement;
    for (int look = 0; look < bounds_.looks; ++look) {
      pause(context);
      const inference::Schedule schedule =
          TRY(draw(rate, nanoseconds(settle_s_ + counted_s), context.seed));
      Tally tally(schedule, *writer_);
      TRY(send(context, schedule, nanoseconds(settle_s_ + counted_s), nanoseconds(deadline_s_),
               tally));
      if (context.stop.stop_requested()) return TrialVerdict::kUndecided;
      if (const std::string trouble = client_trouble(tally, slo_.ttft_s); !trouble.empty())
        return Error{Code::kUnavailable, "not a limit of the server: " + trouble};
      std::vector<double> waits(schedule.arrivals.size(), -1);
      for (const RequestRecord& record : tally.records) {
        const auto i = static_cast<std::size_t>(record.i);
        if (schedule.arrivals[i].at_ns < nanoseconds(settle_s_)) continue;
        ++n;
        good += is_good(record, slo_) ? 1 : 0;
        if (record.first > 0) waits[i] = 1e-9 * static_cast<double>(record.first - record.sched);
      }
      std::erase(waits, -1.0);  // not counted, or without a token
      grows = grows || inference::queue_grows(waits, counted_s, bounds_.resolution);
      judgement = inference::judge_trial(good, n, bounds_);
      if (grows && judgement.verdict == TrialVerdict::kProved)
        judgement.verdict = TrialVerdict::kUndecided;
      if (grows || judgement.verdict != TrialVerdict::kUndecided) break;
    }
    trial_row(context, rate, good, n, grows, judgement);
    return judgement.verdict;
  }

  void trial_row(ProbeContext& context, double rate, std::int64_t good, std::int64_t n, bool grows,
                 const inference::TrialJudgement& judgement) const {
    context.rows.row({{"row", "sample"},
                      {"metric", "capacity.attainment"},
                      {"value", n == 0 ? 0 : static_cast<double>(good) / static_cast<double>(n)},
                      {"unit", "1"},
                      {"labels",
                       {{"rate_per_s", rate},
                        {"good", good},
                        {"n", n},
                        {"queue_grows", grows},
                        {"lower", judgement.lower},
                        {"upper", judgement.upper},
                        {"confidence", inference::confidence_of_a_look(bounds_)},
                        {"verdict", trial_verdict_name(judgement.verdict)}}}});
  }

  Status conclude(ProbeContext& context, const CapacitySearch& search) {
    using End = CapacitySearch::End;
    if (search.end() == End::kBelowLow)
      return Error{Code::kUnavailable,
                   format("attainment is below %.10g already at rate_low_per_s = %.4g",
                          bounds_.target, bounds_.rate_low)};
    if (search.end() == End::kUndecided)
      return Error{Code::kUnavailable,
                   format("whether %.10g is reached at rate_low_per_s = %.4g stays undecided: "
                          "the queue grows, or it needs longer trials or more looks",
                          bounds_.target, bounds_.rate_low)};
    const char* ended = search.end() == End::kAtHigh        ? "rate_high_per_s is proved"
                        : search.end() == End::kOutOfTrials ? "max_trials were made"
                                                            : "resolution";
    Json labels = {{"target", bounds_.target},
                   {"confidence", bounds_.confidence},
                   {"trials", search.trials()},
                   {"dependence", "requests"},
                   {"ended", ended}};
    if (search.not_proved() > 0) labels["not_proved_per_s"] = search.not_proved();
    context.rows.row({{"row", "sample"},
                      {"metric", "capacity.rate"},
                      {"value", search.proved()},
                      {"unit", "1/s"},
                      {"labels", labels}});
    concluded_ = true;
    return ok();
  }

  void pause(const ProbeContext& context) const {
    const std::int64_t until = monotonic_ns() + nanoseconds(pause_s_);
    while (!context.stop.stop_requested() && monotonic_ns() < until)
      std::this_thread::sleep_for(std::chrono::nanoseconds(
          std::clamp<std::int64_t>(until - monotonic_ns(), 0, 50 * kMillisecond)));
  }

  std::string url_;
  inference::RequestShape shape_{.model = "mixproof", .ignore_eos = true};
  CapacityBounds bounds_;
  Slo slo_;
  inference::Lengths lengths_;
  double deadline_s_ = 10, settle_s_ = 1, trial_s_ = 5, pause_s_ = 0.5;
  std::int64_t max_trials_ = 12, looks_ = 3, connections_ = 64, max_in_flight_ = 4000;

  inference::Endpoint endpoint_;
  std::optional<inference::RequestWriter> writer_;
  std::unique_ptr<inference::Client> client_;
  int stretches_ = 0;
  bool concluded_ = false;
};

constexpr MetricSpec kMetrics[] = {
    {"capacity.rate", "1/s", Better::kHigher,
     "highest request rate at which the attainment is proved to reach the target"},
    {"capacity.attainment", "1", Better::kHigher,
     "share of good requests in one trial of the search"},
};

}  // namespace

extern const ProbeSpec capacity_probe;
const ProbeSpec capacity_probe = {
    .name = "capacity",
    .summary = "Searches the highest request rate at which a server is proved to keep its targets.",
    .load = false,
    .generator = true,
    .ranks = false,
    .metrics = kMetrics,
    .create = []() -> std::unique_ptr<Probe> { return std::make_unique<Capacity>(); },
};

}  // namespace mixproof
