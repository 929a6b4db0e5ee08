// How long a schedule takes to draw, its hash included: a million requests, every shape.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "probes/inference/arrivals.h"
#include "probes/inference/clock.h"

namespace mixproof::inference {
namespace {

constexpr double kRate = 1000;

void draw(benchmark::State& state, const ArrivalProcess& process, const Lengths& lengths) {
  const std::vector<SchedulePhase> phases = {{"bench", 0, 1000 * kSecond}};
  std::size_t drawn = 0;
  for (auto _ : state) {
    const Result<Schedule> schedule = draw_schedule(process, phases, 1, lengths);
    if (!schedule) return state.SkipWithError(schedule.error().message.c_str());
    drawn = schedule->arrivals.size();
    benchmark::DoNotOptimize(schedule->hash.data());
  }
  state.counters["requests"] = static_cast<double>(drawn);
}

void poisson(benchmark::State& state) { draw(state, {"poisson", kRate}, {}); }
void constant(benchmark::State& state) { draw(state, {"constant", kRate}, {}); }
void gamma_cv_2(benchmark::State& state) {
  draw(state, {.kind = "gamma", .rate_per_s = kRate, .cv = 2}, {});
}
void square(benchmark::State& state) {
  draw(state, {.kind = "square", .rate_per_s = kRate / 3, .factors = {1, 3, 5}}, {});
}
void exponential_ramp(benchmark::State& state) {
  draw(state, {.kind = "ramp", .from_per_s = 250, .to_per_s = 2480, .form = "exponential"}, {});
}
void poisson_lognormal_lengths(benchmark::State& state) {
  draw(state, {"poisson", kRate},
       {.prompt = {.kind = "lognormal"}, .answer = {.kind = "lognormal"}});
}

BENCHMARK(poisson)->Unit(benchmark::kMillisecond);
BENCHMARK(constant)->Unit(benchmark::kMillisecond);
BENCHMARK(gamma_cv_2)->Unit(benchmark::kMillisecond);
BENCHMARK(square)->Unit(benchmark::kMillisecond);
BENCHMARK(exponential_ramp)->Unit(benchmark::kMillisecond);
BENCHMARK(poisson_lognormal_lengths)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mixproof::inference

BENCHMARK_MAIN();
