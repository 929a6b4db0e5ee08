#include "suites/fault_parts.h"

#include <algorithm>

#include "harness/base/text.h"
#include "reports/fault_words.h"
#include "suites/plan_check.h"

namespace mixproof {
namespace {

using Part = FaultPlanEntry::Part;

// "llm[0]", a service's instance or a rank of a load, and its node.
std::vector<std::pair<std::string, std::string>> running_things(const Plan& plan) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const ServicePlan& service : plan.services)
    for (const ServicePlan::Instance& instance : service.instances)
      out.emplace_back(instance.name, instance.node);
  for (const LoadPlan& load : plan.loads)
    for (std::size_t i = 0; i < load.nodes.size(); ++i)
      out.emplace_back(load.name + "[" + std::to_string(i) + "]", load.nodes[i]);
  return out;
}

// A node, or all nodes of a role.
Result<std::vector<std::string>> nodes_named(const std::string& pointer, const std::string& kind,
                                             const std::string& name, const Plan& plan) {
  std::vector<std::string> nodes = plan.nodes_of(name), known;
  if (!nodes.empty()) return nodes;
  for (const NodePlan& node : plan.nodes) {
    known.push_back(node.name);
    if (std::find(known.begin(), known.end(), node.role) == known.end()) known.push_back(node.role);
  }
  TRY(check_known(pointer, kind, name, known));
  return std::vector<std::string>{name};
}

Result<std::vector<Part>> between(const FaultPlanEntry& fault, const std::string& pointer,
                                  const std::vector<std::string>& targets, const Plan& plan) {
  if (fault.peers.empty())
    return invalid_at(
        pointer, fault.fault + " needs \"peers\": from whom " + fault.target + " is to be cut off");
  std::vector<std::string> peers;
  for (std::size_t i = 0; i < fault.peers.size(); ++i) {
    const std::string place = pointer + "/peers/" + std::to_string(i);
    const std::vector<std::string> named =
        TRY(nodes_named(place, "node or role", fault.peers[i], plan));
    for (const std::string& node : named) {
      if (std::find(targets.begin(), targets.end(), node) != targets.end())
        return invalid_at(place, node + " would be cut off from itself");
      if (std::find(peers.begin(), peers.end(), node) == peers.end()) peers.push_back(node);
    }
  }
  std::vector<Part> out;
  if (fault.direction != "out")
    for (const std::string& node : targets) out.push_back({node, peers});
  if (fault.direction != "in")
    for (const std::string& node : peers) out.push_back({node, targets});
  return out;
}

}  // namespace

Result<std::vector<Part>> fault_parts(const FaultPlanEntry& fault, const Catalogue::Fault& kind,
                                      const std::string& pointer, const Plan& plan) {
  if (kind.hits != "peers" && !fault.peers.empty())
    return invalid_at(pointer + "/peers", fault.fault + " has no peers");
  if (kind.hits != "processes") {
    const std::vector<std::string> targets =
        TRY(nodes_named(pointer + "/target", "node or role", fault.target, plan));
    if (kind.hits == "peers") return between(fault, pointer, targets, plan);
    std::vector<Part> out;
    for (const std::string& node : targets) out.push_back({node, {}});
    return out;
  }
  std::vector<std::string> known;
  for (const auto& [name, node] : running_things(plan)) {
    if (name == fault.target) return std::vector<Part>{{node, {}}};
    known.push_back(name);
  }
  Status unknown = check_known(pointer + "/target", "target", fault.target, known);
  return unknown.error();
}

std::string fault_words(const FaultPlanEntry& fault) {
  return fault_words(fault.fault, fault.target, fault.peers, fault.direction);
}

}  // namespace mixproof
