#include "harness/cli/doctor.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "harness/base/cpus.h"
#include "harness/base/text.h"
#include "harness/cli/arguments.h"
#include "harness/cli/doctor_faults.h"
#include "harness/cli/doctor_load.h"
#include "harness/cli/judging.h"
#include "probes/inference/own_process.h"

namespace mixproof {
namespace {

using inference::CheckState;
using inference::SelfCheck;

constexpr const char* kHelp =
    "usage: mixproof doctor load [--quick] [--only IDS] [--plain-priority] [--json]\n"
    "       mixproof doctor faults [--only NAMES] [--json]\n"
    "\n"
    "Drills that show whether this machine can measure, on this machine alone:\n"
    "\n"
    "  load    the load generator against a server that stamps its own clock into every token, each "
    "in a process and\n"
    "          on a processor of its own: eleven checks (a to k), about 40 s\n"
    "\n"
    "  faults  every fault in a lab of its own (needs root): injected, shown to work, then its controller, agents and\n"
    "          guard killed, and the node proved clean; says which faults this machine cannot do, and why\n"
    "\n"
    "  --quick             shorter runs, about 20 s\n"
    "  --only IDS          only these checks: --only dgj; or faults: --only net_drop,disk_fill\n"
    "  --plain-priority    the client as any other process, without the priority that it asks for: "
    "shows what a busy\n"
    "                      loop on its processor does to it\n"
    "  --json              the checks as JSON on stdout\n"
    "\n"
    "exit status: 0 all pass (of faults: those that can be here); 1 one fails; 2 one is inconclusive, or no fault can\n"
    "be here; 3 one could not be made; 4 wrong usage; 5 a fault was not proved clean\n";

int exit_code(const std::vector<SelfCheck>& checks) {
  bool error = checks.empty(), inconclusive = false;
  for (const SelfCheck& check : checks) {
    if (check.state == CheckState::kFail) return 1;
    error = error || check.state == CheckState::kError;
    inconclusive = inconclusive || check.state == CheckState::kInconclusive;
  }
  return error ? 3 : inconclusive ? 2 : 0;
}

std::string where(const DoctorLoadOptions& options) {
  if (options.client_cpu == options.server_cpu)
    return format("client and server share processor %d", options.client_cpu);
  return format("client on processor %d, server on processor %d", options.client_cpu,
                options.server_cpu);
}

void print_table(const std::vector<SelfCheck>& checks) {
  for (const SelfCheck& check : checks) {
    std::printf("%-12s  %s  %-22s  %s (bound: %s)\n",
                std::string(check_state_name(check.state)).c_str(), check.id.c_str(),
                check.what.c_str(), check.measured.c_str(), check.bound.c_str());
    if (!check.reason.empty()) std::printf("%-12s     %s\n", "", check.reason.c_str());
  }
}

Status print_checks(const std::vector<SelfCheck>& checks, const DoctorLoadOptions& options,
                    const std::string& scheduling) {
  Json list = Json::array();
  for (const SelfCheck& check : checks) {
    Json figures = Json::object();
    for (const auto& [name, value] : check.figures)
      if (std::isfinite(value)) figures[name] = value;
    list.push_back({{"id", check.id},
                    {"what", check.what},
                    {"status", check_state_name(check.state)},
                    {"measured", check.measured},
                    {"bound", check.bound},
                    {"reason", check.reason},
                    {"figures", figures}});
  }
  const Json out = {{"drill", "load"},
                    {"client_cpu", options.client_cpu},
                    {"server_cpu", options.server_cpu},
                    {"scheduling", scheduling},
                    {"exit_code", exit_code(checks)},
                    {"checks", list}};
  std::printf("%s\n", TRY(print_json(out, 2)).c_str());
  return ok();
}

Result<int> load(const Arguments& arguments) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.empty()) return Error{Code::kSystem, "the processors of this process are not known"};
  DoctorLoadOptions options;
  options.quick = arguments.has("--quick");
  options.only = arguments.get("--only");
  if (options.only.find_first_not_of("abcdefghijk") != std::string::npos)
    return Error{Code::kInvalid, "--only " + options.only + ": the checks are a to k"};
  options.raise_priority = !arguments.has("--plain-priority");
  options.client_cpu = cpus.front();
  options.server_cpu = cpus.back();
  options.progress = [](const std::string& what) { std::fprintf(stderr, "  %s\n", what.c_str()); };
  std::fprintf(stderr, "the load generator examines itself: %s\n", where(options).c_str());
  std::string scheduling;
  const std::vector<SelfCheck> checks = doctor_load(options, &scheduling);
  if (arguments.has("--json")) {
    TRY(print_checks(checks, options, scheduling));
  } else {
    std::printf("%s; client's scheduling: %s\n", where(options).c_str(), scheduling.c_str());
    print_table(checks);
  }
  return exit_code(checks);
}

