// Runs a short program to its end and takes what it printed: how services learn what is installed.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "harness/base/result.h"

namespace mixproof {

struct ProgramOutput {
  int exit_code = 0;  // 128 + number when a signal ended it
  std::string out;    // stdout and stderr together, at most 64 KiB
};

// kSystem when it cannot be started; kTimeout, after ending it, when it runs past the deadline.
Result<ProgramOutput> run_program(const std::vector<std::string>& argv,
                                  std::chrono::milliseconds deadline);

std::string first_line(const std::string& text);

// The program's path in PATH or the system folders (which PATH lacks for users); empty when it is
// nowhere.
std::string find_program(const std::string& name);

}  // namespace mixproof
