// The command line: a table of subcommands.
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "harness/agent/worker.h"
#include "harness/base/build.h"
#include "harness/base/text.h"
#include "harness/cli/doctor.h"
#include "harness/cli/inspect.h"
#include "harness/cli/judging.h"
#include "harness/cli/lab.h"
#include "harness/cli/roles.h"
#include "harness/cli/run.h"
#include "harness/controller/lab_init.h"
#include "probes/inference/null_server.h"

namespace mixproof {
namespace {

using Args = std::span<const std::string>;

struct Command {
  const char* name;
  const char* help;  // null: internal, not listed
  int (*main)(Args args);
};

int agent(Args) { return agent_main(); }
int guard(Args) { return guard_main(); }
int worker(Args) { return worker_main(); }
int null_server(Args args) { return inference::null_server_main(args); }

constexpr Command kCommands[] = {
    {"demo", "a mixed cluster on this machine, measured and judged in under three minutes",
     demo_main},
    {"run", "run a suite and write a judged report", run_main},
    {"plan", "what a suite would do, and what its checks need", plan_main},
    {"report", "show a report, or make its page", report_main},
    {"explain", "why a check has its status, and what would resolve it", explain_main},
    {"rejudge", "judge a recording again; report a run that was killed", rejudge_main},
    {"fault", "inject one fault by hand; see, revert and recover faults on nodes", fault_main},
    {"probe", "run one probe by hand", probe_main},
    {"lab", "a small cluster of namespaces on this machine", lab_main},
    {"list", "probes, faults, services, backends and metrics of this build", list_main},
    {"doctor", "drills: can this machine measure what it is to measure?", doctor_main},
    {"schema", "JSON Schema of suites, reports and inventories", schema_main},
    {"null-server", "an instrument: a server whose delays are known exactly", null_server},
    {"agent", nullptr, agent},
    {"guard", nullptr, guard},
    {"worker", nullptr, worker},
    {"lab-init", nullptr, lab_init_main},
};

void print_help(std::FILE* out) {
  std::fputs(
      "mixproof: does inference latency hold while training runs, and when something breaks?\n\n"
      "usage: mixproof COMMAND [options]     (mixproof COMMAND --help says more)\n\n",
      out);
  for (const Command& command : kCommands)
    if (command.help != nullptr) std::fprintf(out, "  %-12s %s\n", command.name, command.help);
}

std::vector<std::string> known_commands() {
  std::vector<std::string> out;
  for (const Command& command : kCommands)
    if (command.help != nullptr) out.emplace_back(command.name);
  return out;
}

int run_command(const std::vector<std::string>& args) {
  const std::string name = args.empty() ? "" : args[0];
  if (name == "--help" || name == "-h" || name == "help") {
    print_help(stdout);
    return 0;
  }
  if (name == "--version") {
    std::printf("mixproof %s, build %s\n", build_version(), build_digest());
    return 0;
  }
  for (const Command& command : kCommands)
    if (name == command.name) return command.main(Args(args).subspan(1));
  if (!name.empty()) {
    const std::string near = nearest(name, known_commands());
    std::fprintf(stderr, "mixproof: there is no command '%s'%s\n\n", name.c_str(),
                 near.empty() ? "" : ("; did you mean '" + near + "'?").c_str());
  }
  print_help(stderr);
  return 4;
}

}  // namespace
}  // namespace mixproof

int main(int argc, char** argv) {
  try {
    return mixproof::run_command(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& exception) {  // from libraries; ours never throw
    std::fprintf(stderr, "mixproof: internal error: %s\n", exception.what());
    return 3;
  }
}
