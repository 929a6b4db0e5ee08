// CapacitySearch: which rate to try next, and when the highest proved one is known. Pure: no clock,
// no server.
//
// A trial at a rate counts how many of n scheduled requests were good. It is *proved* when the
// exact (Clopper-Pearson) lower bound of the share is at least the target, *refuted* when the upper
// bound is below it. Undecided trials are extended by as many requests again, a few times.
//
// Every look at the counts is a chance to be wrong, and there are up to `max_trials` trials of
// `looks` looks each: the error that the whole search may make, 1 - confidence, is spent over all
// of them in equal parts (Bonferroni), each look at confidence 1 - (1 - confidence) / (trials x
// looks). So the statement "the rate that it names reaches the target" holds at `confidence`
// whatever path the search took, as far as requests can be taken as independent and the server as
// the same throughout; requests that share a stall are not, which is why a trial should last longer
// than its stalls do.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mixproof::inference {

struct CapacityBounds {
  double rate_low = 1, rate_high = 100;
  double resolution = 1.2;  // ends when the lowest rate not proved is within this factor
  double target = 0.9, confidence = 0.95;
  int max_trials = 12, looks = 3;
};

double confidence_of_a_look(const CapacityBounds& bounds);

enum class TrialVerdict { kUndecided, kProved, kRefuted };
std::string_view trial_verdict_name(TrialVerdict verdict);  // "undecided", ...

struct TrialJudgement {
  TrialVerdict verdict = TrialVerdict::kUndecided;
  double lower = 0, upper = 1;  // of the share of good requests, each at the confidence of a look
};
TrialJudgement judge_trial(std::int64_t good, std::int64_t n, const CapacityBounds& bounds);

// A server that is asked for a little too much keeps its promise until its queue has grown long
// enough, which may be after the trial. A queue at a rate of (1 + x) times the capacity makes the
// wait longer by x seconds a second: when the median wait of the last quarter of a trial exceeds
// that of its first quarter by more than half of (resolution - 1) times the time between them, the
// trial proves nothing, whatever was good. Arrivals come in lumps, so this needs requests: in n of
// them, with the total fixed, the lumps make the queue between the two quarters differ by sqrt(3 n
// / 16), and x = resolution - 1 by 3 n x / 4, of which the half is three times as much from n = 12
// / x^2 on. Then a proved rate lies above the capacity by less than the resolution, at three sigma.
// `waits` are by scheduled time and evenly spread over `length_s`.
bool queue_grows(std::span<const double> waits, double length_s, double resolution);
double requests_to_see_growth(double resolution);  // that n

// Doubles from rate_low until a rate is not proved, or rate_high is; then halves the bracket on a
// logarithmic scale. What stays undecided counts as not proved.
class CapacitySearch {
 public:
  enum class End {
    kNone,         // goes on
    kResolved,     // the bracket is as narrow as was asked for
    kAtHigh,       // rate_high is proved: the capacity lies above
    kBelowLow,     // rate_low is refuted
    kUndecided,    // rate_low could not be decided
    kOutOfTrials,  // the bracket is wider than was asked for
  };

  explicit CapacitySearch(const CapacityBounds& bounds);
  double next_rate() const { return next_; }  // while end() is kNone
  void report(TrialVerdict verdict);          // of the trial at next_rate()
  End end() const { return end_; }
  int trials() const { return trials_; }
  double proved() const { return proved_; }          // highest; 0: none
  double not_proved() const { return not_proved_; }  // lowest above it; 0: none

 private:
  CapacityBounds bounds_;
  double next_ = 0, proved_ = 0, not_proved_ = 0;
  int trials_ = 0;
  End end_ = End::kNone;
};

}  // namespace mixproof::inference
