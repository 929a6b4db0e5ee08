#include "harness/cli/lab.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "harness/base/json.h"
#include "harness/base/text.h"
#include "harness/cli/signals_held.h"
#include "harness/controller/lab.h"

namespace mixproof {
namespace {

constexpr const char* kHelp =
    "usage: mixproof lab up [--nodes N | --nodes ROLE=N,...] [--name NAME] [--link-rate RATE]\n"
    "       mixproof lab down [NAME | --all] [--force]\n"
    "       mixproof lab status [--json]\n"
    "       mixproof lab exec NODE [--name NAME] -- COMMAND...\n"
    "\n"
    "A lab is a small cluster on this machine: each node has its own network, clocks, processes, mounts and host name.\n"
    "No traffic leaves it. Needs root.\n"
    "\n"
    "  --nodes 5            edge-0, serve-0, serve-1, train-0, train-1 (the default); N: one edge node, the rest\n"
    "                       shared by serve and train; edge=1,serve=2,train=2: as it says\n"
    "  --name NAME          default: lab\n"
    "  --link-rate 1gbit    of every node's link, both ways; bit, kbit, mbit, gbit\n"
    "  --all                every lab of this machine, also what killed runs left\n"
    "  --force              also a lab that a run is using\n"
    "\n"
    "exit status: 0 done; 3 failed; 4 wrong usage, not root, or this machine cannot; 6 refused now (in use)\n";

int exit_status_of(const Error& error) {
  std::fprintf(stderr, "mixproof lab: %s\n", error.message.c_str());
  switch (error.code) {
    case Code::kInvalid:
    case Code::kUnavailable:
      return 4;
    case Code::kRefused:
      return 6;
    default:
      return 3;
  }
}

// What a subcommand was given: positional words, options with and without a value, and what follows
// "--".
struct Words {
  std::vector<std::string> plain, command;
  std::vector<std::pair<std::string, std::string>> options;
  bool separated = false;

  bool has(std::string_view name) const {
    return std::any_of(options.begin(), options.end(),
                       [&](const auto& option) { return option.first == name; });
  }
  std::string value(std::string_view name, std::string fallback) const {
    for (const auto& option : options) {
      if (option.first == name) return option.second;
    }
    return fallback;
  }
};

Result<Words> read_words(std::span<const std::string> args, const std::vector<std::string>& valued,
                         const std::vector<std::string>& flags) {
  Words words;
  const auto among = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--") {
      words.separated = true;
      words.command.assign(args.begin() + static_cast<std::ptrdiff_t>(i) + 1, args.end());
      break;
    }
    if (!starts_with(args[i], "-")) {
      words.plain.push_back(args[i]);
      continue;
    }
    const std::size_t equals = args[i].find('=');
    const std::string name = args[i].substr(0, equals);
    if (words.has(name)) return Error{Code::kInvalid, name + " is given twice"};
    if (among(flags, args[i])) {
      words.options.emplace_back(args[i], "");
    } else if (among(valued, name)) {
      if (equals == std::string::npos && i + 1 == args.size())
        return Error{Code::kInvalid, name + " needs a value"};
      words.options.emplace_back(
          name, equals == std::string::npos ? args[++i] : args[i].substr(equals + 1));
    } else {
      std::vector<std::string> known = valued;
      known.insert(known.end(), flags.begin(), flags.end());
      const std::string near = nearest(name, known);
      return Error{Code::kInvalid, "unknown option " + args[i] +
                                       (near.empty() ? "" : ": did you mean " + near + "?")};
    }
  }
  return words;
}

Status need_root() {
  if (::geteuid() == 0) return ok();
  return Error{Code::kInvalid, "needs root: run it with sudo"};
}

