#include "suites/compare.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "suites/request_metrics.h"
#include "suites/series.h"
#include "suites/training_metrics.h"
#include "suites/validity.h"

namespace mixproof {
namespace {

constexpr double kConfidence = 0.95;

constexpr ComparisonFigure kFigures[] = {
    {"ttft_p50", "first token, median", "inference.ttft", "p50", "s", "lower"},
    {"ttft_p99", "first token, p99", "inference.ttft", "p99", "s", "lower"},
    {"max_gap_p50", "longest gap, median", "inference.max_gap", "p50", "s", "lower"},
    {"attainment", "answers within SLO", "inference.attainment", "", "1", "higher"},
    {"training_retained", "training steps", "training.retained", "", "1/s", "higher"},
};

bool runs(const PhasePlan& phase, const std::string& load) {
  return std::find(phase.run.begin(), phase.run.end(), load) != phase.run.end();
}

std::string first_load(const Plan& plan, const std::string& probe) {
  for (const LoadPlan& load : plan.loads)
    if (load.probe == probe) return load.name;
  return "";
}

std::string first_phase(const Plan& plan, const std::string& with, const std::string& other,
                        bool both) {
  for (const PhasePlan& phase : plan.phases)
    if (phase.faults.empty() && runs(phase, with) && runs(phase, other) == both) return phase.name;
  return "";
}

// The rounds of one placement.
struct Pool {
  std::string placement;
  std::vector<JudgeInput> rounds;
  ComparedPhases phases;
  double block_s = 0;

