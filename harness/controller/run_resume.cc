// When a load with on_loss "resume" loses a rank: all ranks of that stretch end, and begin again as
// its next attempt.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "harness/controller/run_tasks.h"

namespace mixproof {
namespace {

constexpr int kMostAttempts = 5;  // after the first; a load that dies that often does not survive
constexpr Time kAttemptDeadline =
    std::chrono::seconds(30);  // from the loss until all ranks are prepared again
constexpr Time kStopGrace = std::chrono::milliseconds(2000);
constexpr Time kAnswer = std::chrono::seconds(5);

}  // namespace

bool Run::is_loss(const Error& error) {
  return error.code == Code::kPeerLost || error.code == Code::kTimeout;
}

std::vector<Run::LoadTask*> Run::ranks_of(std::size_t span) const {
  std::vector<LoadTask*> out;
  for (const auto& [name, task] : loads_)
    if (task->span == span) out.push_back(task.get());
  return out;
}

// Whether that loss is one to go on after; if not, it is the caller's error. The first sign of a
// loss counts, be it the end of the rank or the failure of another one; what follows from the same
// loss is covered by it.
bool Run::lost_rank(LoadTask& task, const std::string& why) {
  if (task.load->on_loss != "resume" || stage_ != Stage::kTimeline || stopping_) return false;
  Attempt& attempt = attempts_[task.span];
  if (attempt.state == Attempt::kStopping) return true;
  const Time now = world_.now(Clock::kMonotonic);
  if (attempt.number >= kMostAttempts ||
      now >= begin_ + run_seconds(schedule_.loads[task.span].end_s))
    return false;
  ++attempt.number;
  attempt.state = Attempt::kStopping;
  record({{"row", "attempt"},
          {"what", task.load->name},
          {"stretch", task.stretch},
          {"attempt", attempt.number},
          {"at", now.count()},
          {"noticed", task.name},
          {"why", why}});
  note(task.load->name + " lost a rank: attempt " + std::to_string(attempt.number) + " begins (" +
       why + ")");
  world_.cancel(attempt.deadline);
  attempt.deadline =
      world_.after(kAttemptDeadline, [this, span = task.span, number = attempt.number] {
        if (attempts_[span].number == number && attempts_[span].state != Attempt::kRunning)
          attempt_late(span);
      });
  for (LoadTask* rank : ranks_of(task.span))
    if (!rank->gone)
      ask(rank->node,
          {{"do", "stop"}, {"what", rank->name}, {"grace_ms", kStopGrace.count() / 1'000'000}},
          kStopGrace + kAnswer, [](const Result<Json>&) {});
  return true;
}

void Run::attempt_late(std::size_t span) {
  if (stage_ != Stage::kTimeline || stopping_) return;
  std::vector<std::string> late;
  for (const LoadTask* rank : ranks_of(span))
    if (!rank->ready || attempts_[span].state == Attempt::kStopping)
      late.push_back(rank->name + (rank->gone ? "" : " on " + rank->node));
  const LoadPlan& load = *ranks_of(span).front()->load;
  fail({Code::kTimeout, load.name + " could not begin again in time: " + join(late, ", ")},
       load.name, "");
}

// When the last rank of the attempt before has gone: no two attempts ever run at once.
void Run::begin_attempt_when_all_are_gone(std::size_t span) {
  const auto found = attempts_.find(span);
  if (found == attempts_.end() || found->second.state != Attempt::kStopping) return;
  if (stage_ != Stage::kTimeline || stopping_) return;
  const std::vector<LoadTask*> ranks = ranks_of(span);
  if (std::any_of(ranks.begin(), ranks.end(), [](const LoadTask* rank) { return !rank->gone; }))
    return;
  found->second.state = Attempt::kPreparing;
  for (LoadTask* rank : ranks) {
    rank->attempt = found->second.number;
    rank->ready = rank->running = rank->done = rank->gone = false;
    start_worker(*rank);
  }
}

void Run::attempt_ready(std::size_t span) {
  const auto found = attempts_.find(span);
  if (found == attempts_.end() || found->second.state != Attempt::kPreparing) return;
  if (stage_ != Stage::kTimeline || stopping_) return;
  const std::vector<LoadTask*> ranks = ranks_of(span);
  if (std::any_of(ranks.begin(), ranks.end(), [](const LoadTask* rank) { return !rank->ready; }))
    return;
  world_.cancel(found->second.deadline);
  if (world_.now(Clock::kMonotonic) >= begin_ + run_seconds(schedule_.loads[span].end_s))
    return give_up_attempt(span);
  found->second.state = Attempt::kRunning;
  for (LoadTask* rank : ranks) tell_go(*rank);
}

// Its phases are over before it could begin again: that it did not is for the judge to see.
void Run::give_up_attempt(std::size_t span) {
  const auto found = attempts_.find(span);
  if (found == attempts_.end() || found->second.state == Attempt::kRunning) return;
  world_.cancel(found->second.deadline);
  found->second.state = Attempt::kRunning;
  for (LoadTask* rank : ranks_of(span)) {
    rank->done = true;
    if (!rank->gone)
      ask(rank->node,
          {{"do", "stop"}, {"what", rank->name}, {"grace_ms", kStopGrace.count() / 1'000'000}},
          kStopGrace + kAnswer, [](const Result<Json>&) {});
  }
  note(ranks_of(span).front()->load->name + " did not begin again before its phases were over");
}

}  // namespace mixproof
