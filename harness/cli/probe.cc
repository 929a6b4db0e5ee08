// `mixproof probe`: one measurement by hand.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "harness/cli/arguments.h"
#include "harness/cli/catalogue.h"
#include "harness/cli/fleet.h"
#include "harness/cli/hands.h"
#include "harness/cli/inspect.h"
#include "harness/cli/judging.h"

namespace mixproof {
namespace {

constexpr const char* kHelp =
    "usage: mixproof probe NAME [--param KEY=VALUE]... [--on NODE]... [--pid PID]... [--deadline 60s] [-i INVENTORY]\n"
    "\n"
    "Runs one probe and prints what it measured, a JSON row a line. Loads are run by suites.\n"
    "\n"
    "  --param KEY=VALUE   see `mixproof list probes`\n"
    "  --on NODE           a node of a lab or of the inventory; default: this machine (local)\n"
    "  --pid PID           processes on that node to look at, for probes that look at processes\n"
    "\n"
    "exit status: 0 measured; 3 it failed; 4 wrong usage\n";

Result<int> probe(const Arguments& arguments) {
  const std::string name = arguments.positional()[0];
  const Catalogue catalogue = build_catalogue();
  std::vector<std::string> names;
  for (const auto& [known, entry] : catalogue.probes) names.push_back(known);
  const auto entry = catalogue.probes.find(name);
  if (entry == catalogue.probes.end()) {
    const std::string near = nearest(name, names);
    return Error{Code::kInvalid, "there is no probe " + name +
                                     (near.empty() ? "" : "; did you mean " + near + "?")};
  }
  if (entry->second.load) return Error{Code::kInvalid, name + " is a load: it runs in a suite"};
  const Json given = TRY(params_from(arguments));
  TRY(entry->second.check_params(name, given, ""));
  ProbeTargets targets;
  for (const std::string& pid : arguments.all("--pid"))
    targets.pids.push_back(std::atoi(pid.c_str()));
  const double deadline_s = TRY(parse_duration_s(arguments.get("--deadline", "60s")));
  std::vector<std::string> on = arguments.all("--on");
  if (on.empty()) on = {"local"};
  const std::vector<NodeAddress> nodes = TRY(find_nodes(arguments.get("--inventory"), on));
  const std::unique_ptr<RealWorld> world = TRY(make_epoll_world());
  Hands hands(*world, nodes, [](const Json& row) { std::printf("%s\n", line_of(row).c_str()); });
  TRY(hands.connect());
  std::optional<Error> failure;
  std::size_t left = nodes.size();
  for (const NodeAddress& node : nodes)
    hands.probes().run(node.name, name, given, targets,
                       Time(static_cast<std::int64_t>(deadline_s * 1e9)),
                       [&failure, &left, &node](const Result<std::vector<Json>>& rows) {
                         --left;
                         if (!rows.ok()) failure = Error(rows.error()).in(node.name);
                       });
  const Status ran = hands.run_until([&] { return left == 0 || hands.interrupted(); });
  hands.leave();
  if (!ran.ok()) return ran.error();
  if (failure) return *failure;
  return hands.interrupted() ? 130 : 0;
}

}  // namespace

int probe_main(std::span<const std::string> args) {
  const Result<Arguments> arguments = Arguments::parse(args, {{"--param", ""},
                                                              {"--on", ""},
                                                              {"--pid", ""},
                                                              {"--deadline", ""},
                                                              {"--inventory", "-i"},
                                                              {"--help", "-h", false}});
  if (!arguments.ok()) return command_failed("probe", arguments.error());
  if (arguments->has("--help") || arguments->positional().size() != 1) {
    std::fputs(kHelp, arguments->has("--help") ? stdout : stderr);
    return arguments->has("--help") ? 0 : 4;
  }
  const Result<int> code = probe(*arguments);
  return code.ok() ? *code : command_failed("probe", code.error());
}

}  // namespace mixproof
