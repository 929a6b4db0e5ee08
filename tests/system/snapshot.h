// The canonical snapshot of a lab node: everything that a fault may change there, as text, without
// what changes by itself (counters, lifetimes, ids of mounts). Taken before a fault and after its
// end, the two must be equal.
#pragma once

#include <string>
#include <vector>

#include "harness/controller/lab.h"

namespace mixproof {

// `pids`: processes as numbered outside the node, whose threads are looked at: how many, stopped or
// not, traced or not.
std::string node_snapshot(const Lab& lab, const LabNode& node, const std::vector<int>& pids);

}  // namespace mixproof
