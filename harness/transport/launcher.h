// Launcher: how an agent is started on a node. A transport is only the words put before the agent's
// command line.
#pragma once

#include <string>
#include <vector>

namespace mixproof {

struct NodeAddress {
  std::string name, role, address;  // "serve-0", "serve", "10.77.0.3"
  std::vector<std::string>
      prefix;  // words before "mixproof agent"; {name} and {address} are substituted
  std::string agent = "mixproof";  // the program on that node
  std::string cgroup;  // where the run's cgroups go on that node; empty: "mixproof/<node>"
};

// The argv that starts the agent on `node`.
std::vector<std::string> agent_command(const NodeAddress& node);

}  // namespace mixproof
