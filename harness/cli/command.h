// Where this program and its state are, and how it is scheduled.
#pragma once

#include <string>

namespace mixproof {

// Controller, agents and guards must act in time on a machine that is busy by design. Where raising
// the priority is not allowed they do without.
void raise_priority();

std::string program_path();     // of this executable
std::string suite_directory();  // of the suites that come with it
std::string state_directory();  // MIXPROOF_STATE_DIR, else /var/lib/mixproof for root, else below
                                // the home directory

}  // namespace mixproof
