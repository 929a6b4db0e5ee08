#include "suites/recovery.h"

#include <algorithm>
#include <cmath>
#include <limits>
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

// Why no time can count from the revert of the fault; empty when one can.
std::string no_revert(const FaultFacts& fault) {
  if (!fault.injected) return "not_injected";
  return fault.clean && fault.off_low ? "" : "not_clean";
}

Figure censored_at(double seconds, std::int64_t n) {
  Figure figure = Figure::of(seconds, n);
  figure.interval = Interval{seconds, seconds};
  figure.censored = true;
  return figure;
}

// The begins of runs of `length` consecutive requests, without a hole, whose median and whose first
// are within the bound. Without the latter a run would begin half its length too soon.
std::vector<bool> normal_runs(const Requests& requests, std::size_t length, double bound_s) {
  std::vector<bool> out(requests.size(), false);
  const std::size_t wanted = (length + 1) / 2;  // so many within: then the median is
  std::size_t within = 0, unbroken = 0;         // of the last `length`; since the last hole
  const auto is_within = [&](std::size_t i) {
    return requests[i]->ttft.value_or(HUGE_VAL) <= bound_s;
  };
  for (std::size_t i = 0; i < requests.size(); ++i) {
    unbroken = i > 0 && follows(*requests[i - 1], *requests[i]) ? unbroken + 1 : 1;
    within += is_within(i) ? 1 : 0;
    if (i >= length) within -= is_within(i - length) ? 1 : 0;
    if (unbroken >= length) out[i + 1 - length] = within >= wanted && is_within(i + 1 - length);
  }
  return out;
}

// How many requests of a load were open at a time.
struct OpenRequests {
  std::vector<std::int64_t> begins, ends;  // ascending

  OpenRequests(const Evidence& evidence, const std::string& load) {
    const auto found = evidence.loads.find(load);
    if (found == evidence.loads.end()) return;
    for (const Request& request : found->second.requests) {
      if (request.outcome == "CLIENT_DROPPED") continue;  // never was
      begins.push_back(request.sched);
      const std::int64_t end = std::max(request.end, request.last);
      ends.push_back(end > request.sched ? end : std::numeric_limits<std::int64_t>::max());
    }
    std::sort(begins.begin(), begins.end());
    std::sort(ends.begin(), ends.end());
  }
  std::int64_t at(std::int64_t time) const {
    return (std::upper_bound(begins.begin(), begins.end(), time) - begins.begin()) -
           (std::upper_bound(ends.begin(), ends.end(), time) - ends.begin());
  }
  // The first moment from `time` on with no more than `most` open; nothing before `until`.
  std::optional<std::int64_t> first_with(std::int64_t most, std::int64_t time,
                                         std::int64_t until) const {
    if (at(time) <= most) return time;
    for (auto end = std::upper_bound(ends.begin(), ends.end(), time);
         end != ends.end() && *end < until; ++end)
      if (at(*end) <= most) return *end;
    return std::nullopt;
  }
};

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
  none.evidence = {{"most_in_baseline", usual},
                   {"watched_s", seconds_of(std::max<std::int64_t>(0, window.end - fault.on))}};
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

Figure time_to_normal_latency(const JudgeInput& input, const std::string& load,
                              const FaultFacts& fault, const NormalLatency& normal) {
  if (const std::string why = no_revert(fault); !why.empty()) return Figure::lacks(why);
  const PhasePlan* reference =
      normal.reference.empty() ? baseline_of(input.plan, load) : input.plan.phase(normal.reference);
  if (reference == nullptr) return Figure::lacks("no_reference");
  const auto usual = nearest_rank(
      request_samples(measured_requests(input.evidence, load, reference->name), "inference.ttft"),
      0.5);
  if (!usual || !std::isfinite(*usual)) return Figure::lacks("no_reference");
  const std::int64_t off_low = *fault.off_low, off_high = *fault.off_high;
  const Requests requests =
      scheduled_between(input.evidence, load, off_low, recovery_horizon(input, load, fault));
  if (requests.empty()) return Figure::lacks("no_samples");
  const std::vector<bool> runs =
      normal_runs(requests, static_cast<std::size_t>(normal.requests), normal.margin * *usual);
  // The revert lies between two times: from the earlier one at the soonest, from the later one at
  // the latest.
  std::size_t soonest = 0, latest = 0;
  while (soonest < runs.size() && !runs[soonest]) ++soonest;
  while (latest < runs.size() && (!runs[latest] || requests[latest]->sched < off_high)) ++latest;
  double low = 0;
  if (soonest > 0 && soonest < runs.size())
    low = seconds_of(std::max<std::int64_t>(
        0, requests[soonest - 1]->sched - off_high - requests[soonest - 1]->uncertainty_ns));
  Figure figure;
  if (latest == runs.size()) {
    // The last run that could be looked at began so many requests before the end.
    const auto tried = std::ssize(requests) - normal.requests;
    if (soonest == runs.size() && tried >= 0)
      low = seconds_of(
          std::max<std::int64_t>(0, requests[static_cast<std::size_t>(tried)]->sched - off_high));
    figure = censored_at(low, std::ssize(requests));
  } else {
    const double high =
        seconds_of(requests[latest]->sched - off_low + requests[latest]->uncertainty_ns);
    figure = Figure::of(high, std::ssize(requests));
    figure.interval = Interval{std::min(low, high), high};
  }
  figure.evidence = {{"usual_s", *usual},
                     {"margin", normal.margin},
                     {"reference", reference->name},
                     {"median_of_requests", normal.requests}};
  return figure;
}

Figure time_to_drain(const JudgeInput& input, const std::string& load, const FaultFacts& fault) {
  if (const std::string why = no_revert(fault); !why.empty()) return Figure::lacks(why);
  const PhasePlan* baseline = baseline_of(input.plan, load);
  if (baseline == nullptr) return Figure::lacks("no_reference");
  const OpenRequests open(input.evidence, load);
  std::vector<double> found;
  std::int64_t uncertainty_ns = 0;
  for (const Request* request : measured_requests(input.evidence, load, baseline->name)) {
    found.push_back(static_cast<double>(open.at(request->sched)));
    uncertainty_ns = std::max(uncertainty_ns, request->uncertainty_ns);
  }
  std::sort(found.begin(), found.end());
  const auto p95 = nearest_rank(found, 0.95);
  if (!p95) return Figure::lacks("no_reference");
  const auto usual = static_cast<std::int64_t>(*p95);
  const std::int64_t off_low = *fault.off_low, off_high = *fault.off_high,
                     horizon = recovery_horizon(input, load, fault);
  const auto n = std::ssize(scheduled_between(input.evidence, load, off_low, horizon));
  if (n == 0) return Figure::lacks("no_samples");
  const auto soonest = open.first_with(usual, off_low, horizon),
             latest = open.first_with(usual, off_high, horizon);
  const auto after = [&](std::int64_t at, std::int64_t off, std::int64_t widen) {
    return seconds_of(std::max<std::int64_t>(0, at - off + widen));
  };
  Figure figure;
  if (!soonest || !latest) {
    figure = censored_at(after(soonest.value_or(horizon), off_high, -uncertainty_ns), n);
  } else {
    figure = Figure::of(after(*latest, off_low, uncertainty_ns), n);
    figure.interval = Interval{std::min(after(*soonest, off_high, -uncertainty_ns), *figure.value),
                               *figure.value};
  }
  figure.evidence = {{"usual_open", usual}, {"open_at_revert", open.at(off_high)}};
  return figure;
}

}  // namespace mixproof
