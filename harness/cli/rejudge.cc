#include <cstdio>
#include <nlohmann/json.hpp>

#include "harness/base/epoll_world.h"
#include "harness/base/text.h"
#include "harness/cli/judging.h"
#include "harness/cli/page.h"
#include "harness/controller/recorder.h"
#include "reports/page.h"
#include "reports/recording.h"
#include "reports/summary.h"

namespace mixproof {
namespace {

constexpr const char* kHelp =
    "usage: mixproof rejudge REPORT|DIR\n"
    "\n"
    "Recomputes checks and verdict from plan and recording alone and compares them, byte for byte, with those of the\n"
    "report. A directory without a report (a killed run) gets one. Exit status: that of the verdict; 3 when the report\n"
    "cannot be reproduced or its recording is not the one that it names.\n";

constexpr const char* kJudgedParts[] = {"checks", "verdict", "safety", "timeline", "metrics"};

// The judged parts that differ, with the first check that does.
std::string differences(const Json& stored, const Json& again) {
  std::vector<std::string> out;
  for (const char* part : kJudgedParts) {
    const Json* old = member(stored, part);
    const auto before = old == nullptr ? Result<std::string>(std::string()) : print_json(*old, 2);
    const auto after = print_json(again[part], 2);
    if (before && after && *before == *after) continue;
    std::string where = part;
    if (std::string_view(part) == "checks" && old != nullptr && old->is_array())
      for (std::size_t i = 0; i < again[part].size(); ++i)
        if (i >= old->size() || (*old)[i] != again[part][i]) {
          where += " (" + text_at(again[part][i], "id") + ")";
          break;
        }
    out.push_back(where);
  }
  return join(out, ", ");
}

int exit_of(const Json& report) {
  return static_cast<int>(integer_at(report["verdict"], "exit_code", 3));
}

int compare_with_report(const ReportPlace& place, const Json& stored) {
  const std::string sha256 = recording_sha256(stored);
  const auto again = judge_again(place.directory, stored);
  if (!again) return command_failed("rejudge", again.error());
  if (sha256 != again->sha256)
    return command_failed(
        "rejudge", {Code::kCorrupt, place.directory + "/" + kRecordingFile +
                                        " is not the recording of this report: its sha256 is " +
                                        again->sha256 + ", the report names " +
                                        (sha256.empty() ? "none" : sha256)});
  const std::string different = differences(stored, again->report);
  if (!different.empty())
    return command_failed(
        "rejudge", {Code::kCorrupt, "not reproduced: the recording gives other " + different});
  std::fputs(summary_text(again->report, place.report, place.shown_as).c_str(), stdout);
  std::fputs("identical: checks, verdict, safety, timeline and metrics\n", stdout);
  return exit_of(again->report);
}

int report_of_killed_run(Files& files, const ReportPlace& place) {
  const auto judged = judge_directory(files, place.directory);
  if (!judged) return command_failed("rejudge", judged.error());
  static_cast<void>(files.remove(place.directory + "/" + kReserveFile));  // of the killed run
  const Status written = write_report(files, place.report, judged->report);
  if (!written.ok()) return command_failed("rejudge", written.error());
  const std::string page = place.directory + "/" + kPageFile;
  const Status drawn = write_page(files, page, place.directory, judged->report);
  if (!drawn.ok())
    std::fprintf(stderr, "mixproof rejudge: no page: %s\n", drawn.error().message.c_str());
  std::fputs(
      summary_text(judged->report, place.report, place.shown_as, drawn.ok() ? page : "").c_str(),
      stdout);
  std::fputs("written: the run had left no report\n", stdout);
  return exit_of(judged->report);
}

}  // namespace

int rejudge_main(std::span<const std::string> args) {
  if (args.size() != 1 || args[0] == "--help") {
    std::fputs(kHelp, args.size() == 1 ? stdout : stderr);
    return args.size() == 1 ? 0 : 4;
  }
  const std::unique_ptr<Files> files = make_real_files();
  const ReportPlace place = place_of(args[0]);
  const bool is_directory =
      place.report != args[0] && place.directory + "/" + kReportFile == place.report;
  if (is_directory && !files->read(place.report).ok()) return report_of_killed_run(*files, place);
  const auto stored = read_report(*files, place.report);
  if (!stored) return command_failed("rejudge", stored.error());
  return compare_with_report(place, *stored);
}

}  // namespace mixproof