const Lab* find_lab(const std::vector<Lab>& all, const std::string& name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Lab& lab) { return lab.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::string names_of(const std::vector<Lab>& all) {
  std::vector<std::string> names;
  for (const Lab& lab : all) names.push_back(lab.name);
  return join(names, ", ");
}

Result<int> up(std::span<const std::string> args) {
  const Words words = TRY(read_words(args, {"--nodes", "--name", "--link-rate"}, {}));
  if (!words.plain.empty() || words.separated)
    return Error{Code::kInvalid, "lab up takes options only; see --help"};
  LabRequest request;
  request.name = words.value("--name", "lab");
  request.standing = true;
  request.nodes = TRY(parse_lab_nodes(words.value("--nodes", "5")));
  request.link_bits_per_s = TRY(parse_link_rate(words.value("--link-rate", "1gbit")));
  TRY(need_root());
  const SignalsHeld held;
  const auto begin = std::chrono::steady_clock::now();
  const Lab lab = TRY(lab_up(request));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (const int signal = held.arrived()) {
    TRY(lab_down(lab.name));
    std::fprintf(stderr, "interrupted: lab %s is down again\n", lab.name.c_str());
    return 128 + signal;
  }
  std::fprintf(stderr, "lab %s is up: %zu nodes in %.2f s\n", lab.name.c_str(), lab.nodes.size(),
               took.count());
  for (const LabNode& node : lab.nodes)
    std::fprintf(stderr, "  %-12s %s\n", node.name.c_str(), node.address.c_str());
  return 0;
}

Status down_one(const Lab& lab, bool force) {
  const std::optional<std::string> user = lab_user(lab);
  if (user && !force)
    return Error{Code::kRefused,
                 "lab " + lab.name + " is used by " + *user + "; stop that first, or say --force"};
  TRY(lab_down(lab.name));
  std::fprintf(stderr, "lab %s is down\n", lab.name.c_str());
  return ok();
}

Result<int> down_all(const std::vector<Lab>& all, bool force) {
  Status first = lab_clear_stale();
  for (const Lab& lab : all) {
    const Status status = down_one(lab, force);
    if (status.ok()) continue;
    if (first.ok())
      first = status;
    else
      std::fprintf(stderr, "mixproof lab: %s\n", status.error().message.c_str());
  }
  if (!first.ok()) return first.error();
  return 0;
}

Result<int> down(std::span<const std::string> args) {
  const Words words = TRY(read_words(args, {}, {"--all", "--force"}));
  const bool everything = words.has("--all"), force = words.has("--force");
  if (words.plain.size() + (everything ? 1 : 0) > 1 || words.separated)
    return Error{Code::kInvalid, "lab down takes one NAME or --all"};
  TRY(need_root());
  const std::vector<Lab> all = TRY(labs());
  const SignalsHeld held;
  if (everything) return down_all(all, force);
  if (words.plain.empty() && all.size() > 1)
    return Error{Code::kInvalid,
                 "several labs are up: " + names_of(all) + "; name one, or say --all"};
  const Lab* lab =
      words.plain.empty() ? (all.empty() ? nullptr : &all.front()) : find_lab(all, words.plain[0]);
  if (lab != nullptr) {
    TRY(down_one(*lab, force));
    return 0;
  }
  if (!words.plain.empty())
    TRY(lab_down(words.plain[0]));  // checks the name, and clears a directory without a record
  std::fputs("no such lab is up: nothing to do\n", stderr);
  return 0;
}

const char* state_of(const Lab& lab) {
  if (!lab.damage.empty()) return "damaged";
  if (lab_is_stale(lab)) return "left by a killed run";
  return lab.standing ? "standing" : "of a run";
}

Json to_json(const Lab& lab) {
  const bool stale = lab_is_stale(lab), gone = stale || !lab.damage.empty();
  Json nodes = Json::array();
  for (const LabNode& node : lab.nodes) {
    nodes.push_back({{"name", node.name},
                     {"role", node.role},
                     {"address", node.address},
                     {"cgroup", node.cgroup},
                     {"state_dir", node.state_dir},
                     {"init_pid", node.init_pid},
                     {"alive", lab_process_alive(node.init_pid, node.init_start)}});
  }
  return {{"name", lab.name},
          {"dir", lab.dir},
          {"standing", lab.standing},
          {"owner_pid", lab.owner_pid},
          {"owner_alive", lab_process_alive(lab.owner_pid, lab.owner_start)},
          {"user", lab_user(lab).value_or("")},
          {"stale", stale},
          {"damage", lab.damage},
          {"nodes", nodes},
          {"leftovers", gone ? lab_leftovers(lab) : std::vector<std::string>{}}};
}

void show(const Lab& lab) {
  const std::optional<std::string> user = lab_user(lab);
  std::fprintf(stderr, "lab %s: %s%s%s\n", lab.name.c_str(), state_of(lab),
               user ? "; used by " : "", user.value_or("").c_str());
  if (!lab.damage.empty()) std::fprintf(stderr, "  record: %s\n", lab.damage.c_str());
  for (const LabNode& node : lab.nodes) {
    std::fprintf(stderr, "  %-12s %-12s init %-8d %-6s %s\n", node.name.c_str(),
                 node.address.c_str(), node.init_pid,
                 lab_process_alive(node.init_pid, node.init_start) ? "alive" : "gone",
                 node.cgroup.c_str());
  }
  if (lab.damage.empty() && !lab_is_stale(lab)) return;
  for (const std::string& thing : lab_leftovers(lab))
    std::fprintf(stderr, "  left: %s\n", thing.c_str());
  std::fprintf(stderr, "  `mixproof lab down %s` clears it\n", lab.name.c_str());
}

Result<int> status(std::span<const std::string> args) {
  const Words words = TRY(read_words(args, {}, {"--json"}));
  if (!words.plain.empty() || words.separated)
    return Error{Code::kInvalid, "lab status takes --json only"};
  const std::vector<Lab> all = TRY(labs());
  if (words.has("--json")) {
    Json out = Json::array();
    for (const Lab& lab : all) out.push_back(to_json(lab));
    std::printf("%s\n", TRY(print_json(out, 1)).c_str());
    return 0;
  }
  if (all.empty()) std::fputs("no lab is up\n", stderr);
  for (const Lab& lab : all) show(lab);
  return 0;
}

Result<const Lab*> choose_lab(const std::vector<Lab>& all, const Words& words) {
  if (words.has("--name")) {
    const Lab* lab = find_lab(all, words.value("--name", ""));
    if (lab != nullptr) return lab;
    return Error{Code::kRefused, "no lab " + words.value("--name", "") + " is up"};
  }
  if (all.empty()) return Error{Code::kRefused, "no lab is up; `mixproof lab up` makes one"};
  if (all.size() > 1)
    return Error{Code::kInvalid, "several labs are up: " + names_of(all) + "; say --name"};
  return &all.front();
}

Result<int> exec(std::span<const std::string> args) {
  const Words words = TRY(read_words(args, {"--name"}, {}));
  if (words.plain.size() != 1 || words.command.empty())
    return Error{Code::kInvalid, "usage: mixproof lab exec NODE [--name NAME] -- COMMAND..."};
  TRY(need_root());
  const std::vector<Lab> all = TRY(labs());
  const Lab* lab = TRY(choose_lab(all, words));
  const auto node = std::find_if(lab->nodes.begin(), lab->nodes.end(),
                                 [&](const LabNode& n) { return n.name == words.plain[0]; });
  if (node == lab->nodes.end()) {
    std::vector<std::string> names;
    for (const LabNode& each : lab->nodes) names.push_back(each.name);
    return Error{Code::kInvalid, "lab " + lab->name + " has no node " + words.plain[0] +
                                     "; it has " + join(names, ", ")};
  }
  if (!lab_process_alive(node->init_pid, node->init_start))
    return Error{Code::kRefused, "node " + node->name + " of lab " + lab->name + " is gone"};
  std::vector<std::string> argv = lab_prefix(*node);
  argv.insert(argv.end(), words.command.begin(), words.command.end());
  std::vector<char*> pointers;
  for (std::string& word : argv) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(pointers[0], pointers.data());
  if (errno == ENOENT)
    return Error{Code::kUnavailable, "nsenter is not installed (package util-linux)"};
  return system_error("start nsenter");
}

}  // namespace

int lab_main(std::span<const std::string> args) {
  const auto before_command = args.subspan(
      0, static_cast<std::size_t>(std::find(args.begin(), args.end(), "--") - args.begin()));
  const bool asked =
      std::any_of(before_command.begin(), before_command.end(),
                  [](const std::string& word) { return word == "--help" || word == "-h"; });
  if (asked) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  const std::string word = args.empty() ? "" : args[0];
  const auto rest = args.subspan(args.empty() ? 0 : 1);
  Result<int> result = Error{Code::kInvalid, "up, down, status or exec? See `mixproof lab --help`"};
  if (word == "up")
    result = up(rest);
  else if (word == "down")
    result = down(rest);
  else if (word == "status")
    result = status(rest);
  else if (word == "exec")
    result = exec(rest);
  return result.ok() ? result.value() : exit_status_of(result.error());
}

}  // namespace mixproof
