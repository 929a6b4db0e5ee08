#include "probes/inference/arrival_tests.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/base/goodness_of_fit.h"

namespace mixproof::inference {
namespace {

constexpr double kMovedGapShare = 0.1;

double seconds(std::int64_t ns) { return 1e-9 * static_cast<double>(ns); }

// The distribution of the rescaled gaps.
struct Declared {
  double shape;
  int every;
  double scale() const { return 1 / shape; }
  double all() const { return shape * every; }  // a sum of gamma variates of one scale
  double cdf(double x) const {
    return all() == 1 ? -std::expm1(-std::max(0.0, x)) : gamma_cdf(x, all(), scale());
  }
  // The exponential variate with the same rank.
  double exponential(double x) const {
    if (all() == 1) return std::max(0.0, x);
    const double tail = gamma_tail(x, all(), scale());
    return tail > 0 ? -std::log(tail) : 745;  // beyond the least double
  }
};

std::vector<std::int64_t> counts_of(const std::vector<double>& exponential, std::int64_t cells) {
  double total = 0;
  for (const double gap : exponential) total += gap;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(cells), 0);
  double at = 0;
  for (std::size_t i = 0; i + 1 < exponential.size(); ++i) {  // the last point is the end itself
    at += exponential[i];
    const auto cell = static_cast<std::int64_t>(at / total * static_cast<double>(cells));
    ++counts[static_cast<std::size_t>(std::clamp<std::int64_t>(cell, 0, cells - 1))];
  }
  return counts;
}

void test_dispersion(const std::vector<double>& exponential, double length_s, GapTest& out) {
  const auto points = static_cast<double>(exponential.size() - 1);
  const double least = length_s > 0 ? points / length_s * kLeastCellS : 0;
  out.cells = static_cast<std::int64_t>(points / std::max(kCellCount, least));
  if (out.cells < kLeastCells) return;
  double total = 0;
  for (const double gap : exponential) total += gap;
  if (!(total > 0)) return;
  if (const auto found = dispersion_of(counts_of(exponential, out.cells))) {
    out.dispersion = found->index;
    out.dispersion_p = found->p;
  }
}

std::vector<double> sorted_gaps(std::span<const std::int64_t> times) {
  std::vector<double> out;
  for (std::size_t i = 1; i < times.size(); ++i) out.push_back(seconds(times[i] - times[i - 1]));
  std::sort(out.begin(), out.end());
  return out;
}

Json json_of(const GapTest& test) {
  const auto maybe = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  return {{"n", test.n},
          {"ks", maybe(test.ks)},
          {"ks_p", maybe(test.ks_p)},
          {"dispersion", maybe(test.dispersion)},
          {"dispersion_p", maybe(test.dispersion_p)},
          {"cells", test.cells}};
}

// Due and sending times of one phase, from its begin.
struct PhaseTimes {
  std::vector<std::int64_t> due, due_of_sent, sent;
  std::int64_t unsent = 0;
};

Json row_of_phase(const ArrivalProcess& process, const SchedulePhase& phase, PhaseTimes times,
                  int every) {
  const double moved = moved_share(times.due_of_sent, times.sent);
  std::sort(times.sent.begin(), times.sent.end());
  Json row = {{"row", "arrivals"},
              {"phase", phase.name},
              {"process", process.kind},
              {"deterministic", is_deterministic(process)},
              {"every", every},
              {"n", times.due.size()},
              {"unsent", times.unsent},
              {"moved", moved},
              {"tolerance_s", kToleratedLatenessS},
              {"gap_distance",
               ks_distance_of_two(sorted_gaps(times.due_of_sent), sorted_gaps(times.sent))}};
  if (is_deterministic(process)) return row;
  row["scheduled"] = json_of(test_gaps(process, phase, times.due, 0, every));
  row["realised"] = json_of(test_gaps(process, phase, times.sent, kToleratedLatenessS, every));
  return row;
}

}  // namespace

GapTest test_gaps(const ArrivalProcess& process, const SchedulePhase& phase,
                  std::span<const std::int64_t> times, double tolerance_s, int every) {
  GapTest out;
  out.n = std::max<std::int64_t>(0, std::ssize(times) - 1);
  if (is_deterministic(process) || out.n < kLeastGaps) return out;
  const RateFunction rate = RateFunction::of(process, phase);
  const Declared declared{gamma_shape(process), every};
  const double half_s = tolerance_s / 2;
  std::vector<double> cdf, low, high, exponential;
  for (std::size_t i = 1; i < times.size(); ++i) {
    const double from_s = seconds(times[i - 1]), to_s = seconds(times[i]);
    const double gap = rate.count_until(to_s) - rate.count_until(from_s);
    cdf.push_back(declared.cdf(gap));
    exponential.push_back(declared.exponential(gap));
    low.push_back(
        declared.cdf(rate.count_until(to_s - half_s) - rate.count_until(from_s + half_s)));
    high.push_back(
        declared.cdf(rate.count_until(to_s + half_s) - rate.count_until(from_s - half_s)));
  }
  for (std::vector<double>* values : {&cdf, &low, &high}) std::sort(values->begin(), values->end());
  out.ks = ks_distance(cdf);
  out.ks_p = kolmogorov_p(ks_distance_at_least(low, high), out.n);
  test_dispersion(exponential, seconds(times.back() - times.front()), out);
  return out;
}

double moved_share(std::span<const std::int64_t> scheduled,
                   std::span<const std::int64_t> realised) {
  if (scheduled.size() < 2) return 0;
  const double mean_s =
      seconds(scheduled.back() - scheduled.front()) / static_cast<double>(scheduled.size() - 1);
  const double allowed_s = std::max(kToleratedLatenessS, kMovedGapShare * mean_s);
  double moved = 0;
  for (std::size_t i = 1; i < scheduled.size(); ++i) {
    const std::int64_t change = (realised[i] - realised[i - 1]) - (scheduled[i] - scheduled[i - 1]);
    moved += std::fabs(seconds(change)) > allowed_s ? 1 : 0;
  }
  return moved / static_cast<double>(scheduled.size() - 1);
}

std::vector<Json> arrivals_rows(const ArrivalProcess& process,
                                std::span<const SchedulePhase> phases, const Schedule& schedule,
                                std::span<const std::int64_t> delays, std::int64_t until_ns,
                                int every) {
  std::vector<PhaseTimes> times(phases.size());
  for (std::size_t i = 0; i < schedule.arrivals.size(); ++i) {
    if (delays[i] == kNotMine) continue;
    const Arrival& arrival = schedule.arrivals[i];
    PhaseTimes& of = times[arrival.phase];
    const std::int64_t due = arrival.at_ns - phases[arrival.phase].begin_ns;
    of.due.push_back(due);
    if (delays[i] == kNotSent) {
      ++of.unsent;
      continue;
    }
    of.due_of_sent.push_back(due);
    of.sent.push_back(due + delays[i]);
  }
  std::vector<Json> rows;
  for (std::size_t p = 0; p < phases.size(); ++p)
    if (phases[p].end_ns <= until_ns)
      rows.push_back(row_of_phase(process, phases[p], std::move(times[p]), every));
  return rows;
}

}  // namespace mixproof::inference
