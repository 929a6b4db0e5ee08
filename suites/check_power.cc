#include "suites/check_power.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/base/power.h"
#include "harness/base/statistics.h"
#include "harness/base/text.h"
#include "reports/bootstrap.h"
#include "suites/interval.h"
#include "suites/metrics.h"
#include "suites/offered.h"
#include "suites/resolve.h"

namespace mixproof {
namespace {

// Of the samples of a latency, assumed lognormal: about that of a server that is not overloaded.
constexpr double kSigma = 0.5;
constexpr double kPower = 0.8;
constexpr double kLeastBlockS = 1;  // blocks are longer where answers take more than half of it

long long ll(std::int64_t value) { return static_cast<long long>(value); }

std::string chance(double probability) {
  if (probability < 0.005) return "below 1 %";
  if (probability > 0.995) return "above 99 %";
  return format("%.0f %%", probability * 100);
}

// Requests that the load offers while the phase measures; 0 where the plan does not say.
double expected_in(const Plan& plan, const LoadPlan* load, const PhasePlan& phase) {
  const Json* arrivals = load == nullptr ? nullptr : member(load->params, "arrivals");
  if (arrivals == nullptr) return 0;
  return expected_requests(*arrivals, window_of_phase(plan, load->name, phase)).value_or(0);
}

struct PowerMaker {
  const Plan& plan;
  const Limit& limit;
  double rate;
  double measure_s;

  // Requests of the phase and of its reference, the fewer.
  double samples() const {
    const double here = rate * measure_s;
    const PhasePlan* reference = plan.phase(limit.reference);
    return reference == nullptr
               ? here
               : std::min(here, expected_in(plan, plan.load(limit.load), *reference));
  }

  CheckPower binomial() const {
    const bool blocks = limit.dependence == "blocks";
    const double p = *limit.at_least, c = limit.confidence;
    const double trial_s = blocks ? kLeastBlockS : rate > 0 ? 1 / rate : 0;
    const auto trials =
        trial_s > 0 ? static_cast<std::int64_t>(measure_s / trial_s + 1e-9) : std::int64_t{0};
    std::int64_t least = least_n(p, c, 0);
    if (blocks) least = std::max<std::int64_t>(least, kLeastBlocks);
    if (!(trial_s > 0))
      return {format("needs %lld requests without a violation; how many the phase offers is not "
                     "known before the run",
                     ll(least)),
              {{"least_trials", least}}};
    const std::int64_t tolerates = tolerated_violations(trials, p, c);
    const double better = (1 + p) / 2, worse = std::max(0.0, 2 * p - 1);
    const double pass = pass_power(trials, p, c, better), fail = fail_power(trials, p, c, worse);
    const char* noun = blocks ? "blocks" : "requests";
    CheckPower out;
    out.numbers = {{"trials", trials},
                   {"least_trials", least},
                   {"least_s", static_cast<double>(least) * trial_s},
                   {"tolerates", tolerates},
                   {"pass", {{"attainment", better}, {"probability", pass}}},
                   {"fail", {{"attainment", worse}, {"probability", fail}}}};
    out.text = format("needs %lld %s without a violation, ", ll(least), noun) +
               duration_text(static_cast<double>(least) * trial_s) +
               (blocks ? " with blocks of 1 s (longer where answers of the baseline take more than "
                         "half a second; more of them where requests come unevenly)"
                       : format(" at %g/s", rate)) +
               format("; this phase offers about %lld", ll(trials));
    out.text += tolerates < 0 ? ": too few to pass"
                              : format(" and passes with up to %lld %s", ll(tolerates),
                                       blocks ? "lost wholly" : "violations");
    out.text += format("; passes in %s of runs at a true attainment of %g, fails in %s at %g",
                       chance(pass).c_str(), better, chance(fail).c_str(), worse);
    return out;
  }

