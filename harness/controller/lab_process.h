// Processes of a lab: its inits, recognised beyond doubt, and the tools that make its parts.
// Internal to the lab.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/base/result.h"

namespace mixproof {

std::uint64_t start_ticks_of(int pid);  // field 22 of /proc/PID/stat; 0 when it is gone or a zombie

// True for `mixproof lab-init --lab <lab> ...` and nothing else: the mark of our inits.
bool is_init_of(int pid, const std::string& lab);

// SIGKILLs an init, if pid, start time and mark all agree, and waits for its end; anything else is
// left alone.
Status end_init(int pid, std::uint64_t start, const std::string& lab,
                std::chrono::milliseconds deadline);

struct Tool {
  std::vector<std::string> argv;
  std::string input;   // its stdin
  std::string cgroup;  // joined before it starts, so that a tool whose caller was killed is found
  int net_of_pid = 0;  // whose network namespace it works in; 0: ours
};

// Runs it to its end, within 30 s. It dies with us. A failure carries what it printed; kUnavailable
// when it is not installed.
Status run_tool(const Tool& tool);

}  // namespace mixproof
