// Judging a run of one hour: 10 requests/s, 36,000 requests in six phases, with limits of every
// method. Aim: 2 s at most.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "suites/judge.h"
#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

constexpr double kPhaseS = 590, kSettleS = 10;

Json interval_limit(const std::string& id, const char* metric, const std::string& phase,
                    const char* quantile) {
  Json out = {{"id", id},         {"metric", metric},        {"load", "users"},
              {"phase", phase},   {"reference", "baseline"}, {"method", "interval"},
              {"why", "a margin"}};
  if (quantile != nullptr) out["quantile"] = quantile;
  out[quantile != nullptr ? "at_most" : "at_least"] = quantile != nullptr ? 1.25 : -0.01;
  return out;
}

FakeRun hour() {
  FakeRun run;
  Json& suite = run.suite;
  suite["loads"]["users"]["params"]["arrivals"]["poisson"]["rate_per_s"] = 10;
  const Json fault = suite["phases"][3]["faults"];
  suite["phases"] = Json::array();
  for (const char* name : {"baseline", "contention", "stall", "recovery", "more", "again"}) {
    const bool users_only =
        std::string_view(name) == "baseline" || std::string_view(name) == "again";
    suite["phases"].push_back({{"name", name},
                               {"run", users_only ? Json{"users"} : Json{"users", "trainer"}},
                               {"settle_s", kSettleS},
                               {"measure_s", kPhaseS}});
  }
  suite["phases"][2]["faults"] = fault;
  suite["limits"] = Json::array();
  for (const char* phase : {"contention", "recovery", "more"}) {
    suite["limits"].push_back(interval_limit("p50", "inference.ttft_ratio", phase, "p50"));
    suite["limits"].push_back(interval_limit("p99", "inference.ttft_ratio", phase, "p99"));
    suite["limits"].push_back(
        interval_limit("change", "inference.attainment_change", phase, nullptr));
    suite["limits"].push_back({{"id", "sla"},
                               {"metric", "inference.attainment"},
                               {"load", "users"},
                               {"phase", phase},
                               {"method", "binomial"},
                               {"dependence", "blocks"},
                               {"at_least", 0.95},
                               {"confidence", 0.99},
                               {"why", "contract"}});
  }
  for (const char* metric : {"inference.time_to_recover", "inference.time_to_normal_latency",
                             "inference.time_to_drain", "inference.time_to_impact"})
    suite["limits"].push_back({{"id", std::string(metric).substr(10)},
                               {"metric", metric},
                               {"load", "users"},
                               {"phase", "stall"},
                               {"method", "direct"},
                               {"at_most", 60},
                               {"why", "pager threshold"}});
  run.last_phase = "again";
  return run;
}

void judge_an_hour(benchmark::State& state) {
  const FakeRun run = hour();
  const Plan plan = run.plan();
  const std::vector<Json> rows = run.rows();
  std::int64_t checks = 0;
  for (auto _ : state) {
    const Judgement judgement = judge(plan, rows);
    checks = std::ssize(judgement.checks);
    benchmark::DoNotOptimize(checks);
  }
  state.counters["rows"] = static_cast<double>(rows.size());
  state.counters["checks"] = static_cast<double>(checks);
}
BENCHMARK(judge_an_hour)->Unit(benchmark::kMillisecond)->Iterations(5);

}  // namespace
}  // namespace mixproof

BENCHMARK_MAIN();
