#include "harness/cli/progress.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "suites/fault_parts.h"

namespace mixproof {
namespace {

double quantile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  const auto rank =
      static_cast<std::size_t>(std::max(1.0, std::ceil(p * static_cast<double>(values.size()))));
  return values[rank - 1];
}

std::string time_text(double seconds) {
  if (!std::isfinite(seconds)) return "no answer";
  return seconds < 1 ? format("%.1f ms", seconds * 1e3) : format("%.2f s", seconds);
}

}  // namespace

Progress::Progress(World& world, const Plan& plan, bool terminal)
    : world_(world), plan_(plan), terminal_(terminal) {}

void Progress::line(const std::string& text) {
  if (live_shown_) std::fputs("\r\x1b[K", stderr);
  live_shown_ = false;
  std::fprintf(stderr, "%s\n", text.c_str());
}

void Progress::note(const std::string& text) { line("  " + text); }

void Progress::phase(const std::string& name, Time begin, Time end) {
  close_phase();
  phase_ = name;
  begin_ = begin;
  end_ = end;
  users_ = {};
  steps_ = 0;
  const PhasePlan* plan = plan_.phase(name);
  line(format("%-16s %3.0f s  runs %s", name.c_str(),
              static_cast<double>((end - begin).count()) / 1e9,
              plan == nullptr ? "" : join(plan->run, ", ").c_str()));
  if (terminal_) live();
}

void Progress::close_phase() {
  if (phase_.empty()) return;
  const std::string seen = figures();
  if (!seen.empty()) line("                 " + seen);
  phase_.clear();
}

std::string Progress::figures() const {
  std::vector<std::string> parts;
  if (!users_.ttft_s.empty())
    parts.push_back(format("%zu answers, TTFT p50 %s p99 %s, longest wait %s%s",
                           users_.ttft_s.size(), time_text(quantile(users_.ttft_s, 0.5)).c_str(),
                           time_text(quantile(users_.ttft_s, 0.99)).c_str(),
                           time_text(users_.longest_wait_s).c_str(),
                           users_.bad == 0 ? "" : format(", %d failed", users_.bad).c_str()));
  const double elapsed_s =
      static_cast<double>((std::min(end_, world_.now(Clock::kMonotonic)) - begin_).count()) / 1e9;
  if (steps_ > 0 && elapsed_s > 0.5)
    parts.push_back(format("%.1f training steps/s", steps_ / elapsed_s));
  return join(parts, "; ");
}

void Progress::live() {
  if (phase_.empty()) return;
  const double left_s = static_cast<double>((end_ - world_.now(Clock::kMonotonic)).count()) / 1e9;
  std::vector<std::string> held;
  for (const auto& [part, words] : faults_)
    if (std::find(held.begin(), held.end(), words) == held.end()) held.push_back(words);
  const std::string seen = figures();
  std::fprintf(stderr, "\r\x1b[K  %.0f s left%s%s%s%s", std::max(0.0, left_s),
               seen.empty() ? "" : "  ", seen.c_str(), held.empty() ? "" : "  FAULT ",
               join(held, ", ").c_str());
  std::fflush(stderr);
  live_shown_ = true;
  world_.after(std::chrono::seconds(1), [this, name = phase_] {
    if (phase_ == name) live();
  });
}

bool Progress::runs_now(const std::string& load) const {
  const PhasePlan* plan = plan_.phase(phase_);
  return plan != nullptr && std::find(plan->run.begin(), plan->run.end(), load) != plan->run.end();
}

// Each node of a fault on several tells its own states.
std::string Progress::words_of_fault(const Json& row) const {
  for (const PhasePlan& phase : plan_.phases)
    for (const FaultPlanEntry& fault : phase.faults)
      if (fault.id == text_at(row, "fault"))
        return fault_words(fault) + (fault.parts.size() > 1 ? ", " + text_at(row, "node") : "");
  return text_at(row, "kind") + " on " + text_at(row, "target");
}

void Progress::row(const Json& row) {
  const std::string kind = text_at(row, "row");
  // The last rows of a load may come when its phase is over.
  if ((kind == "request" || kind == "step") && !runs_now(text_at(row, "load"))) return;
  if (kind == "request") {
    const bool good = text_at(row, "outcome") == "OK";
    const double ttft_s =
        good ? static_cast<double>(integer_at(row, "first") - integer_at(row, "sched")) / 1e9
             : std::numeric_limits<double>::infinity();
    users_.ttft_s.push_back(ttft_s);
    users_.bad += good ? 0 : 1;
    users_.longest_wait_s = std::max(
        {users_.longest_wait_s, ttft_s, static_cast<double>(integer_at(row, "max_gap")) / 1e9});
  } else if (kind == "step") {
    steps_ += integer_at(row, "rank") == 0 ? 1 : 0;
  } else if (kind == "fault") {
    const std::string state = text_at(row, "state"), id = text_at(row, "fault"),
                      detail = text_at(row, "detail");
    const std::string words = words_of_fault(row), node = text_at(row, "node");
    if (state == "injected") faults_[{id, node}] = words;
    if (state == "clean" || state == "dirty") faults_.erase({id, node});
    if (state != "planned")
      line("    fault " + words + ": " + state + (detail.empty() ? "" : " (" + detail + ")"));
  } else if (kind == "error") {
    line("    error " + text_at(row, "what") + ": " + text_at(row, "message"));
  } else if (kind == "stop") {
    close_phase();
  }
}

}  // namespace mixproof
