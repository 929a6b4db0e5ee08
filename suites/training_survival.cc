#include "suites/training_survival.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "suites/training_metrics.h"

namespace mixproof {
namespace {

// The end of a process and its notice come by different clocks; so far they may seem to be in the
// wrong order.
constexpr std::int64_t kSameMomentNs = 50'000'000;

bool is_checkpoint_metric(std::string_view id) { return id.starts_with("training.checkpoint_"); }
bool is_loss_metric(std::string_view id) {
  return id == "training.steps_lost" || id == "training.resume_time" ||
         id == "training.detect_time";
}

const LoadEvidence* evidence_of(const JudgeInput& input, const std::string& load) {
  const auto found = input.evidence.loads.find(load);
  return found == input.evidence.loads.end() ? nullptr : &found->second;
}

const PhaseWindow* window_of(const JudgeInput& input, const std::string& phase) {
  const auto found = input.evidence.phases.find(phase);
  return found == input.evidence.phases.end() || !found->second.begun ? nullptr : &found->second;
}

// A checkpoint as all its ranks saw it.
struct CheckpointOfAll {
  std::size_t ranks = 0;
  std::int64_t begin = 0;
  bool good = true;
  double time_s = 0, bandwidth = 0;

  void add(const CheckpointPart& part) {
    begin = ranks == 0 ? part.begin : std::min(begin, part.begin);
    good = good && part.good;
    time_s = std::max(time_s, part.stall_s);
    bandwidth = ranks == 0 ? part.bandwidth() : std::min(bandwidth, part.bandwidth());
    ++ranks;
  }
};

std::vector<CheckpointOfAll> checkpoints_in(const JudgeInput& input, const std::string& load,
                                            const std::string& phase) {
  std::vector<CheckpointOfAll> out;
  const LoadEvidence* evidence = evidence_of(input, load);
  const PhaseWindow* window = window_of(input, phase);
  if (evidence == nullptr || window == nullptr) return out;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, CheckpointOfAll> all;
  for (const CheckpointPart& part : evidence->checkpoints)
    all[{part.stretch, part.attempt, part.step}].add(part);
  for (const auto& [key, one] : all)
    if (window->measures(one.begin)) out.push_back(one);
  return out;
}

std::string base_of(const std::string& what) { return what.substr(0, what.find('[')); }

// "trainer[1]#2" -> 2
std::int64_t stretch_of_task(const std::string& what) {
  const std::size_t mark = what.find('#');
  return mark == std::string::npos ? 0 : std::atoll(what.c_str() + mark + 1);
}

// The steps that any rank had behind it when the attempt ended.
std::int64_t reached(const LoadEvidence& evidence, std::int64_t stretch, std::int64_t attempt) {
  std::int64_t steps = 0;
  for (const Resumption& one : evidence.resumptions)
    if (one.stretch == stretch && one.attempt == attempt) steps = std::max(steps, one.from_step);
  for (const TrainingStep& step : evidence.steps)
    if (step.stretch == stretch && step.attempt == attempt) steps = std::max(steps, step.step + 1);
  return steps;
}

std::optional<std::int64_t> first_step_of_all(const LoadEvidence& evidence, std::int64_t stretch,
                                              std::int64_t attempt, std::size_t ranks) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::pair<std::size_t, std::int64_t>>
      ends;  // ranks, latest end
  for (const TrainingStep& step : evidence.steps)
    if (step.stretch == stretch && step.attempt >= attempt) {
      auto& [seen, end] = ends[{step.attempt, step.step}];
      end = seen == 0 ? step.end : std::max(end, step.end);
      ++seen;
    }
  std::optional<std::int64_t> first;
  for (const auto& [key, one] : ends)
    if (one.first >= ranks && (!first || one.second < *first)) first = one.second;
  return first;
}

RankLoss loss_of(const JudgeInput& input, const std::string& load, const NewAttempt& begun) {
  const LoadEvidence& evidence = input.evidence.loads.at(load);
  RankLoss loss{.attempt = begun.attempt, .at = begun.at, .noticed = begun.at};
  for (const ProcessExit& exit : input.evidence.exits) {
    const bool of_it = base_of(exit.what) == load && stretch_of_task(exit.what) == begun.stretch &&
                       exit.attempt == begun.attempt - 1 && exit.at <= begun.at + kSameMomentNs;
    if (!of_it || (loss.seen_to_end && exit.at >= loss.at)) continue;
    loss.at = std::min(exit.at, begun.at);
    loss.seen_to_end = true;
  }
  for (const Resumption& one : evidence.resumptions)
    if (one.stretch == begun.stretch && one.attempt == begun.attempt)
      loss.steps_lost = std::max<std::int64_t>(
          0, reached(evidence, begun.stretch, begun.attempt - 1) - one.from_step);
  loss.stepped = first_step_of_all(evidence, begun.stretch, begun.attempt,
                                   input.plan.load(load)->nodes.size());
  return loss;
}

double seconds_between(std::int64_t from, std::int64_t until) {
  return static_cast<double>(until - from) * 1e-9;
}

Figure steps_lost(const std::vector<RankLoss>& losses) {
  std::int64_t sum = 0;
  for (const RankLoss& loss : losses) {
    if (!loss.steps_lost) return Figure::lacks("not_resumed", std::ssize(losses));
    sum += *loss.steps_lost;
  }
  Figure figure = Figure::of(static_cast<double>(sum), std::ssize(losses));
  figure.evidence = {{"losses", losses.size()}};
  return figure;
}

Figure worst_time(const std::vector<RankLoss>& losses, bool resume) {
  if (losses.empty()) return Figure::lacks("no_loss");
  double worst = 0;
  for (const RankLoss& loss : losses) {
    if (resume && !loss.stepped) return Figure::lacks("not_resumed", std::ssize(losses));
    if (!resume && !loss.seen_to_end) return Figure::lacks("loss_not_seen", std::ssize(losses));
    worst = std::max(worst, seconds_between(loss.at, resume ? *loss.stepped : loss.noticed));
  }
  return Figure::of(worst, std::ssize(losses));
}

Figure checkpoint_failures(const JudgeInput& input, const Question& question) {
  const auto checkpoints = checkpoints_in(input, question.load, question.phase);
  if (checkpoints.empty()) return Figure::lacks("no_samples");
  const auto failed = std::count_if(checkpoints.begin(), checkpoints.end(),
                                    [](const auto& one) { return !one.good; });
  return Figure::of(static_cast<double>(failed), std::ssize(checkpoints));
}

}  // namespace

