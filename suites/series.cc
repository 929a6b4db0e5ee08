#include "suites/series.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "suites/request_metrics.h"
#include "suites/training_metrics.h"

namespace mixproof {
namespace {

constexpr double kBlockFloorS = 1;

double seconds_between(std::int64_t from, std::int64_t until) {
  return static_cast<double>(until - from) * 1e-9;
}

template <typename ValueOf>
Segment by_schedule(const JudgeInput& input, const std::string& load, const std::string& phase,
                    ValueOf value_of) {
  Segment out;
  const auto window = input.evidence.phases.find(phase);
  if (window == input.evidence.phases.end()) return out;
  out.length_s = window->second.measure_s();
  for (const Request* request : measured_requests(input.evidence, load, phase))
    if (const std::optional<double> value = value_of(*request))
      out.samples.push_back({seconds_between(window->second.settled, request->sched), *value});
  return out;
}

// How long the answers, or steps, of the baseline took, ascending.
std::vector<double> baseline_times(const JudgeInput& input, const std::string& load) {
  const PhasePlan* baseline = baseline_of(input.plan, load);
  if (baseline == nullptr) return {};
  if (input.plan.load(load)->probe == "training")
    return measured_steps(input, load, baseline->name).step_s;
  return request_samples(measured_requests(input.evidence, load, baseline->name), "inference.e2e");
}

}  // namespace

double block_length_s(const JudgeInput& input, const std::string& load) {
  std::vector<double> times = baseline_times(input, load);
  while (!times.empty() && std::isinf(times.back())) times.pop_back();
  const std::optional<double> p99 = nearest_rank(times, 0.99);
  return p99 ? std::max(kBlockFloorS, 2 * *p99) : kBlockFloorS;
}

std::optional<double> known_block_length_s(const JudgeInput& input, const std::string& load) {
  const std::optional<double> p99 = nearest_rank(baseline_times(input, load), 0.99);
  if (!p99 || std::isinf(*p99)) return std::nullopt;
  return std::max(kBlockFloorS, 2 * *p99);
}

Segment request_series(const JudgeInput& input, const std::string& load, const std::string& phase,
                       std::string_view metric) {
  return by_schedule(input, load, phase,
                     [&](const Request& request) { return request_sample(request, metric); });
}

Segment good_series(const JudgeInput& input, const std::string& load, const std::string& phase) {
  const Slo& slo = *input.plan.load(load)->slo;
  return by_schedule(input, load, phase, [&](const Request& request) -> std::optional<double> {
    return is_good(request, slo) ? 1.0 : 0.0;
  });
}

Segment step_time_series(const JudgeInput& input, const std::string& load,
                         const std::string& phase) {
  StepWindow steps = measured_steps(input, load, phase);
  return {steps.window_s, std::move(steps.by_time)};
}

Segment step_series(const JudgeInput& input, const std::string& load, const std::string& phase) {
  const StepWindow steps = measured_steps(input, load, phase);
  Segment out{steps.window_s, {}};
  const auto evidence = input.evidence.loads.find(load);
  const auto window = input.evidence.phases.find(phase);
  if (evidence == input.evidence.loads.end() || window == input.evidence.phases.end()) return out;
  for (const TrainingStep& step : evidence->second.steps)
    if (step.rank == steps.slowest_rank && step.end > window->second.settled &&
        step.begin < window->second.end)
      out.samples.push_back({seconds_between(window->second.settled, step.begin), step.step_s});
  std::stable_sort(out.samples.begin(), out.samples.end(),
                   [](const TimedSample& a, const TimedSample& b) { return a.at_s < b.at_s; });
  return out;
}

}  // namespace mixproof
