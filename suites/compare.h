// Comparison: one suite, run in rounds under several placements, as one table: what training beside
// them does to users, and users to training, with intervals. Pure.
//
// The document (compare.json; `mixproof schema comparison` has every key, from the tables in
// compare_text.cc):
//   schema_version, kind "comparison", suite, seed, confidence
//   placements  for each: placement, block_s, blocks (the fewest of any pool), and `figures`, one
//   for each row of
//               comparison_figures(): what it was alone and together, the ratio of the two and its
//               interval, by block bootstrap over the blocks of all rounds of the placement
//   apart       for each figure and pair of placements: whether the intervals do not overlap, and
//   whose is lower runs        placement, round, directory, exit_code, problems (why it was not
//   measured well) status      measured; inconclusive (a figure is missing, or a measurement may be
//   the client's own doing); error meaning     one sentence
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "suites/figure.h"

namespace mixproof {

inline constexpr const char* kComparisonSchemaVersion = "0.1";
inline constexpr const char* kComparisonFile = "compare.json";

struct ComparedRun {
  std::string placement, directory;
  int round = 0;      // from 1
  int exit_code = 3;  // of the run
  const Plan* plan = nullptr;
  const Evidence* evidence = nullptr;  // null when it left none
};

struct ComparisonFigure {
  std::string_view id, title, metric, quantile, unit, better;
};
std::span<const ComparisonFigure> comparison_figures();

// The phases that are compared, by what they run: without faults, the first with users alone, with
// ranks alone, and with both. kInvalid when the suite lacks one, or a load.
struct ComparedPhases {
  std::string users, trainer, users_alone, trainer_alone, together;
};
Result<ComparedPhases> compared_phases(const Plan& plan);

// Runs in the order in which they ran; all of one suite, which has the phases.
Json compare_runs(std::span<const ComparedRun> runs, std::uint64_t seed);

std::string comparison_text(const Json& comparison);  // the table and the sentence, for a terminal
Json comparison_schema();                             // draft-07

// 5 > 129, 130, 143 > 6, 4 > 1 > 3 > 2 > 0.
int worst_exit_code(std::span<const int> codes);

}  // namespace mixproof
