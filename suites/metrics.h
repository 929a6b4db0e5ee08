// The metrics that the judge derives, and what a limit on each must say. Ids, units and directions
// are stable.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mixproof {

enum class MetricKind {
  kSamples,     // one value a request or step: a limit names a quantile
  kNumber,      // one value a phase
  kShare,       // good of scheduled: the only one that method binomial judges
  kRatio,       // of the phase to its `reference` phase; those of samples name a quantile
  kDifference,  // of the phase minus its `reference` phase
  kInterval,    // known to lie between two times
  kFault,       // one value a fault; a limit bounds the worst of the phase
  kReported,    // in the report; takes no limit
};

// Stands for the load where a metric is taken from a signal.
inline constexpr std::string_view kSignalMetrics = "signal";

struct JudgedMetric {
  std::string_view id, unit, better, help;  // better: lower, higher, none
  std::string_view probe;                   // the load that it is taken from; empty for faults
  MetricKind kind;
  bool needs_slo = false;
};

std::span<const JudgedMetric> judged_metrics();
const JudgedMetric* judged_metric(
    std::string_view id);                      // null when the judge derives no such thing
std::vector<std::string> limitable_metrics();  // ids that a limit may name

bool needs_quantile(const JudgedMetric& metric);  // longest_wait has one by default: max
bool needs_reference(const JudgedMetric& metric);
bool counts_from_fault(const JudgedMetric& metric);  // a time from a fault, or from its revert

// 0.5 of "p50", 0.999 of "p99.9", 1 of "max".
double quantile_of(std::string_view name);

}  // namespace mixproof
