// What would settle an inconclusive check.
#pragma once

#include <string>

#include "suites/limits.h"

namespace mixproof {

// "45 s", and above two minutes "3 minutes"; rounded up.
std::string duration_text(double seconds);

// Sets resolve and resolve_numbers; leaves them alone where nothing is known to help.
void set_resolve(const JudgeInput& input, Check& check);

}  // namespace mixproof
