// Aborts: conditions that end a run early. The controller watches them while rows pass, the judge
// again from the recording; both by the same AbortCondition.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "suites/limits.h"

namespace mixproof {

// One condition, fed in the order of time with what belongs to it.
class AbortCondition {
 public:
  explicit AbortCondition(const AbortPlan& plan) : plan_(plan) {}

  struct Trigger {
    std::int64_t at = 0;
    double value = 0;
    std::string detail;  // in words, with the numbers
  };
  // Of its signal. Triggers when the value lies outside of the bounds and has done so at every
  // sample since at least for_s ago: one sample within, and the time begins anew. Samples without
  // data are not fed: they neither confirm nor clear.
  std::optional<Trigger> sample(std::int64_t at, double value);
  // Of its load: a request that ended.
  std::optional<Trigger> request(std::int64_t ended, bool good);
  void reset();  // where it is not watched

  // The value that came nearest to triggering; nothing before any.
  std::optional<double> worst() const { return worst_; }
  std::int64_t seen() const { return seen_; }

 private:
  const AbortPlan& plan_;
  std::optional<std::int64_t> outside_since_;
  std::deque<std::pair<std::int64_t, bool>> ended_;
  std::int64_t good_ = 0, seen_ = 0;
  std::optional<double> worst_;
};

// "queue <= 50, or beyond for less than 3 s", "good share of users >= 0.5 over 10 s"
std::string abort_rule(const AbortPlan& plan);

// Fail: it ended the run on a measured value, or by the recording should have. Inconclusive: it
// ended the run since there was no data, there was too little to watch it by, or the load generator
// itself was late or starved. Pass: watched through all its phases. Error: these were not all run.
Check judge_abort(const JudgeInput& input, const AbortPlan& plan);

// As check_json, with the abort's own rule.
Json abort_check_json(const Check& check, const AbortPlan& plan);

}  // namespace mixproof
