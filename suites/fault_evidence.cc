#include "suites/fault_evidence.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"

namespace mixproof {
namespace {

// A recording without its end lost up to a frame (1 s) of rows, and rows wait a moment before they
// reach it.
constexpr std::int64_t kUnseenNs = 2'000'000'000;
// A fault that was undone before this share of its time did not do what the limit is about.
constexpr double kLeastShare = 0.9;

std::int64_t ns_of(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

bool touches(const std::string& state) {
  return state == "armed" || state == "injected" || state == "effective" ||
         state == "not_effective" || state == "reverting" || state == "guard_lost" ||
         state == "clean" || state == "dirty";
}

void read_states(const std::vector<FaultState>& states, FaultFacts& facts, bool& effective,
                 std::string& refuted) {
  std::int64_t reverting = 0, reverting_uncertainty = 0;
  for (const FaultState& row : states) {
    facts.state = row.state;
    facts.touched = facts.touched || touches(row.state);
    facts.dirty = facts.dirty || row.state == "dirty";
    facts.clean = row.state == "clean";
    if (row.state == "injected" && !facts.injected) {
      facts.injected = true;
      facts.on = row.at;
      facts.on_uncertainty_ns = row.uncertainty_ns;
    }
    if (row.state == "effective") effective = true;
    if (row.state == "not_effective")
      refuted = row.detail.empty() ? "its controls did not move" : row.detail;
    if (row.state == "reverting") {
      reverting = row.at;
      reverting_uncertainty = row.uncertainty_ns;
    }
    if (row.state != "clean") continue;
    const std::int64_t undone = integer_at(row.evidence, "undone_at");
    // Proved clean afterwards, by another agent: it may have ended as soon as it began.
    const std::int64_t least = facts.injected ? facts.on : row.at;
    const std::int64_t low = undone != 0 ? undone : (reverting != 0 ? reverting : least);
    const std::int64_t high = undone != 0 ? undone : row.at;
    facts.off_low = low - std::max(reverting_uncertainty, row.uncertainty_ns);
    facts.off_high = high + std::max(reverting_uncertainty, row.uncertainty_ns);
  }
}

std::string why_not_effective(const FaultFacts& facts, const PhaseWindow& window, bool effective,
                              const std::string& refuted, const Evidence& evidence) {
  const std::string id = "fault " + facts.plan->id;
  for (const RunError& error : evidence.errors)
    if (error.what == facts.plan->id) return id + ": " + error.message;
  if (!facts.injected) return id + " was never injected";
  if (!refuted.empty()) return id + " had no effect: " + refuted;
  if (!effective) return id + " was injected but not proved effective";
  if (facts.on >= window.end) return id + " was injected after its phase";
  if (facts.off_high && *facts.off_high - facts.on < ns_of(kLeastShare * facts.plan->for_s)) {
    const double held_s = static_cast<double>(*facts.off_high - facts.on) * 1e-9;
    return format("%s was undone early: after %.3g s of %.3g s", id.c_str(), held_s,
                  facts.plan->for_s);
  }
  return "";
}

}  // namespace

FaultFacts fault_facts(const JudgeInput& input, const PhasePlan& phase,
                       const FaultPlanEntry& fault) {
  FaultFacts facts;
  facts.phase = &phase;
  facts.plan = &fault;
  bool effective = false;
  std::string refuted;
  const Evidence& evidence = input.evidence;
  if (const auto states = evidence.faults.find(fault.id); states != evidence.faults.end())
    read_states(states->second, facts, effective, refuted);
  PhaseWindow window;
  if (const auto found = evidence.phases.find(phase.name); found != evidence.phases.end())
    window = found->second;
  if (window.begun) {
    facts.due_on = window.begin + ns_of(fault.at_s);
    facts.due_off = facts.due_on + ns_of(fault.for_s);
    // Its time has come, and nothing says that it was refused or not injected: it may be there.
    const std::int64_t seen_until = evidence.last_at + (evidence.has_end ? 0 : kUnseenNs);
    if ((facts.state == "none" || facts.state == "planned") && seen_until >= facts.due_on)
      facts.touched = true;
  }
  facts.not_effective = why_not_effective(facts, window, effective, refuted, evidence);
  return facts;
}

std::vector<FaultFacts> all_faults_of(const JudgeInput& input) {
  std::vector<FaultFacts> out;
  for (const PhasePlan& phase : input.plan.phases)
    for (const FaultPlanEntry& fault : phase.faults)
      out.push_back(fault_facts(input, phase, fault));
  return out;
}

std::vector<FaultFacts> faults_of_phase(const JudgeInput& input, const std::string& phase) {
  std::vector<FaultFacts> out;
  const PhasePlan* found = input.plan.phase(phase);
  if (found != nullptr)
    for (const FaultPlanEntry& fault : found->faults)
      out.push_back(fault_facts(input, *found, fault));
  return out;
}

Figure fault_delay(const FaultFacts& fault, std::string_view metric) {
  if (metric == "fault.effect_delay") {
    if (!fault.injected || fault.due_on == 0) return Figure::lacks("not_injected");
    return Figure::of(static_cast<double>(fault.on - fault.due_on) * 1e-9, 1);
  }
  if (!fault.clean || !fault.off_high || fault.due_off == 0) return Figure::lacks("not_clean");
  return Figure::of(static_cast<double>(*fault.off_high - fault.due_off) * 1e-9, 1);
}

}  // namespace mixproof