std::string not_applicable(const JudgedMetric& metric, const LoadPlan& load) {
  if (is_checkpoint_metric(metric.id) && number_at(load.params, "checkpoint_every_steps") <= 0 &&
      number_at(load.params, "checkpoint_every_s") <= 0)
    return "load \"" + load.name +
           "\" makes no checkpoints (checkpoint_every_steps, checkpoint_every_s)";
  if (is_loss_metric(metric.id) && load.on_loss != "resume")
    return "load \"" + load.name + "\" does not resume (on_loss)";
  return "";
}

std::vector<double> checkpoint_samples(const JudgeInput& input, const std::string& load,
                                       const std::string& phase, std::string_view metric) {
  std::vector<double> out;
  for (const CheckpointOfAll& one : checkpoints_in(input, load, phase))
    if (one.good && one.ranks >= input.plan.load(load)->nodes.size())
      out.push_back(metric == "training.checkpoint_time" ? one.time_s : one.bandwidth);
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<RankLoss> losses_of(const JudgeInput& input, const std::string& load,
                                const std::string& phase) {
  std::vector<RankLoss> out;
  const LoadEvidence* evidence = evidence_of(input, load);
  const PhaseWindow* window = window_of(input, phase);
  if (evidence == nullptr || window == nullptr) return out;
  for (const NewAttempt& begun : evidence->attempts) {
    const RankLoss loss = loss_of(input, load, begun);
    if (loss.at >= window->begin && loss.at < window->end) out.push_back(loss);
  }
  std::sort(out.begin(), out.end(),
            [](const RankLoss& a, const RankLoss& b) { return a.attempt < b.attempt; });
  return out;
}

Figure survival_number(const JudgeInput& input, const Question& question) {
  if (question.metric->id == "training.checkpoint_failures")
    return checkpoint_failures(input, question);
  const LoadEvidence* evidence = evidence_of(input, question.load);
  if (evidence == nullptr || evidence->steps.empty()) return Figure::lacks("no_samples");
  const std::vector<RankLoss> losses = losses_of(input, question.load, question.phase);
  if (question.metric->id == "training.steps_lost") return steps_lost(losses);
  return worst_time(losses, question.metric->id == "training.resume_time");
}

bool survived(const JudgeInput& input, const ProcessExit& exit) {
  const LoadPlan* load = input.plan.load(base_of(exit.what));
  const LoadEvidence* evidence = load == nullptr ? nullptr : evidence_of(input, load->name);
  if (evidence == nullptr || load->on_loss != "resume") return false;
  return first_step_of_all(*evidence, stretch_of_task(exit.what), exit.attempt + 1,
                           load->nodes.size())
      .has_value();
}

}  // namespace mixproof
