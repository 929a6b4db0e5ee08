#include "harness/cli/compare.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/base/epoll_world.h"
#include "harness/base/text.h"
#include "harness/cli/arguments.h"
#include "harness/cli/command.h"
#include "harness/cli/judging.h"
#include "harness/cli/run.h"
#include "reports/recording.h"
#include "reports/verdict.h"
#include "suites/compare.h"

namespace mixproof {
namespace {

constexpr const char* kHelp =
    "usage: mixproof demo --compare [options]\n"
    "\n"
    "Runs the suite compare in a lab, in turn without placement and with serving and training on cores of their own, and\n"
    "prints what training does to users under each, with intervals. About five minutes; needs root and no cluster.\n"
    "\n"
    "  --rounds N          of both placements; default: 2\n"
    "  --seed N            repeat the schedules; default: drawn, and printed\n"
    "  -o, --output DIR    default: ./mixproof-runs/compare-<UTC time>; holds a directory a run and compare.json\n"
    "  --set KEY=VALUE     change the suite, as for mixproof run\n"
    "  --json              the comparison on stdout (mixproof schema comparison)\n"
    "\n"
    "Ctrl-C ends the run that is under way and starts no other.\n"
    "exit status: 0 every run was measured, whatever the ratios; 2 not every figure can be trusted; else that of the worst\n"
    "run\n";

const std::vector<Option> kOptions = {
    {"--compare", "", false}, {"--rounds", ""}, {"--seed", ""},
    {"--output", "-o"},       {"--set", ""},    {"--json", "", false},
    {"--help", "-h", false}};
constexpr const char* kPlacements[] = {"none", "physical"};
constexpr std::int64_t kMostRounds = 100;

struct CompareOptions {
  std::int64_t rounds = 2;
  std::uint64_t seed = 0;
  std::string output;
  std::vector<std::string> settings;
  bool json = false;
};

Result<CompareOptions> read_options(const Arguments& arguments) {
  CompareOptions out{.output = arguments.get("--output"),
                     .settings = arguments.all("--set"),
                     .json = arguments.has("--json")};
  const std::unique_ptr<RealWorld> world = TRY(make_epoll_world());
  out.seed = world->random() >> 33;
  if (arguments.has("--seed")) out.seed = TRY(parse_seed(arguments.get("--seed")));
  if (arguments.has("--rounds")) {
    const Json rounds = TRY(parse_json(arguments.get("--rounds"), "--rounds"));
    if (!rounds.is_number_unsigned() || rounds.get<std::uint64_t>() < 1 ||
        rounds.get<std::uint64_t>() > kMostRounds)
      return Error{Code::kInvalid, format("--rounds must be a whole number from 1 to %lld",
                                          static_cast<long long>(kMostRounds))};
    out.rounds = rounds.get<std::int64_t>();
  }
  TRY(check_output(out.output));
  if (out.output.empty()) {
    std::string time = utc_text(world->now(Clock::kUtc).count());
    std::erase_if(time, [](char c) { return c == '-' || c == ':'; });
    out.output = "mixproof-runs/compare-" + time;
  }
  return out;
}

// What a run left on the disk. Its address is kept by ComparedRun, so it does not move.
struct Kept {
  Plan plan;
  Evidence evidence;
};

Result<std::unique_ptr<Kept>> read_run(Files& files, const std::string& directory) {
  const std::string text = TRY(files.read(directory + "/" + kRunFile));
  const Json run = TRY(parse_json(text, directory + "/" + kRunFile));
  TRY(check_run_json(run));
  auto out = std::make_unique<Kept>();
  out->plan = TRY(plan_from_json(run["plan"]));
  const RecordingRows recording = TRY(read_recording(directory + "/" + kRecordingFile));
  out->evidence = read_evidence(out->plan, recording.rows);
  return out;
}

// The runs, with the exit codes; ends early when one was interrupted or left something, or could
// not start.
struct Rounds {
  std::vector<ComparedRun> runs;
  std::vector<std::unique_ptr<Kept>> kept;
  std::vector<int> codes;
  bool ended_early = false;
};

void one_run(const CompareOptions& options, const std::string& placement, int round,
             Rounds& rounds) {
  const std::unique_ptr<Files> files = make_real_files();
  const std::string directory = options.output + "/" + placement + "-" + std::to_string(round);
  RunOptions run{.suite = suite_directory() + "/compare.json",
                 .output = directory,
                 .settings = options.settings};
  run.settings.push_back("placement=" + placement);
  run.seed =
      options.seed + static_cast<std::uint64_t>(round);  // the same arrivals under both placements
  run.argv = {run.suite, "-o", directory, "--seed", std::to_string(*run.seed)};
  for (const std::string& setting : run.settings)
    run.argv.insert(run.argv.end(), {"--set", setting});
  std::fprintf(stderr, "\nround %d of %lld, placement %s\n", round,
               static_cast<long long>(options.rounds), placement.c_str());
  const Result<RunResult> result = run_suite(run);
  const int code = result.ok() ? result->code : command_failed("demo", result.error());
  ComparedRun compared{
      .placement = placement, .directory = directory, .round = round, .exit_code = code};
  Result<std::unique_ptr<Kept>> kept = read_run(*files, directory);
  if (kept.ok()) {
    compared.plan = &(*kept)->plan;
    compared.evidence = &(*kept)->evidence;
    rounds.kept.push_back(std::move(*kept));
  }
  rounds.runs.push_back(std::move(compared));
  rounds.codes.push_back(code);
  rounds.ended_early =
      code > 3;  // interrupted, unsafe, refused or impossible: another one would not help
}

int compare(const CompareOptions& options) {
  const std::unique_ptr<Files> files = make_real_files();
  std::fprintf(stderr, "mixproof: compare, seed %llu, rounds of each placement: %lld, in %s\n",
               static_cast<unsigned long long>(options.seed),
               static_cast<long long>(options.rounds), options.output.c_str());
  Rounds rounds;
  for (int round = 1; round <= options.rounds && !rounds.ended_early; ++round)
    for (const char* placement : kPlacements)
      if (!rounds.ended_early) one_run(options, placement, round, rounds);
  if (rounds.kept.empty())
    return worst_exit_code(rounds.codes);  // said already; there is nothing to show
  const Json comparison = compare_runs(rounds.runs, options.seed);
  const Result<std::string> document = print_json(comparison, 2);
  if (!document.ok()) return command_failed("demo", document.error());
  std::fputs(("\n" + comparison_text(comparison)).c_str(), stderr);
  if (options.json) std::fputs((*document + "\n").c_str(), stdout);
  const std::string path = options.output + "/" + kComparisonFile;
  const Status written = files->replace(path, *document + "\n");
  if (!written.ok()) return command_failed("demo", written.error());
  std::fprintf(stderr, "comparison: %s\n", path.c_str());
  const std::string status = text_at(comparison, "status");
  rounds.codes.push_back(status == "measured" ? 0 : status == "inconclusive" ? 2 : 3);
  return worst_exit_code(rounds.codes);
}

}  // namespace

int compare_main(std::span<const std::string> args) {
  const Result<Arguments> arguments = Arguments::parse(args, kOptions);
  if (!arguments.ok()) return command_failed("demo", arguments.error());
  if (arguments->has("--help") || !arguments->positional().empty()) {
    std::fputs(kHelp, arguments->has("--help") ? stdout : stderr);
    return arguments->has("--help") ? 0 : exit_code(Code::kInvalid);
  }
  const Result<CompareOptions> options = read_options(*arguments);
  if (!options.ok()) return command_failed("demo", options.error());
  return compare(*options);
}

}  // namespace mixproof
