#include "suites/holm.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "suites/interval.h"

namespace mixproof {
namespace {

const Interval* at_divisor(const Figure& figure, int divisor) {
  const auto index = static_cast<std::size_t>(divisor - 1);
  return index < figure.by_divisor.size() ? &figure.by_divisor[index] : nullptr;
}

std::vector<int> divisors_of(const std::vector<PrimaryFigure>& primaries,
                             bool (*decides)(const Interval&, const Figure&, const Limit&)) {
  return holm_divisors(static_cast<int>(primaries.size()), [&](int test, int divisor) {
    const PrimaryFigure& one = primaries[static_cast<std::size_t>(test)];
    const Interval* interval = at_divisor(*one.figure, divisor);
    return interval != nullptr && decides(*interval, *one.figure, *one.limit);
  });
}

}  // namespace

bool is_primary(const Limit& limit) {
  return limit.method == "interval" && limit.required && limit.skip.empty();
}

int primary_limits(const Plan& plan, const std::string& phase) {
  return static_cast<int>(
      std::count_if(plan.limits.begin(), plan.limits.end(),
                    [&](const Limit& limit) { return limit.phase == phase && is_primary(limit); }));
}

std::vector<int> holm_divisors(int tests, const std::function<bool(int, int)>& rejects) {
  std::vector<int> out(static_cast<std::size_t>(tests), tests);
  std::vector<bool> rejected(static_cast<std::size_t>(tests), false);
  for (int divisor = tests; divisor > 0;) {
    int more = 0;
    for (int test = 0; test < tests; ++test) {
      const auto at = static_cast<std::size_t>(test);
      if (rejected[at]) continue;
      out[at] = divisor;
      if (!rejects(test, divisor)) continue;
      rejected[at] = true;
      ++more;
    }
    if (more == 0) break;
    divisor -= more;
  }
  return out;
}

void share_confidence(std::vector<PrimaryFigure>& primaries) {
  if (primaries.size() < 2) return;
  const std::vector<int> passing = divisors_of(primaries, within_margin),
                         failing = divisors_of(primaries, beyond_margin);
  for (std::size_t i = 0; i < primaries.size(); ++i) {
    Figure& figure = *primaries[i].figure;
    const Limit& limit = *primaries[i].limit;
    const Interval* passes = at_divisor(figure, passing[i]);
    const Interval* fails = at_divisor(figure, failing[i]);
    if (passes == nullptr || fails == nullptr) continue;
    const bool upper = limit.at_most.has_value();  // the upper end decides a pass
    figure.interval =
        Interval{upper ? fails->low : passes->low, upper ? passes->high : fails->high};
    const double error = 1 - limit.confidence;
    figure.evidence["holm"] = {{"tests", primaries.size()},
                               {"pass_confidence", 1 - error / passing[i]},
                               {"fail_confidence", 1 - error / failing[i]}};
  }
}

}  // namespace mixproof
