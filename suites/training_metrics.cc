#include "suites/training_metrics.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "suites/training_survival.h"

namespace mixproof {
namespace {

// Share of the step that lies in the window: no fence-post error at the edges.
double overlap(const TrainingStep& step, const PhaseWindow& window) {
  const std::int64_t from = std::max(step.begin, window.settled),
                     until = std::min(step.end, window.end);
  if (until <= from) return 0;
  return static_cast<double>(until - from) / static_cast<double>(step.end - step.begin);
}

struct StepOfAll {
  std::size_t ranks = 0;
  std::int64_t begin = 0, end = 0;
  double step_s = 0, compute_s = 0, comm_s = 0;

  void add(const TrainingStep& step) {
    begin = ranks == 0 ? step.begin : std::min(begin, step.begin);
    end = std::max(end, step.end);
    step_s = std::max(step_s, step.step_s);
    compute_s = std::max(compute_s, step.compute_s);
    comm_s = std::max(comm_s, step.comm_s);
    ++ranks;
  }
};

Figure goodput(const JudgeInput& input, const Question& question, const StepWindow& window) {
  const PhasePlan* baseline = baseline_of(input.plan, question.load);
  const auto n = std::ssize(window.step_s);
  if (baseline == nullptr) return Figure::lacks("no_reference", n);
  const StepWindow reference = measured_steps(input, question.load, baseline->name);
  if (reference.step_s.empty()) return Figure::lacks("no_reference", n);
  Figure figure = Figure::of(window.rate() * median_of(reference.step_s), n);
  figure.evidence = {{"reference", baseline->name}, {"steps_per_s", window.rate()}};
  return figure;
}

}  // namespace

StepWindow measured_steps(const JudgeInput& input, const std::string& load,
                          const std::string& phase) {
  StepWindow out;
  const auto found = input.evidence.phases.find(phase);
  if (found == input.evidence.phases.end()) return out;
  const PhaseWindow& window = found->second;
  out.window_s = window.measure_s();
  const std::size_t expected = input.plan.load(load)->nodes.size();
  const Stretch stretch = stretch_of(input, load, phase);  // numbers start again after a restart
  std::map<std::int64_t, double> rank_steps;
  std::map<std::int64_t, std::map<std::int64_t, StepOfAll>> attempts;  // steps of each
  if (const auto evidence = input.evidence.loads.find(load);
      evidence != input.evidence.loads.end()) {
    const TrainingStep* before =
        nullptr;  // of the same rank and number if there is one: the evidence is sorted
    for (const TrainingStep& step : evidence->second.steps) {
      if (step.end <= stretch.begin || step.begin >= stretch.end) continue;
      const bool again =
          before != nullptr && before->step == step.step && before->rank == step.rank;
      const double share = overlap(step, window);
      if (share > 0) rank_steps[step.rank] += again ? 0 : share;
      attempts[step.attempt][step.step].add(step);
      before = &step;
    }
  }
  for (std::size_t rank = 0; rank < expected; ++rank)
    if (!rank_steps.contains(static_cast<std::int64_t>(rank)))
      out.silent_ranks.push_back(static_cast<std::int64_t>(rank));
  for (const auto& [attempt, steps] : attempts)
    for (const auto& [index, step] : steps) {
      if (step.end <= window.settled || step.begin >= window.end) continue;
      if (step.ranks < expected && index != steps.rbegin()->first) ++out.partial_steps;
      if (step.ranks < expected || step.begin < window.settled || step.end > window.end) continue;
      out.step_s.push_back(step.step_s);
      out.by_time.push_back({static_cast<double>(step.begin - window.settled) * 1e-9, step.step_s});
      out.compute_s.push_back(step.compute_s);
      out.comm_s.push_back(step.comm_s);
    }
  for (auto* samples : {&out.step_s, &out.compute_s, &out.comm_s})
    std::sort(samples->begin(), samples->end());
  std::stable_sort(out.by_time.begin(), out.by_time.end(),
                   [](const TimedSample& a, const TimedSample& b) { return a.at_s < b.at_s; });
  if (out.silent_ranks.empty() && !rank_steps.empty()) {
    const auto slowest =
        std::min_element(rank_steps.begin(), rank_steps.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    out.slowest_rank = slowest->first;
    out.steps = slowest->second;
  }
  return out;
}

std::vector<double> step_samples(const StepWindow& window, std::string_view metric) {
  if (metric == "training.step_time") return window.step_s;
  if (metric == "training.compute_time") return window.compute_s;
  return window.comm_s;
}

Figure training_number(const JudgeInput& input, const Question& question) {
  const std::string_view id = question.metric->id;
  if (id != "training.goodput" && id != "training.retained")
    return survival_number(input, question);
  const StepWindow window = measured_steps(input, question.load, question.phase);
  const auto n = std::ssize(window.step_s);
  if (window.steps <= 0) return Figure::lacks("no_samples");
  if (question.metric->id == "training.goodput") return goodput(input, question, window);
  const StepWindow reference = measured_steps(input, question.load, question.reference);
  if (reference.steps <= 0) return Figure::lacks("no_reference", n);
  Figure figure = Figure::of(window.rate() / reference.rate(), n);
  figure.evidence = {{"steps_per_s", window.rate()},
                     {"reference_steps_per_s", reference.rate()},
                     {"steps", window.steps},
                     {"reference_steps", reference.steps}};
  return figure;
}

}  // namespace mixproof
