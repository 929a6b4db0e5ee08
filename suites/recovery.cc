#include "suites/recovery.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "suites/request_metrics.h"

namespace mixproof {
namespace {

constexpr std::int64_t kWindowNs = 2'000'000'000;
constexpr std::size_t kWindowRequests = 10;

using Requests = std::vector<const Request*>;

double seconds_of(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

const Slo* slo_of(const Plan& plan, const std::string& load) {
  const LoadPlan* found = plan.load(load);
  return found != nullptr && found->slo ? &*found->slo : nullptr;
}

Requests scheduled_between(const Evidence& evidence, const std::string& load, std::int64_t from,
                           std::int64_t until) {
  Requests out;
  if (const auto found = evidence.loads.find(load); found != evidence.loads.end())
    for (const Request& request : found->second.requests)
      if (request.sched >= from && request.sched < until) out.push_back(&request);
  return out;
}

// Violations among those from `first` on within 2 s, or within 10 requests if that is longer.
int violations_from(const Requests& requests, std::size_t first, const Slo& slo) {
  int violations = 0;
  for (std::size_t i = first; i < requests.size(); ++i) {
    if (requests[i]->sched - requests[first]->sched >= kWindowNs && i - first >= kWindowRequests)
      break;
    violations += is_good(*requests[i], slo) ? 0 : 1;
  }
  return violations;
}

int worst_window(const Requests& requests, const Slo& slo) {
  int worst = 0;
  for (std::size_t i = 0; i < requests.size(); ++i)
    if (!is_good(*requests[i], slo)) worst = std::max(worst, violations_from(requests, i, slo));
  return worst;
}

// Whether b is the very next scheduled request after a. A hole in the numbers may hide a violation.
bool follows(const Request& a, const Request& b) {
  return a.node != b.node || a.stretch != b.stretch || b.index == a.index + 1;
}

// The revert is only known to lie between two times: the longest that anyone may have waited for
// the next request of the good run after it.
std::int64_t longest_wait_after(const Requests& requests, std::size_t start, std::int64_t low,
                                std::int64_t high) {
  std::int64_t wait = std::max<std::int64_t>(0, requests[start]->sched - low);
  for (std::size_t i = start; i + 1 < requests.size() && requests[i]->sched < high; ++i)
    wait = std::max(wait, requests[i + 1]->sched - requests[i]->sched);
  return wait;
}

}  // namespace

std::int64_t recovery_horizon(const JudgeInput& input, const std::string& load,
                              const FaultFacts& fault) {
  std::int64_t horizon = stretch_of(input, load, fault.phase->name).end;
  for (const FaultFacts& other : all_faults_of(input)) {
    if (other.plan->id == fault.plan->id || !other.touched) continue;
    const std::int64_t on = other.injected ? other.on : other.due_on;
    if (on > fault.on) horizon = std::min(horizon, on);
  }
  return horizon;
}

Figure time_to_impact(const JudgeInput& input, const std::string& load, const FaultFacts& fault) {
  const Slo* slo = slo_of(input.plan, load);
  const PhasePlan* baseline = baseline_of(input.plan, load);
  if (slo == nullptr) return Figure::lacks("no_slo");
  if (!fault.injected) return Figure::lacks("not_injected");
  if (baseline == nullptr) return Figure::lacks("no_reference");
  const int usual = worst_window(measured_requests(input.evidence, load, baseline->name), *slo);
  const PhaseWindow& window = input.evidence.phases.at(fault.phase->name);
  const Requests requests = scheduled_between(input.evidence, load, window.begin, window.end);
  std::int64_t last_good = fault.on;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Request& request = *requests[i];
    if (is_good(request, *slo)) {
      last_good = request.sched;
      continue;
    }
    const int violations = violations_from(requests, i, *slo);
    if (request.sched <= fault.began || violations <= usual) continue;
    const std::int64_t widen = fault.on_uncertainty_ns + request.uncertainty_ns;
    const std::int64_t low = std::max<std::int64_t>(0, last_good - fault.on - widen);
    const std::int64_t high = request.sched - fault.began + request.uncertainty_ns;
    Figure figure = Figure::of(seconds_of(high), std::ssize(requests));
    figure.interval = Interval{seconds_of(low), seconds_of(high)};
    figure.evidence = {{"violations_in_window", violations}, {"most_in_baseline", usual}};
    return figure;
  }
  Figure none = Figure::lacks("no_impact", std::ssize(requests));
  none.evidence = {{"most_in_baseline", usual}};
  return none;
}

Figure time_to_recover(const JudgeInput& input, const std::string& load, const FaultFacts& fault,
                       int clean_requests) {
  const Slo* slo = slo_of(input.plan, load);
  if (slo == nullptr) return Figure::lacks("no_slo");
  if (!fault.injected) return Figure::lacks("not_injected");
  if (!fault.clean || !fault.off_low) return Figure::lacks("not_clean");
  const std::int64_t off_low = *fault.off_low, off_high = *fault.off_high;
  const Requests requests =
      scheduled_between(input.evidence, load, off_low, recovery_horizon(input, load, fault));
  const auto wanted = static_cast<std::size_t>(clean_requests);
  std::size_t start = 0, run = 0;
  const Request* last_bad = nullptr;
  for (std::size_t i = 0; i < requests.size() && run < wanted; ++i) {
    const bool good = is_good(*requests[i], *slo);
    const bool hole = i > 0 && !follows(*requests[i - 1], *requests[i]);
    if (!good) last_bad = requests[i];
    if (hole && good) last_bad = requests[i - 1];
    if (!good) {
      run = 0;
    } else {
      if (run == 0 || hole) {
        start = i;
        run = 0;
      }
      ++run;
    }
  }
  const auto n = std::ssize(requests);
  if (n == 0) return Figure::lacks("no_samples");
  const std::int64_t bad_uncertainty = last_bad == nullptr ? 0 : last_bad->uncertainty_ns;
  const double low =
      last_bad == nullptr
          ? 0
          : seconds_of(std::max<std::int64_t>(0, last_bad->sched - off_high - bad_uncertainty));
  Figure figure;
  figure.n = n;
  figure.evidence = {{"clean_requests", clean_requests},
                     {"clean_seen", run},
                     {"evidence_s", seconds_of(requests.back()->sched - off_low)}};
  if (run < wanted) {
    figure.interval = Interval{low, low};
    figure.censored = true;
    figure.infinite = false;
    figure.value = low;
    return figure;
  }
  const double high = seconds_of(longest_wait_after(requests, start, off_low, off_high) +
                                 requests[start]->uncertainty_ns);
  figure.value = high;
  figure.interval = Interval{std::min(low, high), high};
  return figure;
}

}  // namespace mixproof