int exit_code(const std::vector<FaultDrill>& drills) {
  const auto any = [&drills](DrillState state) {
    return std::any_of(drills.begin(), drills.end(),
                       [state](const FaultDrill& drill) { return drill.state == state; });
  };
  // Where none could be here, nothing was shown.
  return any(DrillState::kDirty)   ? 5
         : any(DrillState::kFail)  ? 1
         : any(DrillState::kError) ? 3
         : any(DrillState::kPass)  ? 0
                                   : 2;
}

std::string line_of_drill(const FaultDrill& drill) {
  std::string line = format("%-8s  %-20s  ", std::string(drill_state_name(drill.state)).c_str(),
                            drill.fault.c_str());
  if (drill.state == DrillState::kPass)
    return line + format("effect proved after %.1f s, clean proved %.2f s %s", drill.effective_s,
                         drill.clean_s,
                         drill.killed ? "after SIGKILL of all" : "later (over at once)");
  return line + drill.reason;
}

Result<int> faults(const Arguments& arguments) {
  DoctorFaultsOptions options;
  for (const std::string& name : split(arguments.get("--only"), ','))
    if (!name.empty()) options.only.push_back(name);
  if (!arguments.has("--json"))
    options.progress = [](const FaultDrill& drill) {
      std::printf("%s\n", line_of_drill(drill).c_str());
      std::fflush(stdout);
    };
  std::fprintf(stderr,
               "every fault in a lab of its own: injected, its keepers killed, proved clean\n");
  const std::vector<FaultDrill> drills = TRY(doctor_faults(options));
  if (!arguments.has("--json")) return exit_code(drills);
  Json list = Json::array();
  for (const FaultDrill& drill : drills)
    list.push_back({{"fault", drill.fault},
                    {"status", drill_state_name(drill.state)},
                    {"reason", drill.reason},
                    {"killed", drill.killed},
                    {"effective_s", drill.effective_s},
                    {"clean_s", drill.clean_s},
                    {"residual_life", drill.residual_life}});
  const Json out = {{"drill", "faults"}, {"exit_code", exit_code(drills)}, {"faults", list}};
  std::printf("%s\n", TRY(print_json(out, 2)).c_str());
  return exit_code(drills);
}

}  // namespace

int doctor_main(std::span<const std::string> args) {
  const Result<Arguments> arguments = Arguments::parse(args, {{"--quick", "", false},
                                                              {"--only", ""},
                                                              {"--plain-priority", "", false},
                                                              {"--json", "", false},
                                                              {"--help", "-h", false}});
  if (!arguments.ok()) return command_failed("doctor", arguments.error());
  const std::vector<std::string>& words = arguments->positional();
  if (arguments->has("--help") || words.empty()) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  if (words.size() != 1 || (words[0] != "load" && words[0] != "faults")) {
    std::fprintf(stderr, "mixproof doctor: there is no drill \"%s\"\n%s",
                 words.size() > 1 ? words[1].c_str() : words[0].c_str(), kHelp);
    return 4;
  }
  std::signal(SIGPIPE, SIG_IGN);
  const Result<int> code = words[0] == "load" ? load(*arguments) : faults(*arguments);
  return code.ok() ? *code : command_failed("doctor", code.error());
}

}  // namespace mixproof
