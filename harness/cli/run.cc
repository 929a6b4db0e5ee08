// `mixproof run`: from a suite to a report.
#include "harness/cli/run.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "harness/base/build.h"
#include "harness/base/cpus.h"
#include "harness/base/epoll_world.h"
#include "harness/base/text.h"
#include "harness/cli/arguments.h"
#include "harness/cli/catalogue.h"
#include "harness/cli/command.h"
#include "harness/cli/compare.h"
#include "harness/cli/environment.h"
#include "harness/cli/fleet.h"
#include "harness/cli/judging.h"
#include "harness/cli/page.h"
#include "harness/cli/plan_text.h"
#include "harness/cli/progress.h"
#include "harness/controller/recorder.h"
#include "harness/controller/run.h"
#include "reports/page.h"
#include "reports/recording.h"
#include "reports/summary.h"
#include "reports/verdict.h"

namespace mixproof {
namespace {

constexpr const char* kHelp =
    "usage: mixproof run SUITE [options]\n"
    "       mixproof demo [options]        the suite mixed_sla: under three minutes, needs no cluster\n"
    "       mixproof demo --compare        placements side by side: about five minutes (--compare --help)\n"
    "\n"
    "Runs a suite and writes a judged report. Without -i everything happens in a lab on this machine (needs root).\n"
    "\n"
    "  -i, --inventory FILE   run on these nodes; prints the plan and asks first\n"
    "  -o, --output DIR       default: ./mixproof-runs/<suite>-<UTC time>, with a link 'latest' to it\n"
    "  --set KEY=VALUE        change the suite: limits.sla.at_least=0.9, placement=none, loads.users.params.answer_tokens=8\n"
    "  --seed N               repeat a schedule; default: drawn, and printed\n"
    "  --yes                  do not ask\n"
    "  --json                 the report on stdout when it is written\n"
    "\n"
    "Ctrl-C, SIGTERM and SIGHUP revert every fault, stop what was started and write the report.\n"
    "exit status: 0 pass, 1 fail, 2 inconclusive, 3 harness error, 4 usage or configuration, 5 unsafe (a fault is not\n"
    "proved clean), 6 refused now, 129/130/143 ended by a signal\n";

const std::vector<Option> kOptions = {
    {"--inventory", "-i"}, {"--output", "-o"},    {"--set", ""},          {"--seed", ""},
    {"--yes", "", false},  {"--json", "", false}, {"--help", "-h", false}};

Result<RunOptions> read_options(std::span<const std::string> args, const Arguments& arguments,
                                const std::string& suite) {
  RunOptions options{.suite = suite,
                     .inventory = arguments.get("--inventory"),
                     .output = arguments.get("--output"),
                     .settings = arguments.all("--set"),
                     .argv = {args.begin(), args.end()},
                     .seed = std::nullopt,
                     .yes = arguments.has("--yes"),
                     .json = arguments.has("--json")};
  if (arguments.has("--seed")) options.seed = TRY(parse_seed(arguments.get("--seed")));
  return options;
}

struct LoadedPlan {
  Plan plan;
  std::string suite_sha256;
};

Result<LoadedPlan> load_plan(const RunOptions& options, std::uint64_t seed) {
  const Result<std::string> text = make_real_files()->read(options.suite);
  if (!text.ok()) return Error{Code::kInvalid, text.error().message};
  Json suite = TRY(parse_json(*text, options.suite));
  for (const std::string& setting : options.settings) TRY(apply_setting(suite, setting));
  Result<Plan> plan = make_plan(suite, build_catalogue(), seed);
  if (!plan.ok()) return Error(plan.error()).in(options.suite);
  return LoadedPlan{std::move(*plan), sha256_hex(*text)};
}

// While we wait for a person, Ctrl-C ends us at once: nothing has been started.
std::string ask_person(const std::string& question) {
  std::fputs(question.c_str(), stderr);
  sigset_t signals, before;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  ::sigprocmask(SIG_UNBLOCK, &signals, &before);
  std::string answer;
  std::getline(std::cin, answer);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return answer;
}

// A run on anything but a lab touches machines that people use: it is shown first, and needs a yes.
Status confirm(const Plan& plan, const Fleet& fleet, const RunOptions& options) {
  if (options.inventory.empty() || options.yes) return ok();
  std::fputs(plan_text(plan).c_str(), stderr);
  std::fputs("nodes:\n", stderr);
  for (const NodeAddress& node : fleet.nodes)
    std::fprintf(stderr, "  %-12s %s\n", node.name.c_str(), node.address.c_str());
  if (::isatty(0) == 0)
    return Error{Code::kInvalid, "this would run on the nodes of " + options.inventory +
                                     "; say --yes to do it without asking"};
  const std::string answer = ask_person("Run it? [y/N] ");
  if (answer == "y" || answer == "yes") return ok();
  return Error{Code::kRefused, "not confirmed; nothing was run"};
}

// The link appears whole or not at all.
void link_latest(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path link = fs::path(directory).parent_path() / "latest";
  const fs::path temporary = link.string() + "." + std::to_string(::getpid());
  fs::create_symlink(fs::path(directory).filename(), temporary, ignored);
  fs::rename(temporary, link, ignored);
}

Result<std::string> make_output(World& world, const RunOptions& options, const Plan& plan) {
  std::string directory = options.output;
  if (directory.empty()) {
    std::string time = utc_text(world.now(Clock::kUtc).count());
    std::erase_if(time, [](char c) { return c == '-' || c == ':'; });
    directory = "mixproof-runs/" + plan.name + "-" + time;
    for (int n = 2; std::filesystem::exists(directory); ++n)
      directory = "mixproof-runs/" + plan.name + "-" + time + "-" + std::to_string(n);
  }
  const Status made = world.files().make_directories(directory + "/logs");
  if (!made.ok())
    return Error{Code::kInvalid, made.error().message};  // the same command cannot work
  const Status reserved =
      world.files().replace(directory + "/" + kReserveFile, std::string(kReserveBytes, 'r'));
  if (!reserved.ok())
    return Error{Code::kRefused, "no room to record a run: " + reserved.error().message};
  if (options.output.empty()) link_latest(directory);
  return directory;
}

Json run_json(World& world, const RunOptions& options, const LoadedPlan& loaded, const Fleet& fleet,
              const std::string& id) {
  std::vector<std::string> argv = {"mixproof", "run"};
  argv.insert(argv.end(), options.argv.begin(), options.argv.end());
  if (!options.seed)
    argv.insert(argv.end(),
                {"--seed", std::to_string(loaded.plan.seed)});  // so that it can be repeated
  return {{"tool", tool_json()},
          {"provenance",
           {{"argv", argv},
            {"run", id},
            {"seed", loaded.plan.seed},
            {"started_utc", utc_text(world.now(Clock::kUtc).count())},
            {"suite", options.suite},
            {"suite_sha256", loaded.suite_sha256},
            {"settings", options.settings}}},
          {"environment", environment_json(fleet.nodes, fleet.where)},
          {"plan", plan_to_json(loaded.plan)}};
}

// From the recording to the last lines on the terminal and the exit status.
int conclude(World& world, const std::string& directory, const Run& run,
             const RunOptions& options) {
  Result<JudgedRun> judged = judge_directory(world.files(), directory);
  if (!judged.ok()) return command_failed("run", judged.error());
  const std::string path = directory + "/" + kReportFile;
  const Status written = write_report(world.files(), path, judged->report);
  const std::string page = directory + "/" + kPageFile;
  const Status drawn = write_page(world.files(), page, directory, judged->report);
  if (!drawn.ok())
    std::fprintf(stderr, "mixproof run: no page: %s\n", drawn.error().message.c_str());
  const std::string shown_as = options.output.empty() ? "latest" : directory;
  std::fputs(("\n" + summary_text(judged->report, path, shown_as, drawn.ok() ? page : "")).c_str(),
             stderr);
  if (options.json)
    std::fputs(
        (print_json(judged->report, 2).ok() ? *print_json(judged->report, 2) + "\n" : "").c_str(),
        stdout);
  if (!written.ok()) return command_failed("run", written.error());
  const Json* verdict = member(judged->report, "verdict");
  const int code = static_cast<int>(integer_at(*verdict, "exit_code", 3));
  // Before the first phase nothing was measured and no fault injected: whether trying again may
  // help is what counts.
  if (run.failure() && !run.began()) {
    const Code why = run.failure()->code;
    const bool away = why == Code::kPeerLost || why == Code::kTimeout;
    std::fprintf(stderr, "mixproof run: %s\n", run.failure()->message.c_str());
    return away ? exit_code(Code::kRefused) : exit_code(why);
  }
  return code;
}

int main_of(std::span<const std::string> args, const std::string& command, bool needs_suite) {
  const Result<Arguments> arguments = Arguments::parse(args, kOptions);
  if (!arguments.ok()) return command_failed(command, arguments.error());
  if (arguments->has("--help")) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  const std::vector<std::string>& words = arguments->positional();
  if (words.size() != (needs_suite ? 1U : 0U)) {
    std::fputs(kHelp, stderr);
    return exit_code(Code::kInvalid);
  }
  Result<RunOptions> options = read_options(
      args, *arguments, needs_suite ? words[0] : suite_directory() + "/mixed_sla.json");
  if (options.ok() && !needs_suite) options->argv.insert(options->argv.begin(), options->suite);
  if (!options.ok()) return command_failed(command, options.error());
  const Result<RunResult> result = run_suite(*options);
  return result.ok() ? result->code : command_failed(command, result.error());
}

}  // namespace

Result<std::uint64_t> parse_seed(const std::string& text) {
  const Result<Json> seed = parse_json(text, "--seed");
  if (!seed.ok() || !seed->is_number_unsigned() ||
      seed->get<std::uint64_t>() >= (std::uint64_t{1} << 53))
    return Error{Code::kInvalid, "--seed must be a whole number below 2^53"};
  return seed->get<std::uint64_t>();
}

Status check_output(const std::string& directory) {
  if (directory.empty()) return ok();
  std::error_code ignored;
  if (std::filesystem::exists(directory, ignored) &&
      !std::filesystem::is_directory(directory, ignored))
    return Error{Code::kInvalid, "-o " + directory + " is not a directory"};
  if (std::filesystem::is_directory(directory, ignored) &&
      !std::filesystem::is_empty(directory, ignored))
    return Error{Code::kInvalid,
                 "-o " + directory + " is not empty: a run wants a directory of its own"};
  return ok();
}

Result<RunResult> run_suite(const RunOptions& options) {
  raise_priority();
  std::unique_ptr<RealWorld> world = TRY(make_epoll_world());
  const std::uint64_t seed = options.seed.value_or(world->random() >> 33);
  const LoadedPlan loaded = TRY(load_plan(options, seed));
  const Plan& plan = loaded.plan;
  std::map<std::string, std::string> cpus;  // a lab's nodes share this machine's
  if (options.inventory.empty()) cpus = TRY(place(plan, allowed_cpus()));
  for (const ServicePlan& service : plan.services) TRY(service_available(service));
  TRY(check_output(options.output));
  // Journals on nodes carry it for ever, and process numbers come again.
  const std::string id = plan.name + "-" +
                         std::to_string(world->now(Clock::kUtc).count() / 1'000'000) + "-" +
                         std::to_string(::getpid());
  std::fprintf(stderr, "mixproof: %s, seed %llu, placement %s\n", plan.name.c_str(),
               static_cast<unsigned long long>(seed), plan.placement.c_str());
  const Fleet fleet = TRY(open_fleet(plan, options.inventory, id));
  if (!options.inventory.empty() && plan.placement != "none")
    for (const NodeAddress& node : fleet.nodes) cpus[node.name] = node.cpus;
  TRY(confirm(plan, fleet, options));  // of a lab nothing is asked
  const auto with_fleet = [&]() -> Result<RunResult> {
    RunSetup setup{.id = id,
                   .directory = {},
                   .build = build_digest(),
                   .plan = plan,
                   .nodes = fleet.nodes,
                   .services = {},
                   .cpus = cpus,
                   .outside_cgroups = {}};
    setup.services = TRY(service_commands(plan, fleet.nodes));
    for (const auto& [name, probe] : build_catalogue().probes)
      setup.outside_cgroups[name] = probe.generator;
    setup.directory = TRY(make_output(*world, options, plan));
    const std::string directory = setup.directory;
    const std::string document = TRY(print_json(run_json(*world, options, loaded, fleet, id), 2));
    TRY(world->files().replace(directory + "/" + kRunFile, document + "\n"));
    Progress progress(*world, plan, ::isatty(2) != 0);
    progress.note("nodes: " + fleet.where);
    Run run(*world, std::move(setup),
            {.note = [&](const std::string& text) { progress.note(text); },
             .phase = [&](const std::string& name, Time begin,
                          Time end) { progress.phase(name, begin, end); },
             .row = [&](const Json& row) { progress.row(row); }});
    run.start();
    world->run_until([&run] { return run.done(); });
    return RunResult{conclude(*world, directory, run, options), directory};
  };
  Result<RunResult> result = with_fleet();
  const Status closed = close_fleet(fleet);
  if (!closed.ok()) std::fprintf(stderr, "mixproof run: %s\n", closed.error().message.c_str());
  if (result.ok() && result->code == 0 && !closed.ok()) result->code = exit_code(Code::kSystem);
  return result;
}

int run_main(std::span<const std::string> args) { return main_of(args, "run", true); }

int demo_main(std::span<const std::string> args) {
  if (std::find(args.begin(), args.end(), "--compare") != args.end()) return compare_main(args);
  return main_of(args, "demo", false);
}

int plan_main(std::span<const std::string> args) {
  const Result<Arguments> arguments = Arguments::parse(args, {{"--set", ""},
                                                              {"--seed", ""},
                                                              {"--output", "-o"},
                                                              {"--json", "", false},
                                                              {"--help", "-h", false}});
  if (!arguments.ok()) return command_failed("plan", arguments.error());
  if (arguments->has("--help") || arguments->positional().size() != 1) {
    std::fputs(
        "usage: mixproof plan SUITE [--set KEY=VALUE]... [--json] [-o FILE]\n\n"
        "What a run of the suite would do: phases, services, loads, faults, and what each check needs. Starts "
        "nothing.\n",
        arguments->has("--help") ? stdout : stderr);
    return arguments->has("--help") ? 0 : exit_code(Code::kInvalid);
  }
  const Result<RunOptions> options = read_options(args, *arguments, arguments->positional()[0]);
  if (!options.ok()) return command_failed("plan", options.error());
  const Result<LoadedPlan> loaded = load_plan(*options, options->seed.value_or(1));
  if (!loaded.ok()) return command_failed("plan", loaded.error());
  const Result<std::string> document = print_json(plan_to_json(loaded->plan), 2);
  if (!document.ok()) return command_failed("plan", document.error());
  if (!options->output.empty()) {
    const Status written = make_real_files()->replace(options->output, *document + "\n");
    if (!written.ok()) return command_failed("plan", written.error());
  }
  std::fputs(
      arguments->has("--json") ? (*document + "\n").c_str() : plan_text(loaded->plan).c_str(),
      stdout);
  return 0;
}

}  // namespace mixproof
