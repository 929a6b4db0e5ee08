#include "probes/inference/capacity_search.h"

#include <algorithm>
#include <cmath>

#include "harness/base/statistics.h"

namespace mixproof::inference {

double confidence_of_a_look(const CapacityBounds& bounds) {
  return 1 - (1 - bounds.confidence) / (static_cast<double>(bounds.max_trials) * bounds.looks);
}

std::string_view trial_verdict_name(TrialVerdict verdict) {
  if (verdict == TrialVerdict::kProved) return "proved";
  return verdict == TrialVerdict::kRefuted ? "refuted" : "undecided";
}

TrialJudgement judge_trial(std::int64_t good, std::int64_t n, const CapacityBounds& bounds) {
  const double confidence = confidence_of_a_look(bounds);
  TrialJudgement out;
  out.lower = proportion_lower(good, n, confidence);
  out.upper = proportion_upper(good, n, confidence);
  if (n == 0) return out;
  if (out.lower >= bounds.target) out.verdict = TrialVerdict::kProved;
  if (out.upper < bounds.target) out.verdict = TrialVerdict::kRefuted;
  return out;
}

bool queue_grows(std::span<const double> waits, double length_s, double resolution) {
  const std::size_t quarter = waits.size() / 4;
  if (quarter == 0) return true;  // too few to tell
  const std::span<const double> first = waits.first(quarter), last = waits.last(quarter);
  const double rise =
      median_of({last.begin(), last.end()}) - median_of({first.begin(), first.end()});
  return !(rise <= 0.5 * (resolution - 1) * 0.75 * length_s);
}

double requests_to_see_growth(double resolution) {
  return 12 / ((resolution - 1) * (resolution - 1));
}

CapacitySearch::CapacitySearch(const CapacityBounds& bounds)
    : bounds_(bounds), next_(bounds.rate_low) {}

void CapacitySearch::report(TrialVerdict verdict) {
  ++trials_;
  if (verdict == TrialVerdict::kProved) {
    proved_ = next_;
  } else {
    not_proved_ = next_;
  }
  if (proved_ == 0) {
    end_ = verdict == TrialVerdict::kRefuted ? End::kBelowLow : End::kUndecided;
  } else if (proved_ >= bounds_.rate_high) {
    end_ = End::kAtHigh;
  } else if (not_proved_ > 0 && not_proved_ <= proved_ * bounds_.resolution) {
    end_ = End::kResolved;
  } else if (trials_ >= bounds_.max_trials) {
    end_ = End::kOutOfTrials;
  } else if (not_proved_ == 0) {
    next_ = std::min(2 * proved_, bounds_.rate_high);
  } else {
    next_ = std::sqrt(proved_ * not_proved_);
  }
}

}  // namespace mixproof::inference
