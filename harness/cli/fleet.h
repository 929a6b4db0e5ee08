// Fleet: where a command's nodes are: an inventory's, a lab that is up and free, or a lab of its
// own that goes down with the command.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/controller/inventory.h"
#include "harness/controller/lab.h"
#include "harness/transport/launcher.h"
#include "suites/plan.h"

namespace mixproof {

struct Fleet {
  std::vector<NodeAddress> nodes;
  std::string where;                   // for people: "lab \"lab\"", "inventory site.json"
  std::optional<std::string> own_lab;  // to be taken down by close_fleet
};

// `inventory`: a path; empty: a lab. kInvalid when not root and there is no inventory.
Result<Fleet> open_fleet(const Plan& plan, const std::string& inventory, const std::string& run);

// Takes the fleet's own lab down; without one nothing.
Status close_fleet(const Fleet& fleet);

// Nodes for commands without a plan: those of the inventory, else of every lab, else this machine
// as "local". `only` keeps the named ones; kInvalid when one is not there (with the nearest name).
Result<std::vector<NodeAddress>> find_nodes(const std::string& inventory,
                                            const std::vector<std::string>& only);

}  // namespace mixproof
