// spawn_process: fork and exec with everything a child of ours gets. For a single-threaded parent.
#pragma once

#include "harness/base/unique_fd.h"
#include "harness/base/world.h"

namespace mixproof {

struct Spawned {
  int pid = 0;
  UniqueFd pidfd;
  UniqueFd input, output;  // ours: its stdin and stdout; null unless spec.lines
};

// An exec that fails is an error here, not an exit of the child: "start haproxy: No such file or
// directory"; kInvalid when there is no such program.
Result<Spawned> spawn_process(const ChildSpec& spec);

}  // namespace mixproof
