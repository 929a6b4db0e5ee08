#include "suites/metrics.h"

#include <cstdlib>

namespace mixproof {
namespace {

using enum MetricKind;

constexpr JudgedMetric kMetrics[] = {
    {"inference.ttft", "s", "lower",
     "first non-empty token minus scheduled time; infinite unless the request is OK", "inference",
     kSamples},
    {"inference.service_ttft", "s", "lower", "first token minus the last byte sent", "inference",
     kSamples},
    {"inference.tpot", "s", "lower",
     "(last token - first token) / (tokens - 1), of answers with two tokens or more", "inference",
     kSamples},
    {"inference.max_gap", "s", "lower", "longest gap between token events of an answer",
     "inference", kSamples},
    {"inference.longest_wait", "s", "lower",
     "the larger of ttft and max_gap; infinite unless the request is OK", "inference", kSamples},
    {"inference.e2e", "s", "lower", "last token minus scheduled time", "inference", kSamples},
    {"inference.client_delay", "s", "lower", "first byte handed to the kernel minus scheduled time",
     "inference", kSamples},
    {"inference.receive_lag", "s", "lower",
     "user minus kernel receive time, the worst of an answer", "inference", kSamples},
    {"inference.ttft_ratio", "1", "lower", "quantile of ttft over the same of the reference phase",
     "inference", kRatio},
    {"inference.tpot_ratio", "1", "lower", "quantile of tpot over the same of the reference phase",
     "inference", kRatio},
    {"inference.max_gap_ratio", "1", "lower",
     "quantile of max_gap over the same of the reference phase", "inference", kRatio},
    {"inference.attainment", "1", "higher",
     "good / scheduled; good: OK and within ttft, tpot and max_gap of the slo", "inference", kShare,
     true},
    {"inference.attainment_change", "1", "higher", "attainment minus that of the reference phase",
     "inference", kDifference, true},
    {"inference.violations", "count", "lower", "scheduled requests that were not good", "inference",
     kNumber, true},
    {"inference.goodput", "1/s", "higher", "good requests a second of the window", "inference",
     kNumber, true},
    {"inference.offered_rate", "1/s", "none", "scheduled requests a second of the window",
     "inference", kNumber},
    {"inference.token_rate", "1/s", "higher",
     "tokens whose time lies in the window, a second; those between first and last are taken as evenly spread",
     "inference", kNumber},
    {"inference.stall_time", "s", "lower",
     "sum over answers of max_gap beyond S = max(250 ms, 8 x median tpot of the baseline): only the longest gap of each "
     "answer is recorded, so this is a lower bound",
     "inference", kNumber},
    {"inference.lost_time", "s", "lower",
     "sum over requests of ttft beyond the slo, capped at the deadline", "inference", kNumber,
     true},
    {"inference.outcomes", "count", "none", "scheduled requests by outcome class", "inference",
     kReported},
    {"inference.time_to_impact", "s", "none",
     "from the injection to the first violation whose window holds more violations than any of the baseline",
     "inference", kInterval, true},
    {"inference.time_to_recover", "s", "lower",
     "from the revert (of a fault that is over at once: from the fault) to the first of clean_requests "
     "consecutive good requests",
     "inference", kInterval, true},
    {"inference.time_to_normal_latency", "s", "lower",
     "from the revert (or the fault, as time_to_recover) to the first of clean_requests consecutive requests that "
     "begin with a ttft, and have a median, of at most margin x the median of the reference phase, by default the baseline",
     "inference", kInterval},
    {"inference.time_to_drain", "s", "lower",
     "from the revert (or the fault) until no more requests are open than 95 % of those of the baseline found",
     "inference", kInterval},
    {"inference.arrival_ks", "1", "none",
     "Kolmogorov-Smirnov distance of the gaps between sendings, the rate taken out, from the declared "
     "distribution; with several workers that of the least p",
     "inference", kReported},
    {"inference.arrival_dispersion", "1", "none",
     "variance over mean of the counts of sendings, gaps turned into exponential ones: 1 as declared, "
     "above it lumps, below it too regular",
     "inference", kReported},
    {"inference.arrival_moved", "1", "none",
     "share of the gaps between sendings that differ from those between due times by more than 1 ms "
     "and a tenth of the mean gap",
     "inference", kReported},
    {"training.step_time", "s", "lower", "slowest rank of each step", "training", kSamples},
    {"training.compute_time", "s", "lower", "slowest rank of each step", "training", kSamples},
    {"training.comm_time", "s", "lower", "longest of the ranks, waiting included", "training",
     kSamples},
    {"training.checkpoint_time", "s", "lower",
     "for how long training stood still for a checkpoint, slowest rank of each", "training",
     kSamples},
    {"training.checkpoint_bandwidth", "B/s", "higher",
     "bytes of a rank over the time until they were on the storage, slowest rank of each checkpoint",
     "training", kSamples},
    {"training.checkpoint_failures", "count", "lower", "checkpoints that could not be saved",
     "training", kNumber},
    {"training.steps_lost", "count", "lower",
     "finished steps that were to be done again after the loss of a rank", "training", kNumber},
    {"training.resume_time", "s", "lower",
     "from the loss of a rank to the end of the first step after it, of all ranks; the worst of the phase",
     "training", kNumber},
    {"training.detect_time", "s", "lower",
     "from the end of a rank to the first failure of another one or the controller's notice; the worst of the phase",
     "training", kNumber},
    {"training.goodput", "1", "higher",
     "steps in the window, each the first time it was done, x median step of the first phase that runs it / window",
     "training", kNumber},
    {"training.retained", "1", "higher", "step rate over that of the reference phase", "training",
     kRatio},
    {"signal.value", "1", "none",
     "the series' value at each sample of the window; of a counter its increase since the sample before, or that a "
     "second, as the signal says",
     kSignalMetrics, kSamples},
    {"signal.increase", "1", "none",
     "by how much a counter grew in the window: between what its samples within show, and those that overlap it",
     kSignalMetrics, kInterval},
    {"fault.effect_delay", "s", "lower",
     "from when the fault was due to the acknowledged injection", "", kFault},
    {"fault.revert_delay", "s", "lower",
     "from when the revert was due to the proof of clean; not of faults that are over at once", "",
     kFault},
};

}  // namespace

std::span<const JudgedMetric> judged_metrics() { return kMetrics; }

const JudgedMetric* judged_metric(std::string_view id) {
  for (const JudgedMetric& metric : kMetrics)
    if (metric.id == id) return &metric;
  return nullptr;
}

std::vector<std::string> limitable_metrics() {
  std::vector<std::string> out;
  for (const JudgedMetric& metric : kMetrics)
    if (metric.kind != kReported) out.emplace_back(metric.id);
  return out;
}

bool needs_quantile(const JudgedMetric& metric) {
  return metric.kind == kSamples || (metric.kind == kRatio && metric.probe == "inference");
}

bool needs_reference(const JudgedMetric& metric) {
  return metric.kind == kRatio || metric.kind == kDifference;
}

bool counts_from_fault(const JudgedMetric& metric) {
  return metric.id.starts_with("inference.time_to_");
}

double quantile_of(std::string_view name) {
  if (name == "max") return 1;
  return std::atof(std::string(name.substr(1)).c_str()) / 100;
}

}  // namespace mixproof
