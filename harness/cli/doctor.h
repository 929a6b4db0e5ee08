// `mixproof doctor`: drills that show whether the tool itself can be trusted on this machine.
#pragma once

#include <span>
#include <string>

namespace mixproof {

int doctor_main(std::span<const std::string> args);

}  // namespace mixproof
