#include "suites/signals.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"

namespace mixproof {
namespace {

constexpr double kLeastShare = 0.8;

double part_value(const SignalPlan& plan, const SignalPart& part) {
  if (plan.as != "rate") return *part.value;
  return *part.value / (static_cast<double>(part.at - part.since) * 1e-9);
}

double combined(const std::string& how, double sum, double value) {
  if (how == "max") return std::max(sum, value);
  if (how == "min") return std::min(sum, value);
  return sum + value;
}

const std::vector<SignalSample>& samples_of(const Evidence& evidence, const std::string& signal) {
  static const std::vector<SignalSample> kNone;
  const auto found = evidence.signals.find(signal);
  return found == evidence.signals.end() ? kNone : found->second;
}

}  // namespace

std::optional<SignalPart> signal_part(const Json& row, const ClockMap& clocks) {
  const std::string node = text_at(row, "node");
  const std::int64_t at = integer_at(row, "at"), since = integer_at(row, "since");
  const auto mapped = clocks.to_controller(node, at);
  if (!mapped) return std::nullopt;
  SignalPart part{.at = mapped->at, .value = std::nullopt, .no_data = text_at(row, "no_data")};
  if (since > 0) part.since = part.at - (at - since);
  part.resets = integer_at(row, "resets");
  const Json* value = member(row, "value");
  const bool number = value != nullptr && value->is_number();
  if (part.no_data.empty() && !number) part.no_data = "a row without value";
  if (part.no_data.empty() && since > 0 && since >= at)
    part.no_data = "a row whose times are wrong";
  if (part.no_data.empty()) part.value = value->get<double>();
  return part;
}

SignalSample combine_parts(const SignalPlan& plan, std::int64_t tick,
                           const std::map<std::string, SignalPart>& parts) {
  SignalSample out{.tick = tick};
  for (const auto& [instance, part] : parts) {
    out.at = std::max(out.at, part.at);
    if (part.since > 0) out.since = out.since == 0 ? part.since : std::min(out.since, part.since);
    out.resets += part.resets;
  }
  double value = 0;
  bool first = true;
  for (const std::string& instance : plan.instances) {
    const auto part = parts.find(instance);
    if (part == parts.end())
      out.no_data = instance + ": no sample";
    else if (!part->second.value)
      out.no_data = instance + ": " + part->second.no_data;
    else if (plan.is_counter() && part->second.since == 0)
      out.no_data = instance + ": no sample before it";
    if (!out.no_data.empty()) return out;
    const double own = part_value(plan, part->second);
    value = first ? own : combined(plan.combine, value, own);
    first = false;
    out.increase += plan.is_counter() ? *part->second.value : 0;
  }
  out.value = value;
  return out;
}

void add_signal_row(const Json& row, const ClockMap& clocks, SignalParts& parts) {
  if (std::optional<SignalPart> part = signal_part(row, clocks))
    parts[text_at(row, "signal")][integer_at(row, "tick")][text_at(row, "instance")] =
        std::move(*part);
}

std::map<std::string, std::vector<SignalSample>> signal_samples(const Plan& plan,
                                                                const SignalParts& parts) {
  std::map<std::string, std::vector<SignalSample>> out;
  for (const SignalPlan& signal : plan.signals) {
    const auto found = parts.find(signal.name);
    if (found == parts.end()) continue;
    for (const auto& [tick, instances] : found->second)
      out[signal.name].push_back(combine_parts(signal, tick, instances));
  }
  return out;
}

std::int64_t expected_samples(const SignalPlan& plan, double seconds) {
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::floor(seconds / plan.every_s + 1e-6)));
}

bool enough_samples(std::int64_t with_data, std::int64_t expected) {
  return static_cast<double>(with_data) >= kLeastShare * static_cast<double>(expected);
}

std::vector<double> signal_values(const JudgeInput& input, const std::string& signal,
                                  const std::string& phase) {
  std::vector<double> out;
  const PhaseWindow& window = input.evidence.phases.at(phase);
  for (const SignalSample& sample : samples_of(input.evidence, signal))
    if (sample.value && window.measures(sample.at)) out.push_back(*sample.value);
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<Figure> signal_gaps(const JudgeInput& input, const std::string& signal,
                                  const std::string& phase) {
  const PhaseWindow& window = input.evidence.phases.at(phase);
  const std::int64_t expected = expected_samples(*input.plan.signal(signal), window.measure_s());
  std::int64_t with_data = 0;
  std::string why;
  for (const SignalSample& sample : samples_of(input.evidence, signal)) {
    if (!window.measures(sample.at)) continue;
    with_data += sample.value ? 1 : 0;
    if (!sample.value) why = sample.no_data;
  }
  if (with_data > 0 && enough_samples(with_data, expected)) return std::nullopt;
  Figure figure = Figure::lacks(with_data == 0 ? "no_samples" : "signal_gaps", with_data);
  figure.evidence = {{"samples_expected", expected}, {"samples", with_data}};
  if (!why.empty()) figure.evidence["no_data"] = why;
  return figure;
}

Figure signal_increase(const JudgeInput& input, const std::string& signal,
                       const std::string& phase) {
  if (std::optional<Figure> gaps = signal_gaps(input, signal, phase)) return *gaps;
  const PhaseWindow& window = input.evidence.phases.at(phase);
  double within = 0, taken = 0, overlapping = 0;
  std::int64_t n = 0, resets = 0, covered = 0;
  bool holes = false;
  // A value reaches back to the last sample that had one, so one without data loses nothing, as
  // long as another follows.
  for (const SignalSample& sample : samples_of(input.evidence, signal)) {
    if (!sample.value || sample.at <= window.settled || sample.since >= window.end) continue;
    if (sample.since > std::max(covered, window.settled)) holes = true;
    covered = std::max(covered, sample.at);
    overlapping += sample.increase;
    resets += sample.resets;
    if (sample.since >= window.settled && sample.at <= window.end) within += sample.increase;
    if (window.measures(sample.at)) taken += sample.increase, ++n;
  }
  if (covered < window.end) holes = true;
  Figure figure = Figure::of(taken, n);
  figure.censored = resets > 0 || holes;
  figure.interval = Interval{within, overlapping};
  figure.evidence = {{"within", within}, {"overlapping", overlapping}, {"resets", resets}};
  if (holes) figure.evidence["not_covered"] = true;
  return figure;
}

std::string signal_trouble(const JudgeInput& input, const std::string& signal) {
  const SignalPlan* plan = input.plan.signal(signal);
  if (plan == nullptr) return "";
  for (const LoadPlan& collector : input.plan.collectors)
    if (collector.on == plan->on) return input.evidence.clocks.trouble(collector.nodes.front());
  return "";
}

}  // namespace mixproof