  CheckPower interval() const {
    const PhasePlan& reference = *plan.phase(limit.reference);
    const JudgedMetric& metric = *judged_metric(limit.metric);
    const bool difference = metric.kind == MetricKind::kDifference;
    // A difference is bounded by exact bounds of blocks too: none lost, these must lie within it.
    std::int64_t blocks = kLeastBlocks;
    if (difference && *limit.at_least < 0)
      blocks = std::max<std::int64_t>(blocks, least_n(1 + *limit.at_least, limit.confidence, 0));
    const double least_s = static_cast<double>(blocks) * kLeastBlockS;
    CheckPower out;
    out.numbers = {{"least_s", least_s}, {"least_blocks", blocks}};
    out.text = "needs at least " + duration_text(least_s) + " measured in each of " + limit.phase +
               " and " + limit.reference +
               format(
                   ", more where answers or steps take long (%lld blocks of max(1 s, 2 x their "
                   "p99)); they have %g s and %g s",
                   ll(blocks), measure_s, reference.measure_s);
    if (std::min(measure_s, reference.measure_s) < least_s) out.text += ": too short to decide";
    if (difference && *limit.at_least == 0) out.text += "; a margin of 0 can fail, but never pass";
    if (!limit.quantile.empty() && samples() > 0) add_ratio(out);
    if (const PhasePlan* second = second_baseline(plan, limit))
      out.text +=
          "; " + second->name + " shows the noise: the margin is the wider of bound and noise";
    return out;
  }

  void add_ratio(CheckPower& out) const {
    const double p = quantile_of(limit.quantile), n = samples();
    const std::int64_t least = least_samples(p);
    const double ratio = detectable_ratio(p, n, kSigma, limit.confidence, kPower);
    out.numbers["samples"] = std::floor(n);
    out.numbers["least_samples"] = least;
    out.numbers["detectable_ratio"] = ratio;
    out.numbers["assumes"] = {{"sigma", kSigma}, {"power", kPower}};
    out.text += format("; %s needs %lld requests in each, ", limit.quantile.c_str(), ll(least)) +
                duration_text(static_cast<double>(least) / rate) + format(" at %g/s", rate) +
                format(
                    ", and %.0f of them tell a ratio of %.3g from 1 in %.0f %% of runs (assuming "
                    "independent lognormal latencies of sigma %g)",
                    n, ratio, kPower * 100, kSigma);
  }

  CheckPower direct() const {
    const JudgedMetric& metric = *judged_metric(limit.metric);
    CheckPower out;
    const bool recovers =
        metric.id == "inference.time_to_recover" || metric.id == "inference.time_to_normal_latency";
    if (recovers && rate > 0) {
      const double seconds = limit.clean_requests / rate;
      out.numbers = {{"clean_requests", limit.clean_requests}, {"resolution_s", seconds}};
      out.text = format(
          "%d requests prove it: it is seen %.3g s after it came, at %g/s, and known "
          "to about %.2g s",
          limit.clean_requests, seconds, rate, 1 / rate);
    }
    const double p = limit.quantile.empty() ? 1 : quantile_of(limit.quantile);
    if (p < 1) {
      const std::int64_t least = least_samples(p);
      out.numbers = {{"least_samples", least}};
      out.text = format("%s needs %lld samples", limit.quantile.c_str(), ll(least));
      if (rate > 0) {
        const double seconds = static_cast<double>(least) / rate;
        out.numbers["least_s"] = seconds;
        out.text += ", " + duration_text(seconds) + format(" at %g/s", rate);
        if (samples() < static_cast<double>(least)) out.text += ": too short to decide";
      }
    }
    return out;
  }
};

}  // namespace

CheckPower check_power(const Plan& plan, const Limit& limit) {
  const LoadPlan* load = plan.load(limit.load);
  const PhasePlan* phase = plan.phase(limit.phase);
  if (phase == nullptr) return {};
  const double rate =
      phase->measure_s > 0 ? expected_in(plan, load, *phase) / phase->measure_s : 0;
  const PowerMaker maker{plan, limit, rate, phase->measure_s};
  if (limit.method == "binomial" && limit.at_least) return maker.binomial();
  if (limit.method == "interval" && plan.phase(limit.reference) != nullptr) return maker.interval();
  return maker.direct();
}

}  // namespace mixproof
