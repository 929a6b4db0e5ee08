#include "suites/fault_evidence.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

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

// What the rows of one node say: a fault on several nodes has a guard on each.
struct PartFacts {
  std::string state = "none", refuted;
  bool touched = false, injected = false, effective = false, clean = false, dirty = false;
  std::int64_t began = 0, on = 0, on_uncertainty_ns = 0, off_low = 0, off_high = 0;
};

// Why the mechanism itself denies an effect, whatever the controls saw: a rule that nothing ever
// met, a disk that was full before.
std::string idle_mechanism(const Json& evidence) {
  if (const Json* counted = member(evidence, "counted"); counted != nullptr && counted->is_array())
    for (const Json& step : *counted) {
      if (const Json* packets = member(step, "packets"); packets != nullptr && *packets == 0)
        return "its rule dropped no packet";
      if (const Json* bytes = member(step, "bytes"); bytes != nullptr && *bytes == 0)
        return "there was no byte to take";
    }
  return "";
}

void read_state(const FaultState& row, bool one_shot, PartFacts& part, std::int64_t& reverting,
                std::int64_t& reverting_uncertainty) {
  part.state = row.state;
  part.touched = part.touched || touches(row.state);
  part.dirty = part.dirty || row.state == "dirty";
  part.clean = row.state == "clean";
  if (row.state == "injected" && !part.injected) {
    part.injected = true;
    part.on = row.at;
    part.on_uncertainty_ns = row.uncertainty_ns;
    const std::int64_t began = integer_at(row.evidence, "began_at", row.at);
    part.began = std::min(began, row.at) - row.uncertainty_ns;
  }
  if (row.state == "effective") part.effective = true;
  if (row.state == "not_effective")
    part.refuted = row.detail.empty() ? "its controls did not move" : row.detail;
  if (row.state == "reverting") {
    reverting = row.at;
    reverting_uncertainty = row.uncertainty_ns;
    if (part.refuted.empty()) part.refuted = idle_mechanism(row.evidence);
  }
  if (row.state != "clean") return;
  if (one_shot && part.injected) {
    part.off_low = part.began;
    part.off_high = part.on + part.on_uncertainty_ns;
    return;
  }
  const std::int64_t undone = integer_at(row.evidence, "undone_at");
  // Proved clean afterwards, by another agent: it may have ended as soon as it began.
  const std::int64_t least = part.injected ? part.on : row.at;
  const std::int64_t low = undone != 0 ? undone : (reverting != 0 ? reverting : least);
  const std::int64_t high = undone != 0 ? undone : row.at;
  part.off_low = low - std::max(reverting_uncertainty, row.uncertainty_ns);
  part.off_high = high + std::max(reverting_uncertainty, row.uncertainty_ns);
}

PartFacts read_part(const std::vector<FaultState>& states, const std::string& node, bool one_shot) {
  PartFacts part;
  std::int64_t reverting = 0, reverting_uncertainty = 0;
  for (const FaultState& row : states)
    if (row.node == node) read_state(row, one_shot, part, reverting, reverting_uncertainty);
  return part;
}

// All nodes that the plan or a row names: one that is not in the plan counts too, because what is
// left there must not be overlooked.
std::set<std::string> nodes_of(const FaultPlanEntry& fault, const std::vector<FaultState>& states) {
  std::set<std::string> nodes;
  for (const FaultPlanEntry::Part& part : fault.parts) nodes.insert(part.node);
  for (const FaultState& row : states) nodes.insert(row.node);
  return nodes;
}

// The end of the whole fault lies between the first and the last revert.
void join_part(const std::string& node, const PartFacts& part, bool alone, FaultFacts& facts,
               bool& effective, std::string& refuted) {
  const std::string where = alone || part.refuted.empty() ? "" : node + ": ";
  facts.touched = facts.touched || part.touched;
  facts.dirty = facts.dirty || part.dirty;
  facts.injected = facts.injected && part.injected;
  effective = effective && part.effective;
  if (refuted.empty() && !part.refuted.empty()) refuted = where + part.refuted;
  if (part.injected && part.on + part.on_uncertainty_ns >= facts.on + facts.on_uncertainty_ns) {
    facts.on = part.on;
    facts.on_uncertainty_ns = part.on_uncertainty_ns;
  }
  if (part.injected)
    facts.began = facts.began == 0 ? part.began : std::min(facts.began, part.began);
  // A part that never touched anything needs no proof of clean, when another one did.
  const bool over =
      part.clean || (!alone && !part.touched && part.state != "none" && part.state != "planned");
  facts.clean = facts.clean && over;
  if (!part.clean) return;
  const std::int64_t held = part.off_high - part.on;
  if (part.injected) facts.held_ns = std::min(facts.held_ns.value_or(held), held);
  facts.off_low = std::min(facts.off_low.value_or(part.off_low), part.off_low);
  facts.off_high = std::max(facts.off_high.value_or(part.off_high), part.off_high);
}

// No row says what became of it.
bool is_open(const std::string& state) { return state == "none" || state == "planned"; }

void read_states(const std::vector<FaultState>& states, FaultFacts& facts, bool& effective,
                 std::string& refuted, bool& open) {
  const std::set<std::string> nodes = nodes_of(*facts.plan, states);
  const bool one_shot = facts.plan->one_shot();
  facts.injected = facts.clean = effective = !nodes.empty();
  for (const std::string& node : nodes)
    join_part(node, read_part(states, node, one_shot), nodes.size() == 1, facts, effective,
              refuted);
  facts.clean = facts.clean && facts.off_high.has_value();
  if (!facts.clean) facts.off_low = facts.off_high = facts.held_ns = std::nullopt;
  for (const FaultState& row : states) facts.state = row.state;
  // The newest row may be one node's; what another one still has on decides.
  open = nodes.empty();
  for (const std::string& node : nodes) {
    const PartFacts part = read_part(states, node, one_shot);
    open = open || is_open(part.state);
    if (part.dirty || (part.touched && !part.clean && facts.state == "clean"))
      facts.state = part.state;
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
  if (facts.held_ns && *facts.held_ns < ns_of(kLeastShare * facts.plan->for_s))
    return format("%s was undone early: after %.3g s of %.3g s", id.c_str(),
                  static_cast<double>(*facts.held_ns) * 1e-9, facts.plan->for_s);
  return "";
}

}  // namespace

FaultFacts fault_facts(const JudgeInput& input, const PhasePlan& phase,
                       const FaultPlanEntry& fault) {
  FaultFacts facts;
  facts.phase = &phase;
  facts.plan = &fault;
  bool effective = false, open = true;
  std::string refuted;
  const Evidence& evidence = input.evidence;
  if (const auto states = evidence.faults.find(fault.id); states != evidence.faults.end())
    read_states(states->second, facts, effective, refuted, open);
  PhaseWindow window;
  if (const auto found = evidence.phases.find(phase.name); found != evidence.phases.end())
    window = found->second;
  if (window.begun) {
    facts.due_on = window.begin + ns_of(fault.at_s);
    facts.due_off = facts.due_on + ns_of(fault.for_s);
    // Its time has come, and nothing says that it was refused or not injected: it may be there.
    const std::int64_t seen_until = evidence.last_at + (evidence.has_end ? 0 : kUnseenNs);
    if (open && seen_until >= facts.due_on) facts.touched = true;
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
  if (fault.plan->one_shot()) return Figure::lacks("one_shot");
  if (!fault.clean || !fault.off_high || fault.due_off == 0) return Figure::lacks("not_clean");
  return Figure::of(static_cast<double>(*fault.off_high - fault.due_off) * 1e-9, 1);
}

}  // namespace mixproof
