#include "harness/controller/inventory.h"

#include <algorithm>
#include <cctype>
#include <deque>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/base/params.h"
#include "harness/base/text.h"

namespace mixproof {
namespace {

// Elements sit in deques, so that the bound variables stay where they are while the lists grow.
struct Form {
  std::deque<InventoryNode> nodes;
  std::deque<Inventory::Transport> transports;

  Params params() {
    return {required(list_of("nodes", "the nodes of the site",
                             [this](std::size_t index) {
                               while (nodes.size() <= index) nodes.emplace_back();
                               InventoryNode& node = nodes[index];
                               return Params{
                                   required(text("name", &node.name, "unique")),
                                   required(text("address", &node.address,
                                                 "numeric address for the others")),
                                   required(texts("roles", &node.roles, "serve, train, edge, ...")),
                                   any("labels", &node.labels, "rack, power domain: free"),
                                   text("transport", &node.transport, "how its agent is started"),
                                   text("cpus", &node.cpus,
                                        "cores for its services and loads with placement "
                                        "physical, as \"0-15\"; empty: all of them")};
                             })),
            map_of("transports", "words put before the agent's command line",
                   [this](const std::string& name) {
                     transports.push_back({.name = name});
                     Inventory::Transport& transport = transports.back();
                     return Params{required(texts("prefix", &transport.prefix,
                                                  "argv; {name} and {address} are filled in")),
                                   text("agent", &transport.agent, "the program on the node")};
                   })};
  }
};

const Inventory::Transport* transport_named(const Inventory& inventory, const std::string& name) {
  for (const Inventory::Transport& transport : inventory.transports)
    if (transport.name == name) return &transport;
  return nullptr;
}

bool made_of(std::string_view text, std::string_view more) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return std::isalnum(c) != 0 || more.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

// Names become paths and cgroups on the node, names and addresses stand in argument lists, and the
// agent's program goes through the node's login shell: ssh joins words with blanks and quotes
// nothing.
Status check_words(const InventoryNode& node, const std::string& pointer) {
  if (!made_of(node.name, "-_.") || node.name[0] == '-' || node.name[0] == '.')
    return Error{Code::kInvalid, pointer + "/name: \"" + node.name +
                                     "\": letters, digits, '-', '_' and '.', the first a letter "
                                     "or digit"};
  if (!made_of(node.address, ".:-_%") || node.address[0] == '-')
    return Error{Code::kInvalid, pointer + "/address: \"" + node.address +
                                     "\" is no address: letters, digits, '.', ':', '-', '_', '%'"};
  const bool list = std::all_of(node.cpus.begin(), node.cpus.end(), [](unsigned char c) {
    return std::isdigit(c) != 0 || c == '-' || c == ',';
  });
  if (!list)
    return Error{Code::kInvalid,
                 pointer + "/cpus: \"" + node.cpus + "\" is no list of cores, such as \"0-3,8\""};
  return ok();
}

Status check_program(const Inventory::Transport& transport) {
  if (made_of(transport.agent, "/._-+@:,=") && transport.agent[0] != '-') return ok();
  return Error{Code::kInvalid, "/transports/" + transport.name + "/agent: \"" + transport.agent +
                                   "\": shells on the way would take it apart; letters, digits "
                                   "and \"/._-+@:,=\" only"};
}

}  // namespace

Result<Inventory> read_inventory(const Json& json) {
  Form form;
  TRY(read_params(json, form.params()));
  Inventory out;
  out.nodes.assign(form.nodes.begin(), form.nodes.end());
  out.transports.assign(form.transports.begin(), form.transports.end());
  if (transport_named(out, "local") == nullptr) out.transports.push_back({.name = "local"});
  std::set<std::string> names;
  std::vector<std::string> transports;
  for (const Inventory::Transport& transport : out.transports) {
    TRY(check_program(transport));
    transports.push_back(transport.name);
  }
  for (std::size_t i = 0; i < out.nodes.size(); ++i) {
    const std::string pointer = "/nodes/" + std::to_string(i);
    const InventoryNode& node = out.nodes[i];
    TRY(check_words(node, pointer));
    if (!names.insert(node.name).second)
      return Error{Code::kInvalid, pointer + "/name: \"" + node.name + "\" is there twice"};
    if (transport_named(out, node.transport) == nullptr) {
      const std::string near = nearest(node.transport, transports);
      return Error{Code::kInvalid, pointer + "/transport: there is no transport \"" +
                                       node.transport + "\"" +
                                       (near.empty() ? "" : "; did you mean \"" + near + "\"?")};
    }
  }
  return out;
}

Json inventory_schema() {
  Form form;
  Json schema = schema_of(form.params());
  schema["$schema"] = "http://json-schema.org/draft-07/schema#";
  schema["title"] = "Mixproof inventory";
  return schema;
}

NodeAddress address_of(const Inventory& inventory, const InventoryNode& node,
                       const std::string& run) {
  const Inventory::Transport* transport = transport_named(inventory, node.transport);
  NodeAddress out{.name = node.name,
                  .role = node.roles.empty() ? "" : node.roles[0],
                  .address = node.address,
                  .prefix = {},
                  .agent = transport->agent,
                  .cgroup = "mixproof/" + run + "/" + node.name,
                  .cpus = node.cpus};
  for (const std::string& word : transport->prefix)
    out.prefix.push_back(
        replace_all(replace_all(word, "{name}", node.name), "{address}", node.address));
  return out;
}

Result<std::vector<NodeAddress>> nodes_from_inventory(const Inventory& inventory, const Plan& plan,
                                                      const std::string& run) {
  std::vector<NodeAddress> out;
  std::set<std::string> taken;
  for (const NodePlan& wanted : plan.nodes) {
    const auto it = std::find_if(
        inventory.nodes.begin(), inventory.nodes.end(), [&](const InventoryNode& node) {
          return taken.count(node.name) == 0 &&
                 std::find(node.roles.begin(), node.roles.end(), wanted.role) != node.roles.end();
        });
    if (it == inventory.nodes.end())
      return Error{Code::kInvalid, "the inventory has too few nodes with the role \"" +
                                       wanted.role + "\": none is left for " + wanted.name};
    taken.insert(it->name);
    NodeAddress address = address_of(inventory, *it, run);
    address.name = wanted.name;
    address.role = wanted.role;
    out.push_back(std::move(address));
  }
  return out;
}

}  // namespace mixproof
