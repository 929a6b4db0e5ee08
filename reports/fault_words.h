// What a fault of a plan is called where people read of it.
#pragma once

#include <string>
#include <vector>

namespace mixproof {

// "process_kill on llm[0]", "net_drop between train-0 and train-1", "net_drop of what train-1 sends
// to train-0". The direction (both, in, out) is as the target sees it.
std::string fault_words(const std::string& fault, const std::string& target,
                        const std::vector<std::string>& peers, const std::string& direction);

}  // namespace mixproof
