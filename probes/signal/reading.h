// A reading: what one instance's page or query says of a signal, or why it says nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "probes/signal/prometheus_text.h"

namespace mixproof::signal {

struct Reading {
  std::optional<double> value;
  std::string no_data;                 // the reason, when there is none
  std::int64_t since = 0, resets = 0;  // of counters; times as the caller's

  static Reading nothing(std::string reason) {
    Reading out;
    out.no_data = std::move(reason);
    return out;
  }
};

// Sum, maximum or minimum ("sum", "max", "min"). No series, NaN and infinities are no data.
Reading combined(const std::vector<double>& values, const std::string& how);

// Remembers the counters of one instance from reading to reading.
//
// The increase of a series is its value minus the one before. A value below the one before means
// that the counter began anew: it counts as an increase from zero, as in PromQL's increase(), and
// as a reset; what it had grown before that is lost, and a counter that has overtaken its old value
// since is not noticed. A series that was not there at the reading before began at zero: counters
// with labels appear with their first event. One that has gone is a reset without increase.
class Counters {
 public:
  // The increase since the last reading that had data; no data at the first one, and when no series
  // matches.
  Reading increase(const std::vector<Sample>& samples, std::int64_t at);

 private:
  std::optional<std::map<Labels, double>> before_;
  std::int64_t at_ = 0;
};

}  // namespace mixproof::signal
