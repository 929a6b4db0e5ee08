// `mixproof fault`: one fault by hand, and what became of faults on nodes.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "harness/cli/arguments.h"
#include "harness/cli/catalogue.h"
#include "harness/cli/fleet.h"
#include "harness/cli/hands.h"
#include "harness/cli/inspect.h"
#include "harness/cli/judging.h"
#include "harness/controller/fault_run.h"

namespace mixproof {
namespace {

constexpr const char* kHelp =
    "usage: mixproof fault inject NAME --on NODE [--pid PID]... [--from NODE]... [--for 5s] [--lease 15s]\n"
    "                             [--param KEY=VALUE]... [--dry-run] [--yes]\n"
    "       mixproof fault status  [--on NODE]... [-i INVENTORY] [--json]\n"
    "       mixproof fault revert  [--on NODE]... [-i INVENTORY]\n"
    "       mixproof fault recover [--on NODE]... [-i INVENTORY]\n"
    "\n"
    "inject   shows the plan, asks, and holds the fault for the time given, or until Ctrl-C; then reverts and proves it\n"
    "status   what every node's journals say, newest last; undoes first what a dead guard left behind\n"
    "revert   ends faults that are in effect now; recover also brings to an end whatever is not proved clean\n"
    "\n"
    "  --on NODE    a node of a lab or of the inventory; default: all that are known, for inject this machine (local)\n"
    "  --pid PID    a process on that node: what faults on processes hit\n"
    "  --from NODE  the node whose packets are kept from it, for faults between nodes\n"
    "  --for 5s     how long it stays; not for faults that are over at once\n"
    "  --lease 15s  how long the fault may last after the last renewal, when everything else has died; renewed at a third\n"
    "\n"
    "exit status: 0 done, clean; 2 not effective; 3 failed; 4 wrong usage; 5 not proved clean; 6 refused now\n";

constexpr double kLeaseMin_s = 1, kLeaseMax_s = 300;
constexpr Time kRecoverDeadline = std::chrono::seconds(25);

const char* words_of_lease(const std::string& lease) {
  return lease == "kernel"  ? " (ends with its guard's process, by the kernel)"
         : lease == "guard" ? " (ended by its guard)"
                            : " (over at once; nothing undoes it)";
}

// As FaultRun asks for them.
Result<Json> addresses_of(Hands& hands, const std::vector<std::string>& nodes) {
  Json out = Json::array();
  for (const std::string& node : nodes) {
    std::optional<Result<Json>> reply;
    hands.link(node)->ask({{"do", "addresses"}}, std::chrono::seconds(5),
                          [&reply](const Result<Json>& answer) { reply = answer; });
    TRY(hands.run_until([&reply] { return reply.has_value(); }));
    if (!reply->ok()) return Error(reply->error()).in(node);
    out.push_back({{"node", node}, {"addresses", (*reply)->at("addresses")}});
  }
  return out;
}

// The plan as the node makes it, for people.
Status show_plan(Hands& hands, const std::string& node, const Json& request) {
  std::optional<Result<Json>> reply;
  hands.link(node)->ask(request, std::chrono::seconds(5),
                        [&reply](const Result<Json>& answer) { reply = answer; });
  TRY(hands.run_until([&reply] { return reply.has_value(); }));
  if (!reply->ok()) return reply->error();
  const Json& plan = **reply;
  std::fprintf(stderr, "on %s:\n", node.c_str());
  if (const Json* steps = member(plan, "steps"))
    for (const Json& step : *steps)
      std::fprintf(stderr, "  %s%s\n", text_at(step, "words").c_str(),
                   words_of_lease(text_at(step, "lease")));
  if (const Json* touches = member(plan, "touches"))
    for (const Json& touch : *touches)
      std::fprintf(stderr, "  touches %s\n", touch.get<std::string>().c_str());
  std::fprintf(stderr, "  after SIGKILL of everything of ours: %s\n",
               text_at(plan, "residual_life").c_str());
  return ok();
}

struct Injection {
  std::string fault, node;
  FaultPlanEntry entry;
  ProbeTargets target;
  std::vector<std::string> from;
  Time lease{0};
};

// What the fault needs to be told, and nothing else.
Status read_target(const Arguments& arguments, const Catalogue::Fault& kind, Injection& out) {
  for (const std::string& pid : arguments.all("--pid"))
    out.target.pids.push_back(std::atoi(pid.c_str()));
  out.from = arguments.all("--from");
  const bool processes = kind.hits == "processes", peers = kind.hits == "peers";
  if (processes && out.target.empty())
    return Error{Code::kInvalid, "--pid is missing: what is the fault to hit?"};
  if (!processes && !out.target.empty())
    return Error{Code::kInvalid, "--pid: " + out.fault + " hits a node, not a process"};
  if (peers && out.from.empty())
    return Error{Code::kInvalid, "--from is missing: whose packets are to be kept from the node?"};
  if (!peers && !out.from.empty())
    return Error{Code::kInvalid, "--from: " + out.fault + " is no fault between nodes"};
  for (const std::string& node : out.from)
    if (node == out.node) return Error{Code::kInvalid, "--from: that is the node itself"};
  out.entry.target =
      processes ? "process " + join(arguments.all("--pid"), ", ") : "node " + out.node;
  return ok();
}

Result<Injection> read_injection(const Arguments& arguments) {
  Injection out;
  out.fault = arguments.positional().at(1);
  const Catalogue catalogue = build_catalogue();
  const auto entry = catalogue.faults.find(out.fault);
  if (entry == catalogue.faults.end()) {
    std::vector<std::string> names;
    for (const auto& [known, fault] : catalogue.faults) names.push_back(known);
    const std::string near = nearest(out.fault, names);
    return Error{Code::kInvalid, "there is no fault " + out.fault +
                                     (near.empty() ? "" : "; did you mean " + near + "?")};
  }
  const Json given = TRY(params_from(arguments));
  out.entry.params = TRY(entry->second.check_params(out.fault, given, ""));
  out.node = arguments.get("--on", "local");
  TRY(read_target(arguments, entry->second, out));
  if (entry->second.one_shot && arguments.has("--for"))
    return Error{Code::kInvalid, "--for: " + out.fault + " is over at once"};
  if (!entry->second.one_shot)
    out.entry.for_s = TRY(parse_duration_s(arguments.get("--for", "24m")));
  const double lease_s = TRY(parse_duration_s(arguments.get("--lease", "15s")));
  if (!(lease_s >= kLeaseMin_s && lease_s <= kLeaseMax_s))
    return Error{Code::kInvalid, "--lease must be 1s to 300s"};
  out.lease = Time(static_cast<std::int64_t>(lease_s * 1e9));
  out.entry.id = "by-hand/0";
  out.entry.fault = out.fault;
  return out;
}

void print_state(const Json& row) {
  const std::string detail = text_at(row, "detail");
  std::fprintf(stderr, "%s: %s%s\n", text_at(row, "kind").c_str(), text_at(row, "state").c_str(),
               detail.empty() ? "" : (" (" + detail + ")").c_str());
}

Result<int> inject(const Arguments& arguments) {
  const Injection what = TRY(read_injection(arguments));
  std::vector<std::string> names = what.from;
  names.push_back(what.node);
  const std::vector<NodeAddress> nodes = TRY(find_nodes(arguments.get("--inventory"), names));
  const std::unique_ptr<RealWorld> world = TRY(make_epoll_world());
  Hands hands(*world, nodes, [](const Json&) {});
  TRY(hands.connect());
  const Status shown = show_plan(hands, what.node,
                                 {{"do", "plan_fault"},
                                  {"fault", what.fault},
                                  {"params", what.entry.params},
                                  {"target", what.entry.target},
                                  {"pids", what.target.pids},
                                  {"from", TRY(addresses_of(hands, what.from))}});
  if (!shown.ok() || arguments.has("--dry-run")) {
    hands.leave();
    if (!shown.ok()) return shown.error();
    return 0;
  }
  if (!arguments.has("--yes")) {
    hands.leave();
    return Error{Code::kInvalid, "say --yes to inject it"};
  }
  std::string state;
  bool effective = false, cut_short = false;
  FaultHost host{.link = [&](const std::string& node) { return hands.link(node); },
                 .record =
                     [&](const Json& row) {
                       state = text_at(row, "state");
                       effective = effective || state == "effective";
                       cut_short = cut_short || state == "guard_lost";
                       print_state(row);
                     },
                 .run_probe =
                     [&](const std::string& node, const std::string& probe, Json params,
                         const ProbeTargets& targets, ProbeRunner::Rows then) {
                       hands.probes().run(node, probe, std::move(params), targets,
                                          std::chrono::seconds(6), std::move(then));
                     },
                 .tasks_by_node = [] { return std::map<std::string, std::vector<std::string>>(); },
                 .new_link =
                     [&](const std::string& node, AgentLink::Events events) {
                       return hands.new_link(node, std::move(events));
                     }};
  FaultRun fault(*world, std::move(host),
                 {.entry = what.entry,
                  .node = what.node,
                  .target = what.target,
                  .from = what.from,
                  .run = hands.run(),
                  .lease = what.lease,
                  .renew_every = what.lease / 3,
                  .latest_end = world->now(Clock::kMonotonic) + std::chrono::hours(24),
                  .by_hand = true},
                 [] {});
  hands.on_fault = [&fault](const std::string&, const Json& event) { fault.on_event(event); };
  hands.on_lost = [&](const std::string&) {
    cut_short = true;
    fault.node_lost();
  };
  hands.on_interrupt = [&fault] { fault.revert("Ctrl-C"); };
  fault.look_before();
  world->after(std::chrono::milliseconds(1200), [&fault] { fault.inject(); });
  world->run_until([&fault] { return fault.finished(); });
  hands.leave();
  if (state == "clean") return cut_short ? 3 : effective ? 0 : 2;
  return state == "refused" ? 6 : state == "not_injected" ? 3 : 5;
}

std::string fault_line(const std::string& node, const Json& fault) {
  std::string state = text_at(fault, "state");
  if (flag_at(fault, "guarded"))
    state += ", in effect, guard " + std::to_string(integer_at(fault, "guard_pid"));
  const std::string reason = text_at(fault, "reason");
  return node + "  " + text_at(fault, "run") + "  " + text_at(fault, "fault") + "  " + state +
         (reason.empty() ? "" : "  " + reason);
}

// Asks every node; with an order other than "faults" again and again until all is resolved or the
// deadline has passed.
Result<int> tell(const Arguments& arguments, const std::string& order) {
  const std::vector<NodeAddress> nodes =
      TRY(find_nodes(arguments.get("--inventory"), arguments.all("--on")));
  const std::unique_ptr<RealWorld> world = TRY(make_epoll_world());
  Hands hands(*world, nodes, [](const Json&) {});
  TRY(hands.connect());
  const Time deadline = world->now(Clock::kMonotonic) + kRecoverDeadline;
  std::map<std::string, Json> answers;
  bool unresolved = true;
  while (unresolved && !hands.interrupted()) {
    answers.clear();
    std::optional<Error> failure;
    for (const NodeAddress& node : nodes)
      hands.link(node.name)->ask({{"do", order}}, std::chrono::seconds(10),
                                 [&, name = node.name](const Result<Json>& reply) {
                                   if (!reply.ok()) failure = Error(reply.error()).in(name);
                                   answers[name] = reply.ok() ? *reply : Json::object();
                                 });
    TRY(hands.run_until([&] { return answers.size() == nodes.size(); }));
    if (failure) return *failure;
    unresolved = false;
    for (const auto& [name, answer] : answers)
      for (const Json& fault : answer.at("faults"))
        unresolved = unresolved || !flag_at(fault, "resolved");
    if (order == "faults" || world->now(Clock::kMonotonic) > deadline) break;
    if (!unresolved) break;
    bool waited = false;
    world->after(std::chrono::milliseconds(200), [&waited] { waited = true; });
    TRY(hands.run_until([&waited] { return waited; }));
  }
  hands.leave();
  int shown = 0;
  for (const auto& [name, answer] : answers)
    for (const Json& fault : answer.at("faults")) {
      ++shown;
      if (arguments.has("--json")) {
        Json out = fault;
        out["node"] = name;
        std::printf("%s\n", line_of(out).c_str());
      } else {
        std::fprintf(stderr, "%s\n", fault_line(name, fault).c_str());
      }
    }
  if (!arguments.has("--json"))
    std::fprintf(stderr, "%zu nodes, %d faults in their journals%s\n", nodes.size(), shown,
                 unresolved   ? ", NOT ALL RESOLVED"
                 : shown == 0 ? ""
                              : ", all resolved");
  return unresolved ? 5 : 0;
}

}  // namespace

int fault_main(std::span<const std::string> args) {
  const Result<Arguments> arguments = Arguments::parse(args, {{"--on", ""},
                                                              {"--pid", ""},
                                                              {"--from", ""},
                                                              {"--for", ""},
                                                              {"--lease", ""},
                                                              {"--param", ""},
                                                              {"--inventory", "-i"},
                                                              {"--dry-run", "", false},
                                                              {"--yes", "", false},
                                                              {"--json", "", false},
                                                              {"--help", "-h", false}});
  if (!arguments.ok()) return command_failed("fault", arguments.error());
  const std::vector<std::string>& words = arguments->positional();
  const std::string verb = words.empty() ? "" : words[0];
  const bool known =
      (verb == "inject" && words.size() == 2) ||
      ((verb == "status" || verb == "revert" || verb == "recover") && words.size() == 1);
  if (arguments->has("--help") || !known) {
    std::fputs(kHelp, arguments->has("--help") ? stdout : stderr);
    return arguments->has("--help") ? 0 : 4;
  }
  const Result<int> code = verb == "inject"   ? inject(*arguments)
                           : verb == "status" ? tell(*arguments, "faults")
                                              : tell(*arguments, "recover");
  return code.ok() ? *code : command_failed("fault", code.error());
}

}  // namespace mixproof
