// `mixproof run`, `plan` and `demo`.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace mixproof {

int run_main(std::span<const std::string> args);
int demo_main(std::span<const std::string> args);
int plan_main(std::span<const std::string> args);

}  // namespace mixproof
