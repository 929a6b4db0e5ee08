#include "harness/controller/abort_watch.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "suites/aborts.h"
#include "suites/request_metrics.h"

namespace mixproof {
namespace {

constexpr std::int64_t kTicksKept = 64;  // of samples whose other instances have not answered

double seconds_of(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

struct AbortWatch::Watched {
  explicit Watched(const AbortPlan& abort) : plan(abort), condition(abort) {}
  const AbortPlan& plan;
  AbortCondition condition;
  bool active = false;       // in this phase
  std::int64_t begin = 0;    // of the first of the consecutive phases in which it is watched
  std::int64_t data_at = 0;  // of its signal: the newest data, or that begin
  TimerId silence = 0;
};

AbortWatch::AbortWatch(World& world, const Plan& plan,
                       std::function<void(const Json& row)> on_abort)
    : world_(world), plan_(plan), on_abort_(std::move(on_abort)) {
  for (const AbortPlan& abort : plan_.aborts) watched_.push_back(std::make_unique<Watched>(abort));
}

AbortWatch::~AbortWatch() { end(); }

void AbortWatch::end() {
  over_ = true;
  world_.cancel(told_);
  for (const auto& watched : watched_) world_.cancel(watched->silence);
}

void AbortWatch::row(const Json& row) {
  if (over_ || watched_.empty()) return;
  const std::string kind = text_at(row, "row");
  if (kind == "clock") {
    clocks_.add(text_at(row, "node"), integer_at(row, "at"), integer_at(row, "offset_ns"),
                integer_at(row, "uncertainty_ns"));
    clocks_.finish();
    clock_rows_[text_at(row, "node")] = row;
  } else if (kind == "phase") {
    begin_phase(row);
  } else if (kind == "signal") {
    signal_row(row);
  } else if (kind == "request") {
    request_row(row);
  }
}

void AbortWatch::begin_phase(const Json& row) {
  for (const auto& watched : watched_) {
    const bool was_active = watched->active;
    watched->active = watched->plan.watches(text_at(row, "name"));
    if (!watched->active) {
      watched->condition.reset();
      world_.cancel(watched->silence);
    } else if (!was_active) {
      watched->begin = watched->data_at = integer_at(row, "begin");
      arm(*watched);
    }
  }
}

void AbortWatch::signal_row(const Json& row) {
  const SignalPlan* signal = plan_.signal(text_at(row, "signal"));
  std::optional<SignalPart> part = signal_part(row, clocks_);
  if (signal == nullptr || !part) return;
  const std::int64_t tick = integer_at(row, "tick");
  auto& ticks = parts_[signal->name];
  ticks[tick][text_at(row, "instance")] = std::move(*part);
  const SignalSample sample = combine_parts(*signal, tick, ticks[tick]);
  const bool whole = ticks[tick].size() >= signal->instances.size();
  if (whole) ticks.erase(tick);
  ticks.erase(ticks.begin(), ticks.lower_bound(tick - kTicksKept));
  if (!whole || !sample.value) return;
  for (const auto& watched : watched_) {
    if (!watched->active || watched->plan.signal != signal->name || sample.at < watched->begin)
      continue;
    watched->data_at = std::max(watched->data_at, sample.at);
    arm(*watched);
    if (const auto found = watched->condition.sample(sample.at, *sample.value))
      trigger(watched->plan, found->at, found->value, found->detail);
  }
}

void AbortWatch::request_row(const Json& row) {
  const std::string load = text_at(row, "load");
  for (const auto& watched : watched_) {
    if (!watched->active || watched->plan.load != load) continue;
    // As the judge reads it: the row by itself, with the clock of its node.
    const auto clock = clock_rows_.find(text_at(row, "node"));
    if (clock == clock_rows_.end()) return;
    const std::vector<Json> rows = {clock->second, row};
    const Evidence evidence = read_evidence(plan_, rows);
    const auto found = evidence.loads.find(load);
    if (found == evidence.loads.end() || found->second.requests.empty()) return;
    const Request& request = found->second.requests.front();
    if (request.end < watched->begin) continue;
    if (const auto over =
            watched->condition.request(request.end, is_good(request, *plan_.load(load)->slo)))
      trigger(watched->plan, over->at, over->value, over->detail);
  }
}

void AbortWatch::arm(Watched& watched) {
  world_.cancel(watched.silence);
  watched.silence = 0;
  if (!(watched.plan.no_data_s > 0)) return;
  const auto bound = static_cast<std::int64_t>(watched.plan.no_data_s * 1e9);
  watched.silence = world_.at(Clock::kMonotonic, Time(watched.data_at + bound), [this, &watched] {
    const std::int64_t now = world_.now(Clock::kMonotonic).count();
    if (over_ || !watched.active) return;
    trigger(watched.plan, now, nullptr,
            format("signal %s without data for %.1f s", watched.plan.signal.c_str(),
                   seconds_of(now - watched.data_at)));
  });
}

void AbortWatch::trigger(const AbortPlan& plan, std::int64_t at, const Json& value,
                         const std::string& detail) {
  if (over_) return;
  end();
  const Json row = {
      {"row", "abort"}, {"abort", plan.id}, {"at", at}, {"value", value}, {"detail", detail}};
  told_ = world_.after(Time(0), [this, row] { on_abort_(row); });
}

}  // namespace mixproof
