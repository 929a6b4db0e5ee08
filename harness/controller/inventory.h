// Inventory: the nodes of a site and how agents are started on them.
//   {"nodes": [{"name", "address", "roles": ["serve"], "labels": {}, "transport": "ssh", "cpus"}],
//    "transports": {"ssh": {"prefix": ["ssh", "-o", "BatchMode=yes", "{address}"], "agent":
//    "/usr/bin/mixproof"}}}
// The transport "local" (no prefix) is always there.
#pragma once

#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/transport/launcher.h"
#include "suites/plan.h"

namespace mixproof {

struct InventoryNode {
  std::string name, address, transport = "local";
  std::string cpus;  // "0-15": what placement "physical" keeps this node's part on; empty: all
  std::vector<std::string> roles;
  Json labels;
};

struct Inventory {
  struct Transport {
    std::string name, agent = "mixproof";
    std::vector<std::string> prefix;
  };
  std::vector<InventoryNode> nodes;
  std::vector<Transport> transports;
};

// kInvalid with the JSON pointer of what is wrong.
Result<Inventory> read_inventory(const Json& json);
Json inventory_schema();  // draft-07

// Gives every node of the plan one of the inventory with that role, in order. kInvalid when a role
// has too few.
Result<std::vector<NodeAddress>> nodes_from_inventory(const Inventory& inventory, const Plan& plan,
                                                      const std::string& run);

// "{name}" and "{address}" of a prefix filled in; the agent's program; the cgroup of a run there.
NodeAddress address_of(const Inventory& inventory, const InventoryNode& node,
                       const std::string& run);

}  // namespace mixproof
