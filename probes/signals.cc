// Samples series from elsewhere while a run goes on: pages of Prometheus text, and queries to a
// Prometheus. One question at a time to each server, each with a deadline; a server that is slow
// loses samples, and every sample that is lost says so.
#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "harness/base/text.h"
#include "probes/inference/clock.h"
#include "probes/probe.h"
#include "probes/signal/http_get.h"
#include "probes/signal/prometheus_text.h"
#include "probes/signal/promql.h"
#include "probes/signal/reading.h"

namespace mixproof {
namespace {

using inference::kSecond;
using inference::monotonic_ns;
using signal::Reading;

constexpr std::int64_t kFirstReading = 5 * kSecond;  // at most, while the load is prepared

struct Source {
  std::string instance, url;
};

struct SignalParams {
  std::string name, series, query, combine = "sum";
  Json labels = Json::object();
  bool counter = false;
  double every_s = 1, timeout_s = 1;
  std::vector<Source> sources;
};

// One instance of one signal.
struct Target {
  const SignalParams* signal = nullptr;
  std::string instance, path;
  signal::Labels labels;
  signal::Counters counters;
  std::int64_t next_tick = 0;
};

// All that is asked of one address, by one thread.
struct Server {
  inference::Endpoint endpoint;
  std::vector<Target> targets;
};

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

std::vector<double> values_of(const std::vector<signal::Sample>& samples) {
  std::vector<double> out;
  for (const signal::Sample& sample : samples) out.push_back(sample.value);
  return out;
}

Reading read_page(Target& target, const signal::Page& page, std::int64_t at) {
  if (page.status != 200) return Reading::nothing(format("status %d", page.status));
  const auto samples = signal::samples_of(page.body, target.signal->series, target.labels);
  if (!samples.ok()) return Reading::nothing(samples.error().message);
  if (target.signal->counter) return target.counters.increase(*samples, at);
  return signal::combined(values_of(*samples), target.signal->combine);
}

// An answer that says what is wrong with the query has a status of its own.
Reading read_query(const Target& target, const signal::Page& page) {
  const auto values = signal::query_values(page.body);
  if (!values.ok())
    return Reading::nothing((page.status == 200 ? "" : format("status %d: ", page.status)) +
                            values.error().message);
  if (values->empty()) return Reading::nothing("the query has no result");
  return signal::combined(*values, target.signal->combine);
}

Reading read(Target& target, const Result<signal::Page>& page, std::int64_t at) {
  if (!page.ok()) return Reading::nothing(page.error().message);
  return target.signal->query.empty() ? read_page(target, *page, at) : read_query(target, *page);
}

// The samples of one server, from the begin of the first phase to the end of the last.
class Sampler {
 public:
  Sampler(ProbeContext& context, std::int64_t begin, std::int64_t end)
      : context_(context), begin_(begin), end_(end) {}

  void run(Server& server) {
    for (Target& target : server.targets) target.next_tick = 0;
    while (!context_.stop.stop_requested()) {
      std::int64_t next = std::numeric_limits<std::int64_t>::max();
      for (const Target& target : server.targets) next = std::min(next, due(target));
      if (next == std::numeric_limits<std::int64_t>::max() || !sleep_until(next)) return;
      take(server);
    }
  }

 private:
  // The last sample is taken when all is over, so that the window before it is covered.
  std::int64_t last_tick(const Target& target) const {
    const auto every = nanoseconds(target.signal->every_s);
    return end_ == std::numeric_limits<std::int64_t>::max() ? end_
                                                            : (end_ - begin_ + every - 1) / every;
  }
  std::int64_t due(const Target& target) const {
    if (target.next_tick > last_tick(target)) return std::numeric_limits<std::int64_t>::max();
    return std::min(end_, begin_ + target.next_tick * nanoseconds(target.signal->every_s));
  }

  bool sleep_until(std::int64_t when) {
    std::unique_lock lock(mutex_);
    const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(when)};
    woken_.wait_until(lock, context_.stop, until, [] { return false; });
    return !context_.stop.stop_requested();
  }

  void take(Server& server) {
    struct Asked {
      Result<signal::Page> page;
      std::int64_t at, took;
    };
    std::map<std::string, Asked> asked;  // several signals may be on one page
    const std::int64_t now = monotonic_ns();
    for (Target& target : server.targets) {
      if (due(target) > now) continue;
      const std::int64_t tick =
          now >= end_ ? last_tick(target) : (now - begin_) / nanoseconds(target.signal->every_s);
      for (; target.next_tick < tick; ++target.next_tick)
        row(target, Reading::nothing("not asked: the answer before took too long"), now, 0);
      auto found = asked.find(target.path);
      if (found == asked.end()) {
        const std::int64_t begin = monotonic_ns();
        Result<signal::Page> page =
            signal::http_get(server.endpoint, target.path,
                             begin + nanoseconds(target.signal->timeout_s), context_.stop);
        const std::int64_t at = monotonic_ns();
        found = asked.emplace(target.path, Asked{std::move(page), at, at - begin}).first;
      }
      if (context_.stop.stop_requested()) return;
      const Asked& answer = found->second;
      row(target, read(target, answer.page, answer.at), answer.at, answer.took);
      ++target.next_tick;
    }
  }

