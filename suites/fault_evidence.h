// What the recording proves about a fault: when it took hold, when it was undone, whether it is
// clean. A fault on several nodes is on when the last of them has it, and effective and clean when
// it is so on all of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "suites/figure.h"

namespace mixproof {

struct FaultFacts {
  const PhasePlan* phase = nullptr;
  const FaultPlanEntry* plan = nullptr;
  std::string state = "none";  // the newest; none when no row names it
  // Something may have been changed: armed or later; or its time had come and no row says that it
  // was refused or not injected (the last rows of a killed run are lost).
  bool touched = false;
  bool injected = false, clean = false, dirty = false;
  std::int64_t on = 0, on_uncertainty_ns = 0;  // acknowledged injection; valid when injected
  std::int64_t began = 0;  // not before this did it begin to take hold; valid when injected
  // The revert lies between these (uncertainty included); only when it is clean. Nothing reverts a
  // one-shot fault: between these it happened, and from there its effects can only fade.
  std::optional<std::int64_t> off_low, off_high;
  std::optional<std::int64_t> held_ns;  // on the node where it was shortest; only when it is clean
  std::int64_t due_on = 0,
               due_off = 0;  // by the plan, on the actual begin of its phase; 0 before that
  // Why its phase proves nothing: it was never injected, not proved effective, or undone early.
  // Empty when it held.
  std::string not_effective;

  bool unsafe() const { return dirty || (touched && !clean); }
};

FaultFacts fault_facts(const JudgeInput& input, const PhasePlan& phase,
                       const FaultPlanEntry& fault);
std::vector<FaultFacts> all_faults_of(const JudgeInput& input);  // in the plan's order
std::vector<FaultFacts> faults_of_phase(const JudgeInput& input, const std::string& phase);

// fault.effect_delay or fault.revert_delay of one fault; a one-shot fault has no revert.
Figure fault_delay(const FaultFacts& fault, std::string_view metric);

}  // namespace mixproof
