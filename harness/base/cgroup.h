// Cgroups of ours, version 1 and 2 behind one face. A group is named by its path below the root of
// every hierarchy: "mixproof/lab-x/serve-0/llm.0". Only groups below "mixproof" are ever created,
// killed or removed; any other name is kInvalid. Process ids are those of the reader's pid
// namespace; members that it cannot see are not listed.
//
// Version 1 is used through its cpuset and freezer hierarchies, version 2 when its cpuset
// controller is free (on a hybrid machine version 1 holds it). There a group's own processes sit in
// its leaf ".self". Nothing is cached: mounts are looked up at every call.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/result.h"

namespace mixproof {

// Creates the group (and its parents) in the cpuset and freezer hierarchies (v1) or in the unified
// one (v2). `cpus` is a list as the kernel writes it ("0-1,3"); empty: those of the parent.
// Existing is fine; a different cpus list is applied (the kernel refuses one that a child group
// exceeds). kUnavailable when no usable hierarchy is mounted.
Status cgroup_create(const std::string& group, const std::string& cpus);

// Moves the calling process into a group that exists; it never creates one. Safe between fork and
// exec in a single-threaded parent.
Status cgroup_join(const std::string& group);

std::vector<int> cgroup_members(
    const std::string& group);  // pids as seen from here, of the group and all below it

// SIGKILLs every member (frozen first, so that nothing forks away) and waits for them to be gone;
// kTimeout names those left. Absent is success. kInvalid when the caller itself is a member.
Status cgroup_kill(const std::string& group, std::chrono::milliseconds deadline);

// Removes the group and all below it; members must be gone (the last of them get 2 s to leave).
// Absent is success. An empty "mixproof" above it goes too.
Status cgroup_remove(const std::string& group);

// Removes the group and then those above it, each only when it has neither members nor groups
// below. Never waits.
void cgroup_drop_empty(const std::string& group);

// What the functions above rest on; pure.
struct CgroupMounts {
  std::string cpuset, freezer;  // v1 mount points; empty when not mounted
  std::string unified;          // v2 mount point
};
CgroupMounts find_cgroup_mounts(std::string_view mountinfo);  // the text of /proc/self/mountinfo
Status check_cgroup_name(const std::string& group);

}  // namespace mixproof
