// Processes that are forks of this one and die with it. For a single-threaded parent.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>

#include "harness/base/result.h"
#include "harness/base/unique_fd.h"

namespace mixproof::inference {

struct Pipe {
  UniqueFd read, write;
};
Result<Pipe> make_pipe();
// Waits until `fd` can be read; false when the time came first.
bool readable_by(int fd, std::int64_t deadline_ns);

// `body` runs in the child; it leaves by _exit.
Result<pid_t> fork_child(const std::function<void()>& body);
void end_child(pid_t pid);  // kills it and takes its status

}  // namespace mixproof::inference
