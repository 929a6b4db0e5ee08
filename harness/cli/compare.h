// `mixproof demo --compare`: the suite compare under both placements in turn, and one table of what
// that changes.
#pragma once

#include <span>
#include <string>

namespace mixproof {

int compare_main(std::span<const std::string> args);

}  // namespace mixproof
