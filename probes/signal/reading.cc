#include "probes/signal/reading.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mixproof::signal {
namespace {

constexpr const char* kNoSeries = "no series matches";
constexpr const char* kNotFinite = "a series has no finite value";

}  // namespace

Reading combined(const std::vector<double>& values, const std::string& how) {
  if (values.empty()) return Reading::nothing(kNoSeries);
  if (!std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); }))
    return Reading::nothing(kNotFinite);
  Reading out;
  out.value = values.front();
  for (std::size_t i = 1; i < values.size(); ++i)
    *out.value = how == "max"   ? std::max(*out.value, values[i])
                 : how == "min" ? std::min(*out.value, values[i])
                                : *out.value + values[i];
  if (!std::isfinite(*out.value)) return Reading::nothing(kNotFinite);
  return out;
}

Reading Counters::increase(const std::vector<Sample>& samples, std::int64_t at) {
  std::map<Labels, double> now;
  for (const Sample& sample : samples) {
    if (!std::isfinite(sample.value)) return Reading::nothing(kNotFinite);
    now[sample.labels] = sample.value;
  }
  if (now.empty()) {
    if (!before_ || before_->empty()) before_.emplace(), at_ = at;
    return Reading::nothing(kNoSeries);
  }
  const auto before = std::exchange(before_, std::move(now));
  const std::int64_t since = std::exchange(at_, at);
  if (!before) return Reading::nothing("no reading before this one");
  Reading out;
  out.value = 0;
  out.since = since;
  for (const auto& [labels, value] : *before_) {
    const auto old = before->find(labels);
    const double from = old == before->end() ? 0 : old->second;
    if (value < from) ++out.resets;
    *out.value += value < from ? value : value - from;
  }
  for (const auto& [labels, value] : *before) out.resets += before_->count(labels) == 0 ? 1 : 0;
  return out;
}

}  // namespace mixproof::signal
