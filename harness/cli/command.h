// What all subcommands share: how a failure becomes a message and an exit status, and where this program is.
#pragma once

#include <string>

#include "harness/base/result.h"

namespace mixproof {

// Exit statuses (README): 3 harness error, 4 usage or configuration, 6 refused now.
int exit_of(Code code);

// Prints "mixproof <command>: <message>" to stderr and returns the exit status of the error.
int fail_command(const std::string& command, const Error& error);

std::string program_path();   // of this executable
std::string state_directory();   // MIXPROOF_STATE_DIR, else /var/lib/mixproof for root, else below the home directory

}  // namespace mixproof
