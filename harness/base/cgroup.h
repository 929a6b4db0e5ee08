// Cgroups of ours, version 1 and 2 behind one face. A group is named by its path below the root of every hierarchy:
// "mixproof/lab-x/serve-0/llm.0". Only groups below "mixproof" are ever created, killed or removed.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "harness/base/result.h"

namespace mixproof {

// Creates the group (and its parents) in the cpuset and freezer hierarchies (v1) or in the unified one (v2).
// `cpus` is a list as the kernel writes it ("0-1,3"); empty: those of the parent. Existing is fine; a different cpus
// list is applied. kUnavailable when no usable hierarchy is mounted.
Status cgroup_create(const std::string& group, const std::string& cpus);

// Moves the calling process. Safe between fork and exec in a single-threaded parent.
Status cgroup_join(const std::string& group);

std::vector<int> cgroup_members(const std::string& group);   // pids as seen from here, of the group and all below it

// SIGKILLs every member (frozen first, so that nothing forks away) and waits for them to be gone.
Status cgroup_kill(const std::string& group, std::chrono::milliseconds deadline);

// Removes the group and all below it; members must be gone. Absent is success.
Status cgroup_remove(const std::string& group);

}  // namespace mixproof
