// Recover: what this node's journals say about faults, and bringing to an end those whose guard is
// gone.
#pragma once

#include <string>
#include <vector>

#include "harness/agent/guard.h"
#include "harness/agent/journal.h"

namespace mixproof {

struct FaultOnNode {
  JournalState journal;
  bool guarded = false;    // a guard lives and will end it at its lease's end
  std::string unreadable;  // why the journal cannot be read; such a fault counts as dirty
  std::string path;        // empty: found by its mark, no journal tells of it
  // If not, the node must take no further fault.
  bool resolved() const { return unreadable.empty() && journal.resolved(guarded); }
};

Json fault_on_node_to_json(const FaultOnNode& fault);

// Reads every journal; those not resolved and without a living guard are undone and verified first
// (their lock is held from then on by this process). One that cannot be read or locked is listed as
// unreadable and keeps no other from being recovered. kSystem when the directory cannot be read:
// unknown is never "none".
// Then whatever else carries our mark on the node and belongs to no fault that is guarded or
// unresolved is undone, verified and listed as a fault without a journal.
Result<std::vector<FaultOnNode>> recover_faults(World& world, const std::string& state_dir,
                                                const Operators& operators);

// The same without undoing anything.
Result<std::vector<FaultOnNode>> survey_faults(World& world, const std::string& state_dir);

// Asks living guards to revert now (SIGTERM); survey again to see the outcome. A guard that is
// still there well after its lease's end hangs, and is killed: the kernel undoes what it can,
// `recover_faults` the rest.
void end_guarded_faults(World& world, const std::vector<FaultOnNode>& faults);

}  // namespace mixproof
