// Launcher: how an agent is started on a node. A transport is only the words put before the agent's
// command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/base/result.h"

namespace mixproof {

struct NodeAddress {
  std::string name, role, address;  // "serve-0", "serve", "10.77.0.3"
  std::vector<std::string> prefix;  // words before "mixproof agent"
  std::string agent = "mixproof";   // the program on that node
  std::string cgroup;     // where the run's cgroups go on that node; empty: "mixproof/<node>"
  std::string cpus = {};  // the cores of a node of an inventory that the run is kept on; empty: all
};

// The argv that starts the agent on `node`.
std::vector<std::string> agent_command(const NodeAddress& node);

// Why no agent answered, from how its launcher ended and what it said. kInvalid: the same command
// cannot work, because there is no such program on the node (126 and 127 are the words of every
// shell for it) or ssh refuses a key (it ends with 255 whatever it is; its words are those of
// OpenSSH). kPeerLost: anything else; it may work later.
Code why_no_agent(int wait_status, std::string_view said);

}  // namespace mixproof
