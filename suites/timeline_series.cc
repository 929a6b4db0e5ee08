#include "suites/timeline_series.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "suites/evidence.h"
#include "suites/request_metrics.h"

namespace mixproof {
namespace {

constexpr std::size_t kMostPoints = 3000, kMostCheckpoints = 400, kMostSamples = 1000;
constexpr double kMostBins = 600;

RequestSeries requests_of(const Evidence& evidence, const LoadPlan& load,
                          const std::vector<Request>& requests) {
  RequestSeries out{.load = load.name,
                    .has_slo = load.slo.has_value(),
                    .ttft_bound_s = std::nullopt,
                    .points = {}};
  if (load.slo && std::isfinite(load.slo->ttft_s)) out.ttft_bound_s = load.slo->ttft_s;
  for (const Request& request : requests) {
    const bool good = load.slo ? is_good(request, *load.slo) : request.is_ok;
    const double ttft_s = request.ttft.value_or(std::numeric_limits<double>::infinity());
    out.points.push_back({evidence.seconds(request.sched), ttft_s, good});
    out.bad += good ? 0 : 1;
    out.unanswered += std::isfinite(ttft_s) ? 0 : 1;
  }
  out.requests = std::ssize(out.points);
  out.points = thinned(out.points, kMostPoints);
  return out;
}

struct Span {
  double begin_s = 0, end_s = 0;
};

// Where the load was to run, without a hole in each.
std::vector<Span> spans_of(const Plan& plan, const Evidence& evidence, const std::string& load) {
  std::vector<Span> out;
  bool ran_before = false;
  for (const PhasePlan& phase : plan.phases) {
    const auto window = evidence.phases.find(phase.name);
    const bool runs = window != evidence.phases.end() && window->second.begun &&
                      std::find(phase.run.begin(), phase.run.end(), load) != phase.run.end();
    if (runs && ran_before) out.back().end_s = evidence.seconds(window->second.end);
    if (runs && !ran_before)
      out.push_back({evidence.seconds(window->second.begin), evidence.seconds(window->second.end)});
    ran_before = runs;
  }
  // A run that was cut did nothing after its end: that is no pause of the training.
  if (evidence.stop_at != 0)
    for (Span& span : out) span.end_s = std::min(span.end_s, evidence.seconds(evidence.stop_at));
  std::erase_if(out, [](const Span& span) { return span.end_s <= span.begin_s; });
  return out;
}

void add_bins(RateSeries& out, const Evidence& evidence, const LoadPlan& load,
              const std::vector<TrainingStep>& steps, const Span& span, double width_s) {
  const auto bins =
      static_cast<std::size_t>(std::max(1.0, std::floor((span.end_s - span.begin_s) / width_s)));
  width_s = (span.end_s - span.begin_s) / static_cast<double>(bins);
  std::map<std::int64_t, std::vector<double>>
      done;  // by rank: steps in each bin, with their shares
  for (std::size_t rank = 0; rank < load.nodes.size(); ++rank)
    done[static_cast<std::int64_t>(rank)].assign(bins, 0);
  for (const TrainingStep& step : steps) {
    const double begin = (evidence.seconds(step.begin) - span.begin_s) / width_s;
    const double end = (evidence.seconds(step.end) - span.begin_s) / width_s;
    if (end <= 0 || begin >= static_cast<double>(bins)) continue;
    std::vector<double>& of_rank = done[step.rank];
    of_rank.resize(bins, 0);
    const auto last = std::min(bins - 1, static_cast<std::size_t>(end));
    for (auto bin = static_cast<std::size_t>(std::max(0.0, begin)); bin <= last; ++bin) {
      const auto from = static_cast<double>(bin);
      of_rank[bin] +=
          std::max(0.0, std::min(end, from + 1) - std::max(begin, from)) / (end - begin);
    }
  }
  for (std::size_t bin = 0; bin < bins; ++bin) {
    double slowest = std::numeric_limits<double>::infinity();
    for (const auto& [rank, of_rank] : done) slowest = std::min(slowest, of_rank[bin]);
    const double begin_s = span.begin_s + static_cast<double>(bin) * width_s;
    out.bins.push_back(
        {begin_s, begin_s + width_s, std::isfinite(slowest) ? slowest / width_s : 0});
  }
}

RateSeries rate_of(const Plan& plan, const Evidence& evidence, const LoadPlan& load,
                   const std::vector<TrainingStep>& steps) {
  RateSeries out{.load = load.name, .bins = {}};
  const std::vector<Span> spans = spans_of(plan, evidence, load.name);
  double total_s = 0;
  for (const Span& span : spans) total_s += span.end_s - span.begin_s;
  for (const Span& span : spans)
    add_bins(out, evidence, load, steps, span, std::max(1.0, total_s / kMostBins));
  return out;
}

std::vector<CheckpointMark> checkpoints_of(const Evidence& evidence, std::span<const Json> rows) {
  std::map<std::pair<std::string, std::int64_t>, CheckpointMark> marks;
  for (const Json& row : rows) {
    if (text_at(row, "row") != "checkpoint") continue;
    const std::int64_t ended = integer_at(row, "end", integer_at(row, "at"));
    const auto at = evidence.clocks.to_controller(text_at(row, "node"), ended);
    if (!at || ended <= 0) continue;
    CheckpointMark& mark = marks[{text_at(row, "load"), integer_at(row, "step")}];
    mark.load = text_at(row, "load");
    mark.step = integer_at(row, "step");
    mark.at_s = std::max(mark.at_s, evidence.seconds(at->at));
    mark.complete = mark.complete && flag_at(row, "ok", true);
  }
  std::vector<CheckpointMark> out;
  const std::size_t every = 1 + marks.size() / kMostCheckpoints;
  std::size_t n = 0;
  for (const auto& [key, mark] : marks)
    if (n++ % every == 0 || !mark.complete) out.push_back(mark);
  return out;
}

// Of samples too close to be told apart, the largest stands for all.
SignalSeries signal_of(const Evidence& evidence, const std::string& name,
                       const std::vector<SignalSample>& samples) {
  SignalSeries out{.signal = name, .points = {}};
  const std::size_t every = 1 + samples.size() / kMostSamples;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (i % every == 0) out.points.push_back({evidence.seconds(samples[i].at), std::nullopt});
    std::optional<double>& value = out.points.back().value;
    if (samples[i].value) value = std::max(value.value_or(*samples[i].value), *samples[i].value);
  }
  return out;
}

}  // namespace

TimelineSeries timeline_series(const Plan& plan, std::span<const Json> rows) {
  const Evidence evidence = read_evidence(plan, rows);
  TimelineSeries out;
  for (const LoadPlan& load : plan.loads) {
    const auto found = evidence.loads.find(load.name);
    const LoadEvidence none;
    const LoadEvidence& seen = found == evidence.loads.end() ? none : found->second;
    if (load.probe == "inference")
      out.requests.push_back(requests_of(evidence, load, seen.requests));
    if (load.probe == "training") out.training.push_back(rate_of(plan, evidence, load, seen.steps));
  }
  out.checkpoints = checkpoints_of(evidence, rows);
  for (const auto& [name, samples] : evidence.signals)
    out.signals.push_back(signal_of(evidence, name, samples));
  return out;
}

}  // namespace mixproof