  template <typename SeriesOf>
  std::vector<Segment> segments(SeriesOf series_of) const {
    std::vector<Segment> out;
    for (const JudgeInput& round : rounds) out.push_back(series_of(round));
    return out;
  }
};

double total_length_s(std::span<const Segment> segments) {
  double out = 0;
  for (const Segment& segment : segments) out += segment.length_s;
  return out;
}

std::vector<double> sorted_values(std::span<const Segment> segments) {
  std::vector<double> out;
  for (const Segment& segment : segments)
    for (const TimedSample& sample : segment.samples) out.push_back(sample.value);
  std::sort(out.begin(), out.end());
  return out;
}

// One figure of one pool: what it is, and its resampled values.
struct Side {
  std::int64_t n = 0;
  std::optional<double> value;  // may be infinite
  std::vector<double> draws;
  std::string missing;
};

// Whether an interval can be had; else the value stands alone.
bool has_blocks(std::span<const Segment> segments, double block_s, Side& side) {
  if (whole_blocks(segments, block_s) >= kLeastBlocks) return true;
  side.missing = "too_few_blocks";
  return false;
}

Side quantile_side(std::span<const Segment> segments, double block_s, double p,
                   const Random& random) {
  const std::vector<double> values = sorted_values(segments);
  Side out{.n = std::ssize(values)};
  if (!quantile_interval(values, p)) {
    out.missing = values.empty() ? "no_samples" : "n_too_small";
    return out;
  }
  out.value = nearest_rank(values, p);
  if (has_blocks(segments, block_s, out))
    out.draws = resampled_quantiles(segments, block_s, p, kBootstrapDraws, random);
  return out;
}

Side mean_side(std::span<const Segment> segments, double block_s, const Random& random) {
  const std::vector<double> values = sorted_values(segments);
  Side out{.n = std::ssize(values)};
  if (values.empty()) {
    out.missing = "no_samples";
    return out;
  }
  double sum = 0;
  for (const double value : values) sum += value;
  out.value = sum / static_cast<double>(values.size());
  if (has_blocks(segments, block_s, out))
    out.draws = resampled_means(segments, block_s, kBootstrapDraws, random);
  return out;
}

// The rate of all rounds together: that of each, by its length.
Side rate_side(const Pool& pool, std::span<const Segment> segments, const std::string& phase,
               const Random& random) {
  Side out;
  double steps = 0;
  for (const JudgeInput& round : pool.rounds)
    steps += measured_steps(round, pool.phases.trainer, phase).steps;
  for (const Segment& segment : segments) out.n += std::ssize(segment.samples);
  if (!(steps > 0)) {
    out.missing = "no_samples";
    return out;
  }
  out.value = steps / total_length_s(segments);
  if (has_blocks(segments, pool.block_s, out))
    out.draws = resampled_rates(segments, pool.block_s, kBootstrapDraws, random);
  return out;
}

Side side_of(const Pool& pool, const ComparisonFigure& figure, bool together, std::uint64_t seed) {
  const bool trains = starts_with(figure.metric, "training.");
  const std::string& alone = trains ? pool.phases.trainer_alone : pool.phases.users_alone;
  const std::string& phase = together ? pool.phases.together : alone;
  const Random random(seed,
                      "compare " + pool.placement + " " + std::string(figure.id) + " " + phase);
  const std::vector<Segment> segments = pool.segments([&](const JudgeInput& round) {
    if (trains) return step_series(round, pool.phases.trainer, phase);
    if (figure.id == "attainment") return good_series(round, pool.phases.users, phase);
    return request_series(round, pool.phases.users, phase, figure.metric);
  });
  if (pool.rounds.empty()) return {.missing = "no_samples"};
  if (trains) return rate_side(pool, segments, phase, random);
  if (figure.id == "attainment") return mean_side(segments, pool.block_s, random);
  return quantile_side(segments, pool.block_s, quantile_of(figure.quantile), random);
}

Json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

Json figure_row(const Pool& pool, const ComparisonFigure& figure, std::uint64_t seed) {
  const Side alone = side_of(pool, figure, false, seed),
             together = side_of(pool, figure, true, seed);
  Json out = {{"id", figure.id},
              {"metric", figure.metric},
              {"unit", figure.unit},
              {"better", figure.better},
              {"alone", number_or_null(alone.value)},
              {"together", number_or_null(together.value)},
              {"n_alone", alone.n},
              {"n_together", together.n},
              {"ratio", nullptr},
              {"interval", nullptr}};
  if (!figure.quantile.empty()) out["quantile"] = figure.quantile;
  for (const auto& [key, side] :
       {std::pair{"alone_infinite", &alone}, {"together_infinite", &together}})
    if (side->value && std::isinf(*side->value)) out[key] = true;
  std::string missing = alone.missing.empty() ? together.missing : alone.missing;
  if (missing.empty() && !(std::isfinite(*alone.value) && *alone.value > 0))
    missing = "no_reference";
  if (!missing.empty()) {
    out["missing_reason"] = missing;
    return out;
  }
  const Interval interval = ratio_interval(together.draws, alone.draws, kConfidence);
  out["ratio"] = number_or_null(*together.value / *alone.value);
  out["interval"] = {{"low", number_or_null(interval.low)},
                     {"high", number_or_null(interval.high)}};
  return out;
}

// Why a run was not measured, or its figures may be the measurer's own doing.
Json problems_of(const ComparedRun& run) {
  Json out = Json::array();
  if (run.plan == nullptr || run.evidence == nullptr) {
    out.push_back("left no recording that can be read");
    return out;
  }
  const JudgeInput input{*run.plan, *run.evidence};
  for (const PhasePlan& phase : run.plan->phases) {
    const std::vector<Problem> problems = phase_problems(input, phase.name);
    for (const Problem& problem : problems) out.push_back(phase.name + ": " + problem.detail);
    if (!problems.empty()) continue;
    const PhaseWindow& window = run.evidence->phases.at(phase.name);
    for (const std::string& load : phase.run)
      if (const std::string trouble = measurement_trouble(input, load, window.settled, window.end);
          !trouble.empty())
        out.push_back(phase.name + ": " + trouble);
  }
  return out;
}

// A run counts when each of its phases was measured, however badly.
bool is_usable(const ComparedRun& run) {
  if (run.plan == nullptr || run.evidence == nullptr) return false;
  const JudgeInput input{*run.plan, *run.evidence};
  return std::all_of(run.plan->phases.begin(), run.plan->phases.end(), [&](const PhasePlan& phase) {
    return phase_problems(input, phase.name).empty();
  });
}

std::vector<Pool> pools_of(std::span<const ComparedRun> all) {
  std::vector<Pool> out;
  for (const ComparedRun& run : all) {
    auto pool = std::find_if(out.begin(), out.end(),
                             [&](const Pool& p) { return p.placement == run.placement; });
    if (pool == out.end()) {
      out.push_back(Pool{.placement = run.placement});
      pool = out.end() - 1;
    }
    if (!is_usable(run)) continue;
    const Result<ComparedPhases> phases = compared_phases(*run.plan);
    if (!phases.ok()) continue;
    pool->phases = *phases;
    const JudgeInput& input = pool->rounds.emplace_back(JudgeInput{*run.plan, *run.evidence});
    // The longer of both loads and of all rounds: no block may be shorter than what depends on each
    // other.
    pool->block_s = std::max({pool->block_s, block_length_s(input, phases->users),
                              block_length_s(input, phases->trainer)});
  }
  for (Pool& pool : out) pool.block_s = std::max(pool.block_s, 1.0);
  return out;
}

int fewest_blocks(const Pool& pool) {
  int fewest = -1;
  for (const std::string& phase :
       {pool.phases.users_alone, pool.phases.trainer_alone, pool.phases.together}) {
    const std::vector<Segment> segments = pool.segments([&](const JudgeInput& round) {
      return Segment{round.evidence.phases.at(phase).measure_s(), {}};
    });
    const int blocks = whole_blocks(segments, pool.block_s);
    fewest = fewest < 0 ? blocks : std::min(fewest, blocks);
  }
  return fewest;
}

Json placement_json(const Pool& pool, std::uint64_t seed) {
  Json figures = Json::array();
  for (const ComparisonFigure& figure : kFigures) figures.push_back(figure_row(pool, figure, seed));
  return {{"placement", pool.placement},
          {"rounds", pool.rounds.size()},
          {"block_s", pool.block_s},
          {"blocks", fewest_blocks(pool)},
          {"figures", figures}};
}

// Which of two intervals lies wholly below the other: -1 the first, 1 the second, 0 neither.
int side_below(const Json& a, const Json& b) {
  if (!a["interval"].is_object() || !b["interval"].is_object()) return 0;
  const auto below = [](const Json& low, const Json& high) {  // a missing upper end is infinity
    return low["high"].is_number() &&
           (!high["low"].is_number() || low["high"].get<double>() < high["low"].get<double>());
  };
  return below(a["interval"], b["interval"]) ? -1 : below(b["interval"], a["interval"]) ? 1 : 0;
}

Json apart_json(const Json& placements) {
  Json out = Json::array();
  for (std::size_t a = 0; a < placements.size(); ++a)
    for (std::size_t b = a + 1; b < placements.size(); ++b)
      for (std::size_t f = 0; f < std::size(kFigures); ++f) {
        const int below = side_below(placements[a]["figures"][f], placements[b]["figures"][f]);
        Json row = {{"figure", kFigures[f].id},
                    {"placements", {placements[a]["placement"], placements[b]["placement"]}},
                    {"apart", below != 0}};
        if (below != 0) row["lower"] = placements[below < 0 ? a : b]["placement"];
        out.push_back(std::move(row));
      }
  return out;
}

std::string_view status_of(std::span<const ComparedRun> all, const Json& document) {
  bool sure = true;
  for (const ComparedRun& run : all) {
    if (!is_usable(run)) return "error";
    sure = sure && run.exit_code != 2;
  }
  for (const Json& run : document["runs"]) sure = sure && run["problems"].empty();
  for (const Json& placement : document["placements"])
    for (const Json& figure : placement["figures"])
      sure = sure && !figure.contains("missing_reason");
  return sure && !all.empty() ? "measured" : "inconclusive";
}

const Json* figure_of(const Json& placement, std::string_view id) {
  for (const Json& figure : placement["figures"])
    if (text_at(figure, "id") == id) return &figure;
  return nullptr;
}

// How long the median first token takes.
std::string token_text(const Json& figure) {
  const Json& interval = figure["interval"];
  if (!interval.is_object())
    return "how much longer the first token takes cannot be told (" +
           text_at(figure, "missing_reason", "unknown") + ")";
  const double low = number_at(interval, "low", HUGE_VAL),
               high = number_at(interval, "high", HUGE_VAL);
  const std::string between = format("between %.3g and %.3g", low, high);
  const std::string median = "the median first token takes ";
  if (low <= 1 && high >= 1)
    return median + "as long as without training, as far as can be told (" + between + " times)";
  return median +
         format("%.3g times as long as without training (", number_at(figure, "ratio", HUGE_VAL)) +
         between + ")";
}

std::string keeps_text(const Json& figure) {
  const Json* ratio = member(figure, "ratio");
  if (ratio == nullptr || !ratio->is_number())
    return "what training keeps of its rate cannot be told";
  return format("training keeps %.0f %% of its rate", ratio->get<double>() * 100);
}

std::string meaning_of(const Json& placements) {
  std::vector<std::string> parts;
  for (const Json& placement : placements) {
    const std::string name = text_at(placement, "placement");
    const std::string where = name == "none"       ? "sharing all cores"
                              : name == "physical" ? "on cores of its own"
                                                   : "under " + name;
    parts.push_back(where + ", " + token_text(*figure_of(placement, "ttft_p50")) + ", and " +
                    keeps_text(*figure_of(placement, "training_retained")));
  }
  std::string out = join(parts, "; ");
  if (!out.empty()) out[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(out[0])));
  return out + ".";
}

}  // namespace

