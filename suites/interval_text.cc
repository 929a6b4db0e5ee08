#include "suites/interval_text.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "reports/bootstrap.h"
#include "suites/interval.h"
#include "suites/limits.h"
#include "suites/resolve.h"

namespace mixproof {
namespace {

Advice more_blocks(const Figure& figure) {
  const Json* missing = member(figure.evidence, "seconds_missing");
  if (missing == nullptr) return {};
  Advice out{"", Json::object()};
  std::vector<std::string> parts;
  for (const auto& [phase, seconds] : missing->items()) {
    parts.push_back(duration_text(seconds.get<double>()) + " more in " + phase);
    out.numbers[phase + "_s"] = seconds;
  }
  out.text = "needs " + join(parts, ", ") +
             format(" (%d blocks of %.3g s)", kLeastBlocks, number_at(figure.evidence, "block_s"));
  return out;
}

Advice longer_phases(const JudgeInput& input, const Limit& limit, const Figure& figure) {
  const double seconds =
      seconds_to_decide(figure, limit, input.evidence.phases.at(limit.phase).measure_s());
  if (!(seconds > 0)) return {"needs longer phases: they narrow the interval", Json::object()};
  return {"needs about " + duration_text(seconds) + " more in " + limit.phase +
              ", and in proportion in " + limit.reference,
          {{"seconds", seconds}}};
}

// What the company of other checks did to its confidence.
std::string holm_text(const Figure& figure) {
  const Json* holm = member(figure.evidence, "holm");
  if (holm == nullptr) return "";
  return format(", beside %lld other primary checks of the phase",
                static_cast<long long>(integer_at(*holm, "tests")) - 1);
}

}  // namespace

std::string interval_text(const Limit& limit, const Figure& figure) {
  const double margin = number_at(figure.evidence, "margin");
  const std::string out = (figure.infinite ? "infinite" : number_text(*figure.value)) +
                          " (between " + number_text(figure.interval->low) + " and " +
                          number_text(figure.interval->high) +
                          format(", n %lld, %lld blocks)", static_cast<long long>(figure.n),
                                 static_cast<long long>(integer_at(figure.evidence, "blocks"))) +
                          holm_text(figure);
  const Json* noise = member(figure.evidence, "a_a");
  if (noise == nullptr) return out;
  const std::string apart =
      text_at(*noise, "phase") + " against " + limit.reference + ": " +
      (flag_at(*noise, "infinite") ? "infinite" : number_text(number_at(*noise, "ratio")));
  if (flag_at(*noise, "drift")) return out + ", but two equal phases lie apart, " + apart;
  if (margin == limit.at_most.value_or(limit.at_least.value_or(margin))) return out;
  return out + ", margin " + number_text(margin) +
         " because two equal phases lie that far apart, " + apart;
}

Advice interval_advice(const JudgeInput& input, const Limit& limit, const Figure& figure,
                       const std::string& reason) {
  if (reason == "too_few_blocks") return more_blocks(figure);
  if (reason == "interval_straddles_limit") return longer_phases(input, limit, figure);
  if (reason == "drift")
    return {"needs a machine on which two equal phases agree within the bound", Json::object()};
  if (reason == "rise_too_small")
    return {format("needs a rise above %.1f ms to fail",
                   number_at(figure.evidence, "least_rise_s") * 1e3),
            Json::object()};
  return {};
}

}  // namespace mixproof
