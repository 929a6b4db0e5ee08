// `mixproof lab`: see kHelp in the .cc.
#pragma once

#include <span>
#include <string>

namespace mixproof {

int lab_main(std::span<const std::string> args);  // what follows "lab"; the exit status

}  // namespace mixproof
