#include <cstdio>
#include <nlohmann/json.hpp>

#include "harness/base/epoll_world.h"
#include "harness/base/text.h"
#include "harness/cli/arguments.h"
#include "harness/cli/judging.h"
#include "harness/cli/page.h"
#include "reports/page.h"
#include "reports/summary.h"
#include "reports/verdict.h"

namespace mixproof {
namespace {

constexpr const char* kHelp =
    "usage: mixproof report show REPORT               text for people\n"
    "       mixproof report html REPORT [-o FILE]     one page for a browser; default: report.html beside the report\n"
    "\n"
    "REPORT is a report, the directory of a run, or latest (mixproof-runs/latest). The page needs nothing beside itself:\n"
    "no scripts, no network. The recording beside the report adds requests and training steps to its timeline.\n"
    "The report itself is JSON: mixproof schema report.\n";

std::string number_or_dash(const Json* figure) {
  if (figure == nullptr) return "-";
  if (flag_at(*figure, "infinite")) return "inf";
  const Json* value = member(*figure, "value");
  return value != nullptr && value->is_number() ? format("%.4g", value->get<double>()) : "-";
}

std::string label_text(const Json& labels) {
  std::vector<std::string> parts;
  for (const char* key : {"phase", "load", "fault", "reference", "quantile", "clean_requests"})
    if (const std::string value = text_at(labels, key); !value.empty())
      parts.push_back(std::string(key) == "phase" || std::string(key) == "load"
                          ? value
                          : std::string(key) + " " + value);
  return join(parts, ", ");
}

std::string metric_line(const Json& metric) {
  std::string out =
      format("  %-26s %-34s ", text_at(metric, "id").c_str(), label_text(metric["labels"]).c_str());
  if (const Json* summary = member(metric, "summary")) {
    for (const char* quantile : {"p50", "p90", "p99", "max"})
      out += std::string(quantile) + " " + number_or_dash(member(*summary, quantile)) + "  ";
  } else {
    out += number_or_dash(&metric);
    if (const Json* interval = member(metric, "interval"))
      out +=
          format(" [%.4g, ", number_at(*interval, "low")) +
          (flag_at(*interval, "censored") ? "...)" : format("%.4g]", number_at(*interval, "high")));
  }
  out += " " + text_at(metric, "unit") +
         format("  n %lld", static_cast<long long>(integer_at(metric, "n")));
  if (const std::string missing = text_at(metric, "missing_reason"); !missing.empty())
    out += "  (" + missing + ")";
  return out + "\n";
}

std::string phases_text(const Json& timeline) {
  std::string out = "phases:\n";
  for (const Json& phase : timeline["phases"]) {
    out += format("  %-16s ", text_at(phase, "name").c_str());
    if (!phase.contains("begin_s")) {
      out += "not run\n";
      continue;
    }
    out += format("%7.1f to %7.1f s, measured from %7.1f s%s\n", number_at(phase, "begin_s"),
                  number_at(phase, "end_s"), number_at(phase, "settled_s"),
                  flag_at(phase, "complete") ? "" : ", cut short");
    for (const Json& problem : phase["problems"])
      out += "      " + text_at(problem, "detail") + "\n";
  }
  return out;
}

std::string events_text(const Json& timeline) {
  std::string out;
  for (const Json& event : timeline["events"])
    out += format("  %8.3f s  %s %s %s%s%s\n", number_at(event, "at_s"),
                  text_at(event, "kind").c_str(), text_at(event, "what").c_str(),
                  text_at(event, "state").c_str(), text_at(event, "detail").empty() ? "" : ": ",
                  text_at(event, "detail").c_str());
  return out.empty() ? "" : "events:\n" + out;
}

std::string report_show(const Json& report, const ReportPlace& place) {
  std::string out =
      text_at(report["plan"], "name") + ": " + text_at(report["plan"], "claim") + "\n\n";
  out += phases_text(report["timeline"]) + events_text(report["timeline"]) + "metrics:\n";
  for (const Json& metric : report["metrics"]) out += metric_line(metric);
  out += "checks:\n";
  for (const Json& check : report["checks"])
    out += format("  %-12s %-24s %s\n", text_at(check, "status").c_str(),
                  text_at(check, "id").c_str(), text_at(check, "detail").c_str());
  return out + "\n" + summary_text(report, place.report, place.shown_as);
}

int report_html(Files& files, const Json& report, const ReportPlace& place,
                const std::string& path) {
  const Status written = write_page(files, path, place.directory, report);
  if (!written.ok()) return command_failed("report", written.error());
  std::fprintf(stderr, "page: %s\n", path.c_str());
  return 0;
}

}  // namespace

int report_main(std::span<const std::string> args) {
  const Result<Arguments> arguments =
      Arguments::parse(args, {{"--output", "-o"}, {"--help", "-h", false}});
  if (!arguments.ok()) return command_failed("report", arguments.error());
  const std::vector<std::string>& words = arguments->positional();
  if (arguments->has("--help") || (words.size() == 1 && words[0] == "help")) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  const bool html = words.size() == 2 && words[0] == "html",
             show = words.size() == 2 && words[0] == "show";
  if (!html && (!show || arguments->has("--output"))) {
    std::fputs(kHelp, stderr);
    return exit_code(Code::kInvalid);
  }
  const ReportPlace place = place_of(words[1]);
  const std::unique_ptr<Files> files = make_real_files();
  const auto report = read_report(*files, place.report);
  if (!report) return command_failed("report", report.error());
  for (const char* key : {"timeline", "metrics"})
    if (member(*report, key) == nullptr)
      return command_failed(
          "report", {Code::kInvalid, place.report + ": not a report: \"" + key + "\" is missing"});
  if (show) {
    std::fputs(report_show(*report, place).c_str(), stdout);
    return 0;
  }
  return report_html(*files, *report, place,
                     arguments->get("--output", place.directory + "/" + kPageFile));
}

}  // namespace mixproof