  void row(const Target& target, const Reading& reading, std::int64_t at, std::int64_t took) {
    Json out = {{"row", "signal"},
                {"signal", target.signal->name},
                {"instance", target.instance},
                {"tick", target.next_tick},
                {"at", at},
                {"took", took}};
    if (reading.value)
      out["value"] = *reading.value;
    else
      out["no_data"] = reading.no_data;
    if (reading.since != 0) out["since"] = reading.since;
    if (reading.resets != 0) out["resets"] = reading.resets;
    context_.rows.row(out);
  }

  ProbeContext& context_;
  const std::int64_t begin_, end_;
  std::mutex mutex_;
  std::condition_variable_any woken_;
};

class Signals final : public Probe {
 public:
  Params params() override {
    return {required(list_of("signals", "what to sample; filled in from the suite's signals",
                             [this](std::size_t index) {
                               if (signals_.size() <= index) signals_.resize(index + 1);
                               return signal_params(signals_[index]);
                             }))};
  }

  Cost cost() override {
    double per_s = 0;
    for (const SignalParams& one : signals_)
      per_s += static_cast<double>(one.sources.size()) / one.every_s;
    return {.requests_per_s = per_s};
  }

  // The first reading: counters are compared with it, and the report says what could be read.
  Status prepare(ProbeContext& context) override {
    if (signals_.empty()) return Error{Code::kInvalid, "no signal to sample"};
    for (const SignalParams& one : signals_)
      for (const Source& source : one.sources) TRY(add(one, source));
    std::vector<std::map<std::string, Json>> seen(servers_.size());
    {
      std::vector<std::jthread> threads;
      std::size_t index = 0;
      for (auto& [host, server] : servers_)
        threads.emplace_back([&context, &server = server, &out = seen[index++]] {
          first_readings(context, server, out);
        });
    }
    Json info = Json::object();
    for (const auto& of_server : seen)
      for (const auto& [key, what] : of_server) info[key] = what;
    context.info = {{"first_readings", info}};
    return ok();
  }

  Status run(ProbeContext& context) override {
    const bool by_hand = context.phases.empty();
    const std::int64_t begin = by_hand ? monotonic_ns() : context.phases.front().begin_ns;
    const std::int64_t end =
        by_hand ? std::numeric_limits<std::int64_t>::max() : context.phases.back().end_ns;
    std::vector<std::jthread> threads;
    for (auto& [host, server] : servers_)
      threads.emplace_back(
          [&context, &server = server, begin, end] { Sampler(context, begin, end).run(server); });
    return ok();
  }

  // What it hands on has been checked as it was read; a series without data is none of its errors.
  Status check(ProbeContext&) override { return ok(); }

 private:
  static Params signal_params(SignalParams& one) {
    return {required(text("name", &one.name, "of the signal")),
            text("series", &one.series, "of a page: the name of the metric"),
            any("labels", &one.labels, "of a page: labels that a series must carry"),
            text("query", &one.query, "PromQL; the sources are then Prometheus servers"),
            choice("combine", &one.combine, "of the series that match", {"sum", "max", "min"}),
            flag("counter", &one.counter, "of a page: sample the increase"),
            number("every_s", &one.every_s, "between samples", {.min = 0.1, .max = 3600}),
            number("timeout_s", &one.timeout_s, "deadline of an answer", {.min = 0.05, .max = 60}),
            required(list_of("sources", "where it is read", [&one](std::size_t index) {
              if (one.sources.size() <= index) one.sources.resize(index + 1);
              Source& source = one.sources[index];
              return Params{required(text("instance", &source.instance, "goes into the rows")),
                            required(text("url", &source.url,
                                          "of the page, or the base URL of a Prometheus"))};
            }))};
  }

  Status add(const SignalParams& one, const Source& source) {
    signal::Url url = TRY(signal::resolve_url(source.url));
    Target target;
    target.signal = &one;
    target.instance = source.instance;
    target.path = url.path;
    if (!one.query.empty()) {
      if (target.path.back() == '/') target.path.pop_back();
      target.path += signal::query_target(one.query);
    }
    for (auto it = one.labels.begin(); it != one.labels.end(); ++it)
      target.labels[it.key()] = text_at(one.labels, it.key());
    Server& server = servers_[url.endpoint.host];
    server.endpoint = std::move(url.endpoint);
    server.targets.push_back(std::move(target));
    return ok();
  }

  static void first_readings(ProbeContext& context, Server& server,
                             std::map<std::string, Json>& out) {
    const std::int64_t deadline = monotonic_ns() + kFirstReading;
    for (Target& target : server.targets) {
      const auto page = signal::http_get(
          server.endpoint, target.path,
          std::min(deadline, monotonic_ns() + nanoseconds(target.signal->timeout_s)), context.stop);
      const Reading reading = read(target, page, monotonic_ns());
      out[target.signal->name + " of " + target.instance] =
          reading.value ? Json(*reading.value) : Json(reading.no_data);
    }
  }

  std::vector<SignalParams> signals_;
  std::map<std::string, Server> servers_;  // by host and port
};

constexpr MetricSpec kMetrics[] = {
    {"signal.value", "1", Better::kNone, "a series read from elsewhere, at each sample"},
    {"signal.increase", "1", Better::kNone, "by how much a counter grew"},
};

}  // namespace

extern const ProbeSpec signals_probe;
const ProbeSpec signals_probe{
    .name = "signals",
    .summary = "Series from elsewhere on the run's timeline: pages of Prometheus text, PromQL",
    .load = true,
    .generator = true,
    .ranks = false,
    .metrics = kMetrics,
    .create = []() -> std::unique_ptr<Probe> { return std::make_unique<Signals>(); },
};

}  // namespace mixproof
