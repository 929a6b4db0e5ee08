// Figure: one derived number with what supports it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/base/statistics.h"
#include "suites/evidence.h"
#include "suites/metrics.h"
#include "suites/plan.h"

namespace mixproof {

struct JudgeInput {
  const Plan& plan;
  const Evidence& evidence;
};

// Exactly one of value, infinite and missing is set.
struct Figure {
  std::optional<double> value;
  bool infinite = false;  // measured, and beyond every bound: the request was not OK
  std::string missing;    // reason code: no_samples, n_too_small, no_reference, no_impact ...
  std::optional<Interval> interval;
  bool censored =
      false;  // the interval has no upper end: it had not happened when the evidence ended
  // Of method interval: the interval with the error of each end divided by 1, 2, ... for as many
  // tests as share it (suites/holm.h). Not in the report.
  std::vector<Interval> by_divisor;
  std::int64_t n = 0;
  Json evidence = nullptr;  // an object, or null

  static Figure lacks(std::string reason, std::int64_t count = 0) {
    Figure figure;
    figure.missing = std::move(reason);
    figure.n = count;
    return figure;
  }
  static Figure of(double number, std::int64_t count) {
    Figure figure;
    figure.value = number;
    figure.n = count;
    return figure;
  }
};

// What is asked for. `phase` and `reference` name phases of the plan; `load` is empty for faults.
struct Question {
  const JudgedMetric* metric = nullptr;
  std::string load, phase, reference, quantile;
  std::string signal = {};  // of metrics that are taken from one
  int clean_requests = 59;
  double margin = 1.1;           // of time_to_normal_latency
  bool by_blocks = false;        // attainment: bounds for requests that share their fate
  double confidence = 0.95;      // of the bounds beside an attainment
  bool without_dropped = false;  // as if requests that the client dropped had never been scheduled
};

// The phase must have begun. Pure.
Figure derive(const JudgeInput& input, const Question& question);

// Every quantile that has a name, for the report: {"p50": {...}, ..., "max": {...}} and the count.
struct Summary {
  Json quantiles;
  std::int64_t n = 0, infinite = 0;
};
Summary summarise(const JudgeInput& input, const Question& question);

// {"value": x | null, "infinite": true?, "missing_reason"?, "interval"?: {"low", "high" | null,
// "censored"?}, "n"}. JSON has no infinity: it is null beside "infinite": true.
Json figure_json(const Figure& figure);

// The first phase in the plan's order that runs the load and has no fault: what "baseline" means
// for it. Null if none.
const PhasePlan* baseline_of(const Plan& plan, const std::string& load);

// From the begin of the first to the end of the last of the consecutive phases around `phase` that
// run the load without a restart, as far as they have begun. Phases that have not begun end it.
struct Stretch {
  std::int64_t begin = 0, end = 0;
};
Stretch stretch_of(const JudgeInput& input, const std::string& load, const std::string& phase);

}  // namespace mixproof
