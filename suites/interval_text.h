// Method interval in words.
#pragma once

#include <string>

#include "suites/figure.h"

namespace mixproof {

// "1.34 (between 1.21 and 1.48, n 176, 22 blocks)", and what the noise did to the margin.
std::string interval_text(const Limit& limit, const Figure& figure);

// What would settle an inconclusive check. Empty for reasons of other methods.
struct Advice {
  std::string text;
  Json numbers = nullptr;
};
Advice interval_advice(const JudgeInput& input, const Limit& limit, const Figure& figure,
                       const std::string& reason);

}  // namespace mixproof
