// Series: what the report page draws beside the report: every request and every second of training,
// on the report's timeline (seconds from the begin of the first phase). Derived from a recording by
// suites/timeline_series.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mixproof {

struct RequestPoint {
  double at_s = 0;              // scheduled
  double ttft_s = 0;            // +infinity: no complete answer
  bool good = false;            // within the load's SLO; without one: answered
  std::int64_t stands_for = 1;  // requests so close together that one mark shows them all
};

struct RequestSeries {
  std::string load;
  bool has_slo = false;
  std::optional<double> ttft_bound_s;
  std::int64_t requests = 0, bad = 0, unanswered = 0;  // bad holds those without an answer too
  std::vector<RequestPoint> points;
};

struct RateSeries {
  std::string load;
  struct Bin {
    double begin_s = 0, end_s = 0, steps_per_s = 0;
  };
  std::vector<Bin> bins;  // a hole where the load was not to run; zero where it was and did not
};

struct CheckpointMark {
  std::string load;
  double at_s = 0;
  std::int64_t step = 0;
  bool complete = true;
};

struct SignalSeries {
  std::string signal;
  struct Point {
    double at_s = 0;
    std::optional<double> value;  // nothing: no data
  };
  std::vector<Point> points;
};

struct TimelineSeries {
  std::vector<RequestSeries> requests;
  std::vector<RateSeries> training;
  std::vector<CheckpointMark> checkpoints;
  std::vector<SignalSeries> signals;
};

// At most `most` points that look like all of them: of points with the same outcome that would lie
// on one another, the first stands for all, so a violation never disappears behind good requests.
std::vector<RequestPoint> thinned(const std::vector<RequestPoint>& points, std::size_t most);

}  // namespace mixproof
