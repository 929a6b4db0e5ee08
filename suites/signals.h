// Signals: what the rows of a recording say about the series that the run read from elsewhere, and
// the figures taken from them.
//
// A sample counts only when every instance gave its value: what a sum, a maximum or a minimum would
// have been without one of them is not known. No data is a state of its own, never zero.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "suites/figure.h"

namespace mixproof {

// What one instance gave at one sample.
struct SignalPart {
  std::int64_t at = 0, since = 0;  // controller clock; since: of counters, the sample before
  std::optional<double> value;     // of counters: by how much they grew since then
  std::int64_t resets = 0;  // counters that were smaller than before, and were counted from zero
  std::string no_data;      // why there is no value
};

// Of a row of kind signal. Nothing when the clock of its node was never measured. A row that says
// neither value nor reason is a part without data.
std::optional<SignalPart> signal_part(const Json& row, const ClockMap& clocks);

// The sample that these parts, by instance, make; an instance that is missing is one without data.
SignalSample combine_parts(const SignalPlan& plan, std::int64_t tick,
                           const std::map<std::string, SignalPart>& parts);

// By signal and tick: parts by instance.
using SignalParts =
    std::map<std::string, std::map<std::int64_t, std::map<std::string, SignalPart>>>;
void add_signal_row(const Json& row, const ClockMap& clocks, SignalParts& parts);
std::map<std::string, std::vector<SignalSample>> signal_samples(const Plan& plan,
                                                                const SignalParts& parts);

// How many samples a stretch of that length should hold, and whether so many with data are enough:
// four of five.
std::int64_t expected_samples(const SignalPlan& plan, double seconds);
bool enough_samples(std::int64_t with_data, std::int64_t expected);

// Values of the samples with data in the phase's measured window, ascending.
std::vector<double> signal_values(const JudgeInput& input, const std::string& signal,
                                  const std::string& phase);

// A figure that lacks: no_samples without any data in the window, signal_gaps with too little of
// it. Nothing when there is enough.
std::optional<Figure> signal_gaps(const JudgeInput& input, const std::string& signal,
                                  const std::string& phase);

// signal.increase: at least what the samples wholly within the window show, at most what those that
// overlap it show. After a reset of a counter only the former is known: censored.
Figure signal_increase(const JudgeInput& input, const std::string& signal,
                       const std::string& phase);

// Why the times of its samples cannot be trusted: the clock of the node that collects it.
std::string signal_trouble(const JudgeInput& input, const std::string& signal);

}  // namespace mixproof
