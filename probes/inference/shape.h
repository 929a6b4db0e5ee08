// Shape: how many requests a second are due over time, and by which process. A shape is a rate
// function times a process of unit rate: the times are those at which the integral of the rate
// (the expected count) reaches the points of the process (time rescaling), so that one seed gives
// every shape its arrivals.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/base/result.h"

namespace mixproof::inference {

struct RateStep {
  double rate_per_s = 1, for_s = 10;
};

struct TraceOptions {
  std::string path;             // on the node of the load, absolute
  std::string format = "auto";  // auto | azure | mooncake | burstgpt | jsonl
  double time_scale = 1;        // seconds of the trace in a second of the run
  double rate_scale = 1;        // below 1: thinned; above: copies shifted round the trace are added
  double from_s = 0, until_s = 0;  // the part that is replayed; until_s 0: to its end
  bool loop = false;
  std::int64_t max_prompt_tokens = 100'000, max_answer_tokens = 10'000;
  double peak_per_s = 1000;  // a trace with more requests in one second of the run is refused
};

// Everything that the parameter `arrivals` can say; which members count depends on the kind.
struct ArrivalProcess {
  std::string kind = "poisson";     // poisson constant gamma steps ramp square bursts trace
  double rate_per_s = 6;            // poisson, constant, gamma; the base of square and bursts
  std::string process = "poisson";  // of steps, ramp, square, bursts: poisson constant gamma
  double cv = 2;                    // of gamma gaps: their standard deviation over their mean
  std::vector<RateStep> steps;      // the last rate goes on
  double from_per_s = 1, to_per_s = 12, over_s = 0;  // ramp; over_s 0: over the whole phase
  std::string form = "linear";                       // linear | exponential
  std::vector<double> factors = {1, 3, 5};           // square: of the rate, in turn
  double period_s = 30;                              // square: of all factors; bursts: of one burst
  double burst_per_s = 30, offset_s = 0, length_s = 5;
  TraceOptions trace;
};

enum class Gaps { kConstant, kExponential, kGamma, kTrace };
Gaps gaps_of(const ArrivalProcess& process);
// Of the gaps on the axis of expected counts: 1 for exponential ones, 1 / cv^2 for gamma.
double gamma_shape(const ArrivalProcess& process);
// No chance in it: a metronome in rescaled time, or a trace.
bool is_deterministic(const ArrivalProcess& process);
double peak_rate(const ArrivalProcess& process);

// kInvalid when the members contradict each other.
Status check_process(const ArrivalProcess& process);

struct SchedulePhase {
  std::string name;
  std::int64_t begin_ns = 0, end_ns = 0;  // from the begin of the load
};

// The rate over one phase and its integral. Steps, ramps and squares count time from the begin of
// the phase, so that phases are alike; bursts from the begin of the load, so that they stay aligned
// with what else goes on in the run.
class RateFunction {
 public:
  // Of a process that passes check_process() and is no trace.
  static RateFunction of(const ArrivalProcess& process, const SchedulePhase& phase);

  double length_s() const { return length_s_; }
  double expected() const;  // requests of the phase
  // Requests expected in the first `at_s` seconds; what lies before the phase counts as its begin,
  // beyond its end the last rate goes on.
  double count_until(double at_s) const;
  // When the expected count is reached; beyond the end of the phase for what is not. `cursor`
  // begins at 0 and is kept between calls with ascending counts.
  double time_of(double count, std::size_t& cursor) const;

 private:
  struct Piece {
    double begin_s = 0, end_s = 0;
    double rate = 0;   // at its begin
    double slope = 0;  // linear: of the rate; exponential: of its logarithm
    bool exponential = false;
    double before = 0, count = 0;  // expected count at its begin, and its own
    double count_in(double seconds) const;
    double seconds_to(double wanted) const;
  };
  void add(double begin_s, double end_s, double rate, double slope = 0, bool exponential = false);
  void add_ramp(const ArrivalProcess& process);
  void add_bursts(const ArrivalProcess& process, double load_begin_s);

  double length_s_ = 0;
  std::vector<Piece> pieces_;  // touching, from 0 to length_s_
};

}  // namespace mixproof::inference
