// A plan in words.
#pragma once

#include <string>

#include "suites/plan.h"

namespace mixproof {

std::string plan_text(const Plan& plan);

}  // namespace mixproof
