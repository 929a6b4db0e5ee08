#include "reports/fault_words.h"

#include "harness/base/text.h"

namespace mixproof {

std::string fault_words(const std::string& fault, const std::string& target,
                        const std::vector<std::string>& peers, const std::string& direction) {
  if (peers.empty()) return fault + " on " + target;
  const std::string others = join(peers, ", ");
  if (direction == "in") return fault + " of what " + others + " sends to " + target;
  if (direction == "out") return fault + " of what " + target + " sends to " + others;
  return fault + " between " + target + " and " + others;
}

}  // namespace mixproof
