// Arrival tests: whether requests were due, and were sent, as the load declared. A generator that
// rescales its gaps, sends in lumps or falls behind shows here even when each answer looks well.
//
// With the rate taken out (each gap measured in expected requests, RateFunction::count_until), the
// gaps of a phase come from one known distribution: exponential, or gamma with mean 1. Two tests:
// - the distance of Kolmogorov and Smirnov between the gaps and that distribution;
// - the dispersion of counts: gaps turned into exponential ones (x -> -log(1 - F(x))) put end to
//   end are a Poisson process, whose counts in equal cells must have variance = mean. Given their
//   number, its points are independent and uniform, so the test needs no assumption on the rate.
// The first says whether gaps have the right lengths, the second whether they are independent. Of
// 6,000 schedules each, drawn with rates of 5 and 20 and cv of 0.3, 1 and 2 in 30 s, they rejected
// 4.4 to 5.5 % at 5 %, 0.8 to 1.2 % at 1 % and 0.02 to 0.12 % at 0.1 %.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "harness/base/json.h"
#include "probes/inference/arrivals.h"

namespace mixproof::inference {

// Lateness that nobody holds against the client: also the least that its rule of lateness allows.
inline constexpr double kToleratedLatenessS = 0.001;
inline constexpr std::int64_t kLeastGaps = 20, kLeastCells = 10;
// Requests expected in a cell; more at high rates, where a cell is not shorter than kLeastCellS.
inline constexpr double kCellCount = 5, kLeastCellS = 0.05;

struct GapTest {
  std::int64_t n = 0;                              // gaps
  std::optional<double> ks, ks_p;                  // nothing below kLeastGaps
  std::optional<double> dispersion, dispersion_p;  // nothing below kLeastCells
  std::int64_t cells = 0;
};

// `times`: ns from the begin of the phase, ascending. `every`: only each so many-th arrival of the
// process is among them. With a tolerance, ks_p belongs to the least distance that is possible when
// every gap may be off by so much.
GapTest test_gaps(const ArrivalProcess& process, const SchedulePhase& phase,
                  std::span<const std::int64_t> times, double tolerance_s, int every = 1);

// Share of the gaps between consecutive requests that differ by more than 1 ms and a tenth of the
// mean gap. `scheduled` and `realised` belong together.
double moved_share(std::span<const std::int64_t> scheduled, std::span<const std::int64_t> realised);

// Instead of the delay of a request: it was never sent; another worker draws it.
inline constexpr std::int64_t kNotSent = -1, kNotMine = -2;

// One row a phase that ended by `until_ns` (from the begin of the load), {"row": "arrivals"};
// reports/recording.h lists the members. `delays`, by request: ns from its due time to its sending,
// or one of the above. `every`: with several workers, each draws every so many-th request.
std::vector<Json> arrivals_rows(const ArrivalProcess& process,
                                std::span<const SchedulePhase> phases, const Schedule& schedule,
                                std::span<const std::int64_t> delays, std::int64_t until_ns,
                                int every = 1);

}  // namespace mixproof::inference
