// Commands on nodes without a run: `probe` and `fault`, and `list`.
#pragma once

#include <span>
#include <string>

namespace mixproof {

int probe_main(std::span<const std::string> args);
int fault_main(std::span<const std::string> args);
int list_main(std::span<const std::string> args);

}  // namespace mixproof
