#include "suites/request_metrics.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace mixproof {
namespace {

constexpr double kStallFloorS = 0.25;

using Requests = std::vector<const Request*>;

double tokens_within(const Request& request, const PhaseWindow& window) {
  if (request.first == 0 || request.tokens <= 0) return 0;
  if (request.tokens < 2 || request.last <= request.first)
    return window.measures(request.first) ? request.tokens : 0;
  // The first token at `first`, the last at `last`, the others evenly between.
  const double step = static_cast<double>(request.last - request.first) / (request.tokens - 1);
  const double from = std::ceil(static_cast<double>(window.settled - request.first) / step);
  const double until =
      std::ceil(static_cast<double>(window.end - request.first) / step);  // excluded
  return std::max(0.0, std::min(until, request.tokens) - std::max(from, 0.0));
}

Figure lost_time(const Requests& requests, const Slo& slo) {
  if (!std::isfinite(slo.ttft_s)) return Figure::lacks("no_bound", std::ssize(requests));
  double lost = 0;
  for (const Request* request : requests) {
    const double wait = std::min(request->ttft.value_or(0), slo.deadline_s);
    if (!std::isfinite(wait)) return Figure::lacks("no_deadline", std::ssize(requests));
    lost += std::max(0.0, wait - slo.ttft_s);
  }
  return Figure::of(lost, std::ssize(requests));
}

Figure stall_time(const JudgeInput& input, const Question& question, const Requests& requests) {
  const auto threshold = stall_threshold_s(input, question.load);
  if (!threshold) return Figure::lacks("no_reference", std::ssize(requests));
  double stalled = 0;
  for (const Request* request : requests)
    if (request->is_ok && request->max_gap)
      stalled += std::max(0.0, *request->max_gap - *threshold);
  Figure figure = Figure::of(stalled, std::ssize(requests));
  figure.evidence = {{"threshold_s", *threshold}};
  return figure;
}

double token_rate(const Evidence& evidence, const Question& question) {
  const PhaseWindow& window = evidence.phases.at(question.phase);
  double tokens = 0;
  const auto load = evidence.loads.find(question.load);
  if (load != evidence.loads.end())
    for (const Request& request : load->second.requests) tokens += tokens_within(request, window);
  return tokens / window.measure_s();
}

}  // namespace

std::vector<const Request*> measured_requests(const Evidence& evidence, const std::string& load,
                                              const std::string& phase) {
  Requests out;
  const auto found = evidence.loads.find(load);
  const auto window = evidence.phases.find(phase);
  if (found == evidence.loads.end() || window == evidence.phases.end()) return out;
  for (const Request& request : found->second.requests)
    if (window->second.measures(request.sched)) out.push_back(&request);
  return out;
}

bool is_good(const Request& request, const Slo& slo) {
  if (!request.is_ok || !request.ttft) return false;
  return *request.ttft <= slo.ttft_s && (!request.tpot || *request.tpot <= slo.tpot_s) &&
         (!request.max_gap || *request.max_gap <= slo.max_gap_s);
}

std::optional<double> request_sample(const Request& request, std::string_view metric) {
  if (metric == "inference.ttft") return request.ttft;
  if (metric == "inference.service_ttft") return request.service_ttft;
  if (metric == "inference.tpot") return request.tpot;
  if (metric == "inference.max_gap") return request.max_gap;
  if (metric == "inference.longest_wait") return request.longest_wait;
  if (metric == "inference.e2e") return request.e2e;
  if (metric == "inference.client_delay") return request.client_delay;
  if (metric == "inference.receive_lag") return request.lag;
  return std::nullopt;
}

std::vector<double> request_samples(const std::vector<const Request*>& requests,
                                    std::string_view metric) {
  std::vector<double> out;
  for (const Request* request : requests)
    if (const auto value = request_sample(*request, metric)) out.push_back(*value);
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<double> stall_threshold_s(const JudgeInput& input, const std::string& load) {
  const PhasePlan* baseline = baseline_of(input.plan, load);
  if (baseline == nullptr) return std::nullopt;
  const auto tpot =
      request_samples(measured_requests(input.evidence, load, baseline->name), "inference.tpot");
  const auto median = nearest_rank(tpot, 0.5);
  if (!median || !std::isfinite(*median)) return std::nullopt;
  return std::max(kStallFloorS, 8 * *median);
}

Json outcome_counts(const std::vector<const Request*>& requests) {
  Json out = Json::object();
  for (const char* outcome : outcomes()) {
    const auto count = std::count_if(requests.begin(), requests.end(), [&](const Request* request) {
      return request->outcome == outcome;
    });
    if (count > 0) out[outcome] = count;
  }
  return out;
}

Figure request_number(const JudgeInput& input, const Question& question) {
  const Requests requests = measured_requests(input.evidence, question.load, question.phase);
  const auto n = std::ssize(requests);
  if (n == 0) return Figure::lacks("no_samples");
  const double window_s = input.evidence.phases.at(question.phase).measure_s();
  const std::string_view id = question.metric->id;
  if (id == "inference.offered_rate") return Figure::of(static_cast<double>(n) / window_s, n);
  if (id == "inference.token_rate") return Figure::of(token_rate(input.evidence, question), n);
  if (id == "inference.stall_time") return stall_time(input, question, requests);
  const std::optional<Slo>& slo = input.plan.load(question.load)->slo;
  if (!slo) return Figure::lacks("no_slo", n);
  if (id == "inference.lost_time") return lost_time(requests, *slo);
  const auto good = static_cast<double>(std::count_if(
      requests.begin(), requests.end(), [&](const Request* r) { return is_good(*r, *slo); }));
  if (id == "inference.violations") return Figure::of(static_cast<double>(n) - good, n);
  return Figure::of(good / window_s, n);  // goodput
}

}  // namespace mixproof
