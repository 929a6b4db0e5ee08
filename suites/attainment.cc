#include "suites/attainment.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "suites/request_metrics.h"
#include "suites/series.h"

namespace mixproof {
namespace {

struct Counts {
  std::int64_t n = 0, good = 0;
  double share() const { return static_cast<double>(good) / static_cast<double>(n); }
};

Counts counts_of(const JudgeInput& input, const std::string& load, const std::string& phase) {
  const Slo& slo = *input.plan.load(load)->slo;
  Counts out;
  for (const Request* request : measured_requests(input.evidence, load, phase)) {
    ++out.n;
    out.good += is_good(*request, slo) ? 1 : 0;
  }
  return out;
}

// What the report says of the dependence, whatever the limit assumes.
Json dependence_json(const std::optional<double>& block_s, const Dependence& seen) {
  Json out = {{"block_s", block_s ? Json(*block_s) : Json(nullptr)},
              {"blocks", seen.blocks},
              {"variance_inflation", nullptr}};
  if (!block_s)
    out["note"] =
        "requests taken as independent; dependence untested (the baseline's p99 "
        "end-to-end time is not finite)";
  else if (seen.blocks < kLeastBlocks)
    out["note"] = "requests taken as independent; dependence untested (fewer than 20 blocks)";
  else
    out["note"] = "requests taken as independent";
  if (block_s && seen.blocks >= kLeastBlocks) out["variance_inflation"] = seen.variance_inflation;
  return out;
}

void by_requests(const Question& question, const Counts& counts, Figure& figure) {
  figure.interval = Interval{proportion_lower(counts.good, counts.n, question.confidence),
                             proportion_upper(counts.good, counts.n, question.confidence)};
  figure.evidence["bounds"] = "one-sided exact (Clopper-Pearson), each at the confidence";
}

// False when blocks cannot tell.
bool by_blocks(const Question& question, const std::optional<double>& block_s,
               const Dependence& seen, Figure& figure) {
  Json& evidence = figure.evidence;
  evidence["dependence"].erase("note");
  if (!block_s) {
    figure.missing = "baseline_unanswered";
    return false;
  }
  evidence["block_s"] = *block_s;
  if (seen.blocks < kLeastBlocks) {
    figure.missing = "too_few_blocks";
    evidence["seconds_missing"] = {{question.phase, (kLeastBlocks - seen.blocks) * *block_s}};
    return false;
  }
  const EffectiveCounts counts = effective_counts(seen);
  figure.interval = effective_bounds(counts, question.confidence);
  evidence["bounds"] =
      "one-sided exact (Clopper-Pearson) of effective counts: violations rounded "
      "up for the lower bound, down for the upper one";
  evidence["dependence"]["effective_blocks"] = seen.effective_blocks;
  evidence["dependence"]["n_eff"] = counts.n;
  evidence["dependence"]["violations_eff_up"] = counts.violations_up;
  evidence["dependence"]["violations_eff_down"] = counts.violations_down;
  return true;
}

}  // namespace

std::vector<BlockCount> block_counts(const JudgeInput& input, const std::string& load,
                                     const std::string& phase, double block_s) {
  const Slo& slo = *input.plan.load(load)->slo;
  const PhaseWindow& window = input.evidence.phases.at(phase);
  const auto blocks = static_cast<std::size_t>(std::floor(window.measure_s() / block_s + 1e-9));
  std::vector<BlockCount> out(std::max<std::size_t>(blocks, 1));
  const double length_ns = window.measure_s() * 1e9 / static_cast<double>(out.size());
  for (const Request* request : measured_requests(input.evidence, load, phase)) {
    const double at = static_cast<double>(request->sched - window.settled) / length_ns;
    BlockCount& block = out[std::min(static_cast<std::size_t>(at), out.size() - 1)];
    ++block.n;
    block.violations += is_good(*request, slo) ? 0 : 1;
  }
  return out;
}

Figure attainment_figure(const JudgeInput& input, const Question& question) {
  if (!input.plan.load(question.load)->slo)
    return Figure::lacks(
        "no_slo", std::ssize(measured_requests(input.evidence, question.load, question.phase)));
  const Counts counts = counts_of(input, question.load, question.phase);
  if (counts.n == 0) return Figure::lacks("no_samples");
  const std::optional<double> block_s = known_block_length_s(input, question.load);
  const Dependence seen =
      dependence_of(block_counts(input, question.load, question.phase, block_s.value_or(1)));
  Figure figure = Figure::of(counts.share(), counts.n);
  figure.evidence = {{"good", counts.good},
                     {"scheduled", counts.n},
                     {"confidence", question.confidence},
                     {"dependence", dependence_json(block_s, seen)}};
  if (!question.by_blocks)
    by_requests(question, counts, figure);
  else if (!by_blocks(question, block_s, seen, figure))
    figure.value.reset();
  return figure;
}

Figure attainment_change(const JudgeInput& input, const Question& question) {
  if (!input.plan.load(question.load)->slo) return Figure::lacks("no_slo");
  const Counts own = counts_of(input, question.load, question.phase),
               reference = counts_of(input, question.load, question.reference);
  if (own.n == 0) return Figure::lacks("no_samples");
  if (reference.n == 0) return Figure::lacks("no_reference", own.n);
  Figure figure = Figure::of(own.share() - reference.share(), own.n);
  figure.evidence = {
      {"value", own.share()}, {"reference_value", reference.share()}, {"reference_n", reference.n}};
  return figure;
}

}  // namespace mixproof
