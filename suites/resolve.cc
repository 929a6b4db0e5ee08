#include "suites/resolve.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "suites/interval.h"
#include "suites/interval_text.h"
#include "suites/request_metrics.h"

namespace mixproof {
namespace {

double offered_rate(const JudgeInput& input, const Limit& limit) {
  const auto requests = measured_requests(input.evidence, limit.load, limit.phase);
  const double window_s = input.evidence.phases.at(limit.phase).measure_s();
  return window_s > 0 ? static_cast<double>(requests.size()) / window_s : 0;
}

// So many more of something.
struct More {
  std::int64_t count = 0;
  const char* key = "";    // of the numbers
  const char* words = "";  // for people
};

More more_of(const Check& check) {
  const Limit& limit = check.limit;
  const Json& evidence = check.figure.evidence;
  if (check.reason == "n_too_small")
    return {least_samples(quantile_of(limit.quantile)) - check.figure.n, "samples", "samples"};
  if (check.reason == "needs_more_samples" && limit.dependence != "blocks")
    return {clean_trials_needed(integer_at(evidence, "good"), check.figure.n, *limit.at_least,
                                limit.confidence),
            "clean_requests", "clean requests"};
  if (check.reason == "not_recovered" && member(evidence, "clean_seen") != nullptr)
    return {integer_at(evidence, "clean_requests") - integer_at(evidence, "clean_seen"),
            "clean_requests", "clean requests"};
  return {};
}

void needs_requests(const JudgeInput& input, Check& check, const More& more) {
  const double rate = judged_metric(check.limit.metric)->probe == "inference"
                          ? offered_rate(input, check.limit)
                          : 0;
  check.resolve = format("needs %lld more %s", static_cast<long long>(more.count), more.words);
  check.resolve_numbers = {{more.key, more.count}};
  if (!(rate > 0)) return;
  const double seconds = static_cast<double>(more.count) / rate;
  check.resolve += ": about " + duration_text(seconds) + format(" more at %.3g requests/s", rate);
  check.resolve_numbers["seconds"] = seconds;
}

// Blocks without a violation are worth a trial each at most.
void needs_blocks(Check& check) {
  const Json& evidence = check.figure.evidence;
  const Json* seen = member(evidence, "dependence");
  if (seen == nullptr) return;
  const std::int64_t n = integer_at(*seen, "n_eff");
  const std::int64_t missing = clean_trials_needed(n - integer_at(*seen, "violations_eff_up"), n,
                                                   *check.limit.at_least, check.limit.confidence);
  const double seconds = static_cast<double>(missing) * number_at(*seen, "block_s");
  check.resolve = format("needs %lld more blocks of %.3g s without a violation: about ",
                         static_cast<long long>(missing), number_at(*seen, "block_s")) +
                  duration_text(seconds) + " more";
  check.resolve_numbers = {{"clean_blocks", missing}, {"seconds", seconds}};
}

}  // namespace

std::string duration_text(double seconds) {
  if (seconds <= 120) return format("%.0f s", std::ceil(seconds));
  return format("%.0f minutes", std::ceil(seconds / 60));
}

void set_resolve(const JudgeInput& input, Check& check) {
  const Limit& limit = check.limit;
  const bool blocks = limit.dependence == "blocks";
  if (limit.method == "interval" || (blocks && check.reason == "too_few_blocks")) {
    const Advice advice = interval_advice(input, limit, check.figure, check.reason);
    check.resolve = advice.text;
    check.resolve_numbers = advice.numbers;
  }
  if (const More more = more_of(check); more.count > 0) needs_requests(input, check, more);
  if (blocks && check.reason == "needs_more_samples") needs_blocks(check);
  if (check.reason == "not_recovered" && check.resolve.empty())
    check.resolve = "needs longer phases after the fault";
  if (check.reason == "baseline_unanswered")
    check.resolve = "needs a baseline in which at least 99 % of the requests are answered";
  if (check.reason == "interval_straddles_limit" && limit.method != "interval")
    check.resolve = "needs a higher request rate: it narrows the interval";
  if (check.reason == "measurement_invalid") check.resolve = "needs a run without that disturbance";
  if (check.reason == "not_effective")
    check.resolve = "needs a run in which the fault takes hold for its whole time";
}

}  // namespace mixproof
