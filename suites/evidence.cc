#include "suites/evidence.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "harness/base/text.h"
#include "suites/signals.h"

namespace mixproof {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kUncertaintyLimitNs = 100'000'000;
constexpr double kSlewLimit = 500e-6;
constexpr const char* kOutcomes[] = {"OK",           "SHORT",         "EMPTY",
                                     "HTTP_ERROR",   "CONNECT_ERROR", "TIMEOUT_FIRST",
                                     "TIMEOUT_IDLE", "TIMEOUT_TOTAL", "STREAM_ERROR",
                                     "TRUNCATED",    "MALFORMED",     "CLIENT_DROPPED"};

double seconds_of(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// Latencies of an OK request; false when its times contradict each other.
bool set_latencies(const Json& row, std::int64_t sched, Request& request) {
  const std::int64_t sent = integer_at(row, "sent"), first = integer_at(row, "first"),
                     last = integer_at(row, "last");
  const std::int64_t max_gap = integer_at(row, "max_gap"), events = integer_at(row, "events");
  if (first < sched || last < first || (sent != 0 && sent < sched) || request.tokens < 1 ||
      max_gap < 0 || max_gap > last - first)
    return false;
  request.ttft = seconds_of(first - sched);
  if (sent != 0) request.service_ttft = seconds_of(std::max<std::int64_t>(0, first - sent));
  request.e2e = seconds_of(last - sched);
  request.longest_wait = *request.ttft;
  if (events >= 2) {
    request.max_gap = seconds_of(max_gap);
    request.longest_wait = std::max(*request.ttft, *request.max_gap);
    if (request.tokens >= 2) request.tpot = seconds_of(last - first) / (request.tokens - 1);
  }
  return true;
}

std::optional<double> maybe_number(const Json& json, std::string_view key) {
  const Json* found = member(json, key);
  if (found == nullptr || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

ArrivalTest::Gaps gaps_of(const Json& json) {
  return {integer_at(json, "n"), maybe_number(json, "ks"), maybe_number(json, "ks_p"),
          maybe_number(json, "dispersion"), maybe_number(json, "dispersion_p")};
}

struct RowReader {
  const Plan& plan;
  Evidence& out;

  std::int64_t mapped(const std::string& node, std::int64_t node_time) const {
    return out.clocks.to_controller(node, node_time)->at;
  }

  void bad(const Json& row, const std::string& why) const {
    LoadEvidence& load = out.loads[text_at(row, "load")];
    ++load.bad_rows;
    if (load.first_bad_row.empty()) load.first_bad_row = text_at(row, "row") + ": " + why;
  }

  bool has_clock(const Json& row) const {
    const std::string node = text_at(row, "node");
    if (out.clocks.to_controller(node, 0)) return true;
    out.loads[text_at(row, "load")].unmapped_node = node;
    return false;
  }

  void request(const Json& row) const {
    const std::int64_t sched = integer_at(row, "sched");
    Request request;
    request.index = integer_at(row, "i", -1);
    request.stretch = integer_at(row, "stretch");
    request.node = text_at(row, "node");
    request.outcome = text_at(row, "outcome");
    if (sched <= 0 || request.index < 0) return bad(row, "no sched or i");
    if (!is_outcome(request.outcome)) return bad(row, "outcome \"" + request.outcome + "\"");
    if (!has_clock(row)) return;
    const ClockMap::Mapped at = *out.clocks.to_controller(request.node, sched);
    request.sched = at.at;
    request.uncertainty_ns = at.uncertainty_ns;
    request.is_ok = request.outcome == "OK" ||
                    (request.outcome == "SHORT" && short_is_ok(text_at(row, "load")));
    request.tokens = number_at(row, "tokens");
    const std::int64_t send = integer_at(row, "send"), lag = integer_at(row, "lag", -1);
    request.sent = send > 0;
    if (request.sent && send < sched) return bad(row, "sent before its time");
    if (request.sent) request.client_delay = seconds_of(send - sched);
    if (integer_at(row, "end") > 0) request.end = mapped(request.node, integer_at(row, "end"));
    if (integer_at(row, "first") > 0) {
      request.first = mapped(request.node, integer_at(row, "first"));
      request.last =
          mapped(request.node, std::max(integer_at(row, "first"), integer_at(row, "last")));
      if (lag >= 0) request.lag = seconds_of(lag);
    }
    if (!request.is_ok) {
      request.ttft = request.service_ttft = request.tpot = request.max_gap = request.e2e =
          kInfinity;
      request.longest_wait = kInfinity;
    } else if (!request.sent || !set_latencies(row, sched, request)) {
      return bad(row, "OK, but its times or tokens contradict each other");
    }
    out.loads[text_at(row, "load")].requests.push_back(std::move(request));
  }

  bool short_is_ok(const std::string& name) const {
    const LoadPlan* load = plan.load(name);
    return load != nullptr && load->params.is_object() && flag_at(load->params, "short_is_ok");
  }

  void client(const Json& row) const {
    if (!has_clock(row)) return;
    const std::string node = text_at(row, "node");
    out.loads[text_at(row, "load")].client.push_back(
        {node, integer_at(row, "worker"), mapped(node, integer_at(row, "at")),
         number_at(row, "cpu"), number_at(row, "steal")});
  }

  void arrivals(const Json& row) const {
    const Json *scheduled = member(row, "scheduled"), *realised = member(row, "realised");
    ArrivalTest test{.node = text_at(row, "node"),
                     .phase = text_at(row, "phase"),
                     .process = text_at(row, "process"),
                     .worker = integer_at(row, "worker"),
                     .n = integer_at(row, "n", -1),
                     .deterministic = flag_at(row, "deterministic"),
                     .moved = number_at(row, "moved"),
                     .gap_distance = number_at(row, "gap_distance")};
    if (test.phase.empty() || test.n < 0 ||
        (!test.deterministic && (scheduled == nullptr || realised == nullptr)))
      return bad(row, "no phase, n or tests");
    if (scheduled != nullptr) test.scheduled = gaps_of(*scheduled);
    if (realised != nullptr) test.realised = gaps_of(*realised);
    out.loads[text_at(row, "load")].arrival_tests.push_back(std::move(test));
  }

  void step(const Json& row) const {
    TrainingStep step{.rank = integer_at(row, "rank", -1), .step = integer_at(row, "step", -1)};
    const std::int64_t begin = integer_at(row, "begin"), end = integer_at(row, "end");
    if (step.rank < 0 || step.step < 0 || begin <= 0 || end <= begin)
      return bad(row, "no rank, step or times");
    if (!has_clock(row)) return;
    const std::string node = text_at(row, "node");
    step.begin = mapped(node, begin);
    step.end = step.begin + (end - begin);
    step.step_s = seconds_of(end - begin);
    step.compute_s = seconds_of(integer_at(row, "compute"));
    step.comm_s = seconds_of(integer_at(row, "comm"));
    step.stretch = integer_at(row, "stretch");
    step.attempt = integer_at(row, "attempt");
    out.loads[text_at(row, "load")].steps.push_back(step);
  }

  void checkpoint(const Json& row) const {
    CheckpointPart part{.rank = integer_at(row, "rank", -1),
                        .step = integer_at(row, "step", -1),
                        .stretch = integer_at(row, "stretch"),
                        .attempt = integer_at(row, "attempt")};
    const std::int64_t begin = integer_at(row, "begin"), end = integer_at(row, "end");
    const std::int64_t done = integer_at(row, "done", end);
    if (part.rank < 0 || part.step < 0 || begin <= 0 || end <= begin || done < end)
      return bad(row, "no rank, step or times");
    if (!has_clock(row)) return;
    part.begin = mapped(text_at(row, "node"), begin);
    part.save_s = seconds_of(end - begin);
    part.stall_s = seconds_of(done - begin);
    part.bytes = number_at(row, "bytes");
    part.good = flag_at(row, "ok");
    part.detail = text_at(row, "detail");
    out.loads[text_at(row, "load")].checkpoints.push_back(std::move(part));
  }

  void resume(const Json& row) const {
    const Resumption one{integer_at(row, "rank", -1), integer_at(row, "stretch"),
                         integer_at(row, "attempt"), integer_at(row, "from_step", -1)};
    if (one.rank < 0 || one.from_step < 0 || one.attempt < 1)
      return bad(row, "no rank, attempt or step");
    out.loads[text_at(row, "load")].resumptions.push_back(one);
  }

  void attempt(const Json& row) const {
    out.loads[text_at(row, "what")].attempts.push_back(
        {integer_at(row, "stretch"), integer_at(row, "attempt"), integer_at(row, "at"),
         text_at(row, "noticed"), text_at(row, "why")});
  }

  void phase(const Json& row) const {
    PhaseWindow& window = out.phases[text_at(row, "name")];
    window.begin = integer_at(row, "begin");
    window.settled = integer_at(row, "settled");
    window.end = integer_at(row, "end");
    window.begun = true;
    out.last_at = std::max(out.last_at, window.begin);
  }

  void ready(const std::string& what, const Json& row) const {
    out.ready.push_back(what);
    const Json* info = member(row, "info");
    const Json* arrivals = info == nullptr ? nullptr : member(*info, "arrivals");
    const Json* by_phase = arrivals == nullptr ? nullptr : member(*arrivals, "by_phase");
    if (by_phase == nullptr || !by_phase->is_object()) return;
    for (auto it = by_phase->begin(); it != by_phase->end(); ++it)
      out.loads[what].scheduled[integer_at(row, "stretch")][it.key()] +=
          integer_at(*by_phase, it.key());
  }

  void other(const std::string& kind, const Json& row) const {
    const std::string what = text_at(row, "what"), node = text_at(row, "node");
    const std::int64_t at = integer_at(row, "at");
    out.last_at = std::max(out.last_at, at);
    if (kind == "begin") out.has_begin = true;
    if (kind == "end") out.has_end = true;
    if (kind == "ready") ready(what, row);
    if (kind == "note") out.notes.push_back(text_at(row, "message"));
    if (kind == "phase_end") out.phases[text_at(row, "name")].complete = flag_at(row, "complete");
    if (kind == "exit" && !flag_at(row, "expected"))
      out.exits.push_back({what, node, text_at(row, "status"), at, integer_at(row, "attempt")});
    if (kind == "attempt") attempt(row);
    if (kind == "lost") {
      out.lost.emplace_back(node, at);
      out.lost_why.push_back(text_at(row, "why"));
    }
    if (kind == "error") {
      const Error error = error_from_json(row);
      out.errors.push_back({what, node, error.message, error.code, at});
    }
    if (kind == "abort") {
      const Json* value = member(row, "value");
      const bool measured = value != nullptr && value->is_number();
      out.aborts.push_back({text_at(row, "abort"), text_at(row, "detail"), at,
                            measured ? std::optional(value->get<double>()) : std::nullopt});
    }
    if (kind == "stop") {
      out.stop_why = text_at(row, "why");
      out.stop_at = at;
    }
    if (kind == "fault") {
      const Json* evidence = member(row, "evidence");
      out.faults[text_at(row, "fault")].push_back(
          {text_at(row, "node"), text_at(row, "state"), text_at(row, "detail"), at,
           integer_at(row, "uncertainty_ns"), evidence == nullptr ? Json::object() : *evidence});
    }
  }
};

void sort_load(LoadEvidence& load) {
  std::sort(load.requests.begin(), load.requests.end(), [](const Request& a, const Request& b) {
    return std::tie(a.sched, a.node, a.stretch, a.index) <
           std::tie(b.sched, b.node, b.stretch, b.index);
  });
  std::sort(load.client.begin(), load.client.end(),
            [](const ClientSample& a, const ClientSample& b) {
              return std::tie(a.at, a.node, a.worker) < std::tie(b.at, b.node, b.worker);
            });
  std::sort(load.steps.begin(), load.steps.end(), [](const TrainingStep& a, const TrainingStep& b) {
    return std::tie(a.step, a.rank, a.begin) < std::tie(b.step, b.rank, b.begin);
  });
  std::sort(load.arrival_tests.begin(), load.arrival_tests.end(),
            [](const ArrivalTest& a, const ArrivalTest& b) {
              return std::tie(a.phase, a.node, a.worker) < std::tie(b.phase, b.node, b.worker);
            });
  std::sort(load.checkpoints.begin(), load.checkpoints.end(),
            [](const CheckpointPart& a, const CheckpointPart& b) {
              return std::tie(a.begin, a.rank, a.step) < std::tie(b.begin, b.rank, b.step);
            });
}

}  // namespace

void ClockMap::add(const std::string& node, std::int64_t at, std::int64_t offset_ns,
                   std::int64_t uncertainty_ns) {
  points_[node].push_back({at - offset_ns, at, offset_ns, uncertainty_ns});
}

void ClockMap::finish() {
  for (auto& [node, points] : points_)
    std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
      return std::tie(a.node_time, a.at) < std::tie(b.node_time, b.at);
    });
}

std::optional<ClockMap::Mapped> ClockMap::to_controller(const std::string& node,
                                                        std::int64_t node_time) const {
  if (node.empty()) return Mapped{node_time, 0};
  const auto found = points_.find(node);
  if (found == points_.end()) return std::nullopt;
  const std::vector<Point>& points = found->second;
  auto after = std::upper_bound(
      points.begin(), points.end(), node_time,
      [](std::int64_t time, const Point& point) { return time < point.node_time; });
  const Point& point = after == points.begin() ? points.front() : *(after - 1);
  return Mapped{node_time + point.offset_ns, point.uncertainty_ns};
}

std::string ClockMap::trouble(const std::string& node) const {
  const auto found = points_.find(node);
  if (found == points_.end()) return "";
  const Point* before = nullptr;
  for (const Point& point : found->second) {
    if (point.uncertainty_ns > kUncertaintyLimitNs)
      return format("the clock of %s is known to %.0f ms only", node.c_str(),
                    seconds_of(point.uncertainty_ns) * 1e3);
    if (before != nullptr) {
      const double moved = seconds_of(std::llabs(point.offset_ns - before->offset_ns));
      const double allowed = seconds_of(point.uncertainty_ns + before->uncertainty_ns) +
                             kSlewLimit * seconds_of(std::llabs(point.at - before->at));
      if (moved > allowed)
        return format("the clock of %s stepped by %.1f ms (%.1f ms explained)", node.c_str(),
                      moved * 1e3, allowed * 1e3);
    }
    before = &point;
  }
  return "";
}

std::span<const char* const> outcomes() { return kOutcomes; }

bool is_outcome(const std::string& name) {
  return std::find(std::begin(kOutcomes), std::end(kOutcomes), name) != std::end(kOutcomes);
}

Evidence read_evidence(const Plan& plan, std::span<const Json> rows) {
  Evidence out;
  for (const Json& row : rows) {
    const std::string kind = text_at(row, "row");
    if (kind == "clock")
      out.clocks.add(text_at(row, "node"), integer_at(row, "at"), integer_at(row, "offset_ns"),
                     integer_at(row, "uncertainty_ns"));
    if (kind == "begin") out.origin = integer_at(row, "at");
  }
  out.clocks.finish();
  const RowReader reader{plan, out};
  SignalParts signals;
  for (const Json& row : rows) {
    const std::string kind = text_at(row, "row");
    if (kind == "request")
      reader.request(row);
    else if (kind == "client")
      reader.client(row);
    else if (kind == "arrivals")
      reader.arrivals(row);
    else if (kind == "step")
      reader.step(row);
    else if (kind == "checkpoint")
      reader.checkpoint(row);
    else if (kind == "resume")
      reader.resume(row);
    else if (kind == "phase")
      reader.phase(row);
    else if (kind == "signal")
      add_signal_row(row, out.clocks, signals);
    else if (kind != "clock" && kind != "progress" && kind != "reachability" && kind != "sample")
      reader.other(kind, row);
  }
  out.signals = signal_samples(plan, signals);
  for (auto& [name, load] : out.loads) sort_load(load);
  if (!plan.phases.empty())
    if (const auto first = out.phases.find(plan.phases.front().name);
        first != out.phases.end() && first->second.begun)
      out.origin = first->second.begin;
  return out;
}

}  // namespace mixproof