std::span<const ComparisonFigure> comparison_figures() { return kFigures; }

Result<ComparedPhases> compared_phases(const Plan& plan) {
  ComparedPhases out{.users = first_load(plan, "inference"),
                     .trainer = first_load(plan, "training")};
  if (out.users.empty() || out.trainer.empty())
    return Error{Code::kInvalid, "a comparison needs a load \"inference\" and a load \"training\""};
  out.users_alone = first_phase(plan, out.users, out.trainer, false);
  out.trainer_alone = first_phase(plan, out.trainer, out.users, false);
  out.together = first_phase(plan, out.users, out.trainer, true);
  if (!plan.load(out.users)->slo)
    return Error{Code::kInvalid, "a comparison needs an slo on load " + out.users};
  if (!out.users_alone.empty() && !out.trainer_alone.empty() && !out.together.empty()) return out;
  return Error{Code::kInvalid, "a comparison needs phases without faults that run " + out.users +
                                   " alone, " + out.trainer + " alone, and both"};
}

Json compare_runs(std::span<const ComparedRun> all, std::uint64_t seed) {
  Json placements = Json::array(), list = Json::array();
  for (const Pool& pool : pools_of(all)) placements.push_back(placement_json(pool, seed));
  for (const ComparedRun& run : all)
    list.push_back({{"placement", run.placement},
                    {"round", run.round},
                    {"directory", run.directory},
                    {"exit_code", run.exit_code},
                    {"problems", problems_of(run)}});
  Json out = {{"schema_version", kComparisonSchemaVersion},
              {"kind", "comparison"},
              {"suite", all.empty() || all[0].plan == nullptr ? "" : all[0].plan->name},
              {"seed", std::to_string(seed)},
              {"confidence", kConfidence},
              {"runs", list},
              {"apart", apart_json(placements)},
              {"meaning", meaning_of(placements)}};
  out["placements"] = std::move(placements);
  out["status"] = status_of(all, out);
  return out;
}

int worst_exit_code(std::span<const int> codes) {
  constexpr int kOrder[] = {5, 130, 143, 129, 6, 4, 1, 3, 2};
  for (const int code : kOrder)
    if (std::find(codes.begin(), codes.end(), code) != codes.end()) return code;
  return 0;
}

}  // namespace mixproof
