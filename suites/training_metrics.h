// Figures of training steps in a window. The ranks of a step move together: a step takes as long as
// its slowest rank, and a rate is that of the slowest rank.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/bootstrap.h"
#include "suites/figure.h"

namespace mixproof {

struct StepWindow {
  std::vector<double> step_s, compute_s,
      comm_s;  // steps wholly within the window, seen by all ranks; ascending
  std::vector<std::int64_t>
      silent_ranks;  // expected ranks without any step that overlaps the window
  std::int64_t partial_steps =
      0;  // that some rank did not report, before the newest one of its attempt
  // Steps in the window with their shares at its edges, slowest rank. A step that was done again
  // after a loss counts where it was done first: the phase of the loss bears what it cost.
  double steps = 0;
  double rate() const { return window_s > 0 ? steps / window_s : 0; }
  double window_s = 0;
  std::vector<TimedSample> by_time;  // of step_s: begin from that of the window, step time
  std::int64_t slowest_rank = -1;    // whose steps the rate counts; -1: none
};

StepWindow measured_steps(const JudgeInput& input, const std::string& load,
                          const std::string& phase);

std::vector<double> step_samples(const StepWindow& window, std::string_view metric);

// Numbers of training: goodput, retained, and those of suites/training_survival.h.
Figure training_number(const JudgeInput& input, const Question& question);

}  // namespace mixproof
