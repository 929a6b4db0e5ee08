#include "harness/cli/fleet.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/base/epoll_world.h"
#include "harness/base/text.h"
#include "harness/cli/command.h"

namespace mixproof {
namespace {

NodeAddress lab_address(const LabNode& node, const std::string& user) {
  return {.name = node.name,
          .role = node.role,
          .address = node.address,
          .prefix = lab_prefix(node),
          .agent = program_path(),
          .cgroup = node.cgroup + "/" + user};
}

// The lab's nodes for the plan's, by role and in order; none when the lab has too few of a role.
std::optional<std::vector<NodeAddress>> match(const Lab& lab, const Plan& plan) {
  std::vector<NodeAddress> out;
  std::set<std::string> taken;
  for (const NodePlan& wanted : plan.nodes) {
    const auto it = std::find_if(lab.nodes.begin(), lab.nodes.end(), [&](const LabNode& node) {
      return node.role == wanted.role && taken.count(node.name) == 0;
    });
    if (it == lab.nodes.end()) return std::nullopt;
    taken.insert(it->name);
    NodeAddress address = lab_address(*it, "run");
    address.name = wanted.name;
    out.push_back(std::move(address));
  }
  return out;
}

Result<Inventory> load_inventory(const std::string& path) {
  const Result<std::string> text = make_real_files()->read(path);
  if (!text.ok()) return Error{Code::kInvalid, "inventory: " + text.error().message};
  const Json json = TRY(parse_json(*text, path));
  Result<Inventory> inventory = read_inventory(json);
  if (!inventory.ok()) return Error{Code::kInvalid, path + ": " + inventory.error().message};
  return inventory;
}

Result<Fleet> standing_lab(const Plan& plan) {
  const std::vector<Lab> all = TRY(labs());
  for (const Lab& lab : all) {
    if (!lab.standing || !lab.damage.empty() || lab_is_stale(lab)) continue;
    std::optional<std::vector<NodeAddress>> nodes = match(lab, plan);
    if (!nodes || !lab_claim(lab).ok()) continue;
    return Fleet{.nodes = std::move(*nodes),
                 .where = "lab " + lab.name + " (stays up)",
                 .own_lab = std::nullopt};
  }
  return Fleet{};
}

}  // namespace

Result<Fleet> open_fleet(const Plan& plan, const std::string& inventory_path,
                         const std::string& run) {
  if (!inventory_path.empty()) {
    const Inventory inventory = TRY(load_inventory(inventory_path));
    std::vector<NodeAddress> nodes = TRY(nodes_from_inventory(inventory, plan, run));
    return Fleet{
        .nodes = std::move(nodes), .where = "inventory " + inventory_path, .own_lab = std::nullopt};
  }
  if (::geteuid() != 0)
    return Error{Code::kInvalid,
                 "a lab needs root: run it as root, or give an inventory (-i FILE)"};
  Fleet standing = TRY(standing_lab(plan));
  if (!standing.nodes.empty()) return standing;
  TRY(lab_clear_stale());
  LabRequest request;
  request.name = "run-" + std::to_string(::getpid());
  for (const NodePlan& node : plan.nodes) request.nodes.emplace_back(node.name, node.role);
  const Lab lab = TRY(lab_up(request));
  TRY(lab_claim(lab));
  Fleet fleet{.nodes = {}, .where = "a lab of its own", .own_lab = lab.name};
  fleet.nodes = *match(lab, plan);
  return fleet;
}

Status close_fleet(const Fleet& fleet) {
  if (!fleet.own_lab) return ok();
  return lab_down(*fleet.own_lab);
}

Result<std::vector<NodeAddress>> find_nodes(const std::string& inventory_path,
                                            const std::vector<std::string>& only) {
  std::vector<NodeAddress> all;
  if (!inventory_path.empty()) {
    const Inventory inventory = TRY(load_inventory(inventory_path));
    for (const InventoryNode& node : inventory.nodes)
      all.push_back(address_of(inventory, node, "by-hand"));
  } else {
    const std::vector<Lab> known = TRY(labs());
    for (const Lab& lab : known)
      if (lab.damage.empty() && !lab_is_stale(lab))
        for (const LabNode& node : lab.nodes) all.push_back(lab_address(node, "by-hand"));
    all.push_back({.name = "local",
                   .role = "",
                   .address = "127.0.0.1",
                   .prefix = {},
                   .agent = program_path(),
                   .cgroup = ::geteuid() == 0 ? "mixproof/local" : ""});
  }
  if (only.empty()) return all;
  std::vector<NodeAddress> out;
  for (const std::string& name : only) {
    const auto it = std::find_if(all.begin(), all.end(),
                                 [&](const NodeAddress& node) { return node.name == name; });
    if (it != all.end()) {
      out.push_back(*it);
      continue;
    }
    std::vector<std::string> names;
    for (const NodeAddress& node : all) names.push_back(node.name);
    const std::string near = nearest(name, names);
    return Error{Code::kInvalid, "there is no node " + name +
                                     (near.empty() ? " (there are: " + join(names, ", ") + ")"
                                                   : "; did you mean " + near + "?")};
  }
  return out;
}

}  // namespace mixproof
