// What a training survived: its checkpoints, and the losses of ranks after which it began again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "suites/figure.h"

namespace mixproof {

// Why the metric makes no sense for that load: it makes no checkpoints, or does not resume. Empty
// when it does.
std::string not_applicable(const JudgedMetric& metric, const LoadPlan& load);

// training.checkpoint_time and training.checkpoint_bandwidth of the checkpoints that began in the
// measured window of the phase and were completed: one value each, of its slowest rank; ascending.
// How long a checkpoint took is the time for which training stood still; its bandwidth counts until
// a rank's part is on the storage.
std::vector<double> checkpoint_samples(const JudgeInput& input, const std::string& load,
                                       const std::string& phase, std::string_view metric);

// One loss of a rank, and the attempt that began after it.
struct RankLoss {
  std::int64_t attempt = 0;  // that began; 1 after the first loss
  std::int64_t at = 0,
               noticed = 0;  // end of the rank's process if one is known, first sign of the loss
  bool seen_to_end = false;  // `at` is the end of a process
  std::optional<std::int64_t> steps_lost;  // nothing when no later attempt says where it began
  std::optional<std::int64_t> stepped;     // end of the first later step that all ranks finished
};

// Those that happened in the phase (settle time included), in order.
std::vector<RankLoss> losses_of(const JudgeInput& input, const std::string& load,
                                const std::string& phase);

// training.steps_lost (sum), resume_time and detect_time (worst of the phase), checkpoint_failures.
// Losses without a later step are missing as not_resumed; without any loss the times are missing as
// no_loss.
Figure survival_number(const JudgeInput& input, const Question& question);

// Whether training went on after that end of one of its ranks, as its load's on_loss promises.
bool survived(const JudgeInput& input, const ProcessExit& exit);

}  // namespace mixproof
