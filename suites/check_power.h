// What a check can decide with what the plan gives it: the samples that it needs at least, and its
// chances. From the plan alone, before anything runs.
#pragma once

#include <string>

#include "suites/plan.h"

namespace mixproof {

// `numbers` is null where a check compares one measured number and needs no more than that. Each
// number's meaning is in the text:
//   binomial  trials (requests, or blocks), least_trials and least_s without a violation, tolerates
//             (violations with which it still passes; -1: none is too many), pass (its chance at
//             half the violations that the limit allows), fail (at twice as many)
//   interval  least_s; of latencies least_samples of the quantile and detectable_ratio (with 80 %
//             power); of attainment_change least_blocks
//   direct    of quantiles least_samples and least_s; of times to recover resolution_s
struct CheckPower {
  std::string text;
  Json numbers = nullptr;
};
CheckPower check_power(const Plan& plan, const Limit& limit);

}  // namespace mixproof
