// Where this program and its state are.
#pragma once

#include <string>

namespace mixproof {

std::string program_path();   // of this executable
std::string suite_directory();   // of the suites that come with it
std::string state_directory();   // MIXPROOF_STATE_DIR, else /var/lib/mixproof for root, else below the home directory

}  // namespace mixproof
