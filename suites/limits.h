// One limit against the evidence.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/verdict.h"
#include "suites/check_power.h"
#include "suites/figure.h"

namespace mixproof {

// Why a check has its status, in an order in which none hides a graver one. `help` is what people
// read.
struct ReasonRow {
  std::string_view code, help;
};
std::vector<ReasonRow> check_reasons();

struct Check {
  Limit limit;
  VerdictStatus status = VerdictStatus::kError;
  std::string reason;  // a code of check_reasons(), or error_<code>
  std::string detail;  // one line with the numbers: "attainment 0.91 (135 of 148 good), needs 0.95
                       // at 95 % confidence"
  Figure figure;
  std::string resolve;             // what would settle an inconclusive one; may be empty
  Json resolve_numbers = nullptr;  // {"clean_requests": k, "seconds": s}
  CheckPower power;                // what it could decide, by the plan
};

// All limits of the plan, in its order. For each, in this order: skipped by the suite; not measured
// (error); a figure that does not exist (error, or inconclusive when there are too few samples);
// compared with the bounds; a fault that was not proved effective makes it inconclusive; so does a
// measurement that cannot be trusted, with one exception: a direct upper bound on a time stays
// failed when it was exceeded by more than 10 x the most that the client itself may have added.
// Required limits of method interval in one phase share their confidence (suites/holm.h).
std::vector<Check> judge_limits(const JudgeInput& input);

Json check_json(const Check& check);

// "limit 5 s", "needs at least 0.7"
std::string bound_text(const Limit& limit);
std::string rule_text(const Limit& limit);  // "inference.ttft p50 of users in baseline <= 0.5 s"
std::string number_text(double value);      // three significant digits, for people

}  // namespace mixproof
