#include "harness/transport/launcher.h"

#include <sys/wait.h>

namespace mixproof {

std::vector<std::string> agent_command(const NodeAddress& node) {
  std::vector<std::string> argv = node.prefix;
  argv.push_back(node.agent);
  argv.push_back("agent");
  return argv;
}

Code why_no_agent(int wait_status, std::string_view said) {
  if (!WIFEXITED(wait_status)) return Code::kPeerLost;
  const int status = WEXITSTATUS(wait_status);
  if (status == 126 || status == 127) return Code::kInvalid;
  if (status == 255)
    for (const char* words : {"Permission denied", "Host key verification failed"})
      if (said.find(words) != std::string_view::npos) return Code::kInvalid;
  return Code::kPeerLost;
}

}  // namespace mixproof
