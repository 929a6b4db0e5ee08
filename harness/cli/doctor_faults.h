// doctor faults: what of every fault works on this machine, and whether it goes away when
// everything of ours is killed. In a lab of its own; nothing else is touched.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/base/result.h"

namespace mixproof {

// What became of one drill. Pass: effective, and proved clean after the SIGKILL of its controller,
// agents and guard. Not here: this machine cannot do it, with the reason.
enum class DrillState { kPass, kNotHere, kFail, kDirty, kError };
std::string_view drill_state_name(DrillState state);

struct FaultDrill {
  std::string fault, residual_life;
  DrillState state = DrillState::kError;
  std::string reason;   // unless passed
  bool killed = false;  // its controller, agents and guard were; not of what is over at once
  double effective_s = 0,
         clean_s = 0;  // command to effect proved; SIGKILL to clean proved. 0: not reached
};

struct DoctorFaultsOptions {
  std::vector<std::string> only;  // names of faults; empty: all
  std::function<void(const FaultDrill&)> progress;
};

// In the order of names. An error when no lab can be made, or not be taken down again. Blocks for
// some seconds a fault; a signal waits for the drill under way and for the lab to be gone.
Result<std::vector<FaultDrill>> doctor_faults(const DoctorFaultsOptions& options);

}  // namespace mixproof
