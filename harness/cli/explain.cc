#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "harness/base/epoll_world.h"
#include "harness/base/text.h"
#include "harness/cli/judging.h"
#include "reports/summary.h"
#include "suites/limits.h"

namespace mixproof {
namespace {

constexpr const char* kHelp =
    "usage: mixproof explain REPORT [CHECK]\n"
    "\n"
    "Why a check has its status, with the numbers, and what would settle an inconclusive one. Without CHECK: those that\n"
    "decided the verdict. REPORT is a report, the directory of a run, or latest.\n";

std::string reason_help(const std::string& code) {
  for (const ReasonRow& row : check_reasons())
    if (row.code == code) return std::string(row.help);
  return "something that it needs failed";
}

std::string line(const std::string& name, const std::string& value) {
  return value.empty() ? "" : format("  %-10s ", name.c_str()) + value + "\n";
}

std::string observed_text(const Json& observed, const std::string& unit) {
  std::string out =
      flag_at(observed, "infinite") ? "infinite (a request got no complete answer)" : "no value";
  const Json* value = member(observed, "value");
  if (value != nullptr && value->is_number())
    out = format("%.6g %s", value->get<double>(), unit.c_str());
  if (const Json* interval = member(observed, "interval")) {
    const Json* high = member(*interval, "high");
    const Json* low = member(*interval, "low");
    out +=
        ", between " +
        (low != nullptr && low->is_number() ? format("%.6g", low->get<double>()) : "infinity") +
        " and " +
        (high != nullptr && high->is_number() ? format("%.6g", high->get<double>())
         : flag_at(*interval, "censored") ? "unknown: it had not happened when the evidence ended"
                                          : "infinity");
  }
  out += format(", n %lld", static_cast<long long>(integer_at(observed, "n")));
  if (const std::string missing = text_at(observed, "missing_reason"); !missing.empty())
    out += " (" + missing + ")";
  return out;
}

// What is known of how far requests depend on each other.
std::string dependence_text(const Json& check) {
  const Json* observed = member(check, "observed");
  const Json* evidence = observed == nullptr ? nullptr : member(*observed, "evidence");
  const Json* seen = evidence == nullptr ? nullptr : member(*evidence, "dependence");
  if (seen == nullptr) return "";
  const Json* inflation = member(*seen, "variance_inflation");
  if (inflation == nullptr || !inflation->is_number())
    return text_at(*seen, "note").find("untested") == std::string::npos
               ? ""
               : "; dependence untested: that takes 20 blocks and a baseline with answers";
  std::string out = format(
      "; violations of %lld blocks of %.3g s vary %.3g x as much as those of independent "
      "requests",
      static_cast<long long>(integer_at(*seen, "blocks")), number_at(*seen, "block_s"),
      inflation->get<double>());
  if (member(*seen, "n_eff") != nullptr)
    out += format(", so they are worth %lld trials",
                  static_cast<long long>(integer_at(*seen, "n_eff")));
  return out;
}

std::string assumptions(const Json& check) {
  std::string out;
  const std::string dependence = text_at(check, "dependence");
  if (text_at(check, "method") == "interval" || dependence == "blocks")
    out += line("assumes",
                "blocks of time are independent of each other; what lies within one is not" +
                    dependence_text(check));
  if (dependence == "requests")
    out += line("assumes", "requests are independent of each other" + dependence_text(check));
  const std::string metric = text_at(check, "metric");
  if (metric.rfind("inference.time_to_", 0) == 0)
    out += line("claims",
                "one fault inside the budget claims a chance of at least 5 % only, at 95 % "
                "confidence: of k repeats, all inside, 0.05^(1/k) (3: 37 %, 10: 74 %, 29: 90 %)");
  return out;
}

std::string explain_check(const Json& check) {
  const std::string reason = text_at(check, "reason");
  std::string out = text_at(check, "status") + "  " + text_at(check, "id") +
                    (flag_at(check, "required") ? "" : " (not required)") + "\n";
  out += line("rule", text_at(check, "rule"));
  out += line(
      "why", text_at(check, "why") +
                 (text_at(check, "owner").empty() ? "" : " (ask " + text_at(check, "owner") + ")"));
  out += line("because", text_at(check, "detail"));
  out += line("reason", reason + ": " + reason_help(reason));
  const Json* limit = member(check, "limit");
  if (const Json* observed = member(check, "observed")) {
    out +=
        line("observed", observed_text(*observed, limit == nullptr ? "" : text_at(*limit, "unit")));
    if (const Json* evidence = member(*observed, "evidence"))
      out += line("evidence", line_of(*evidence));
  }
  out += assumptions(check);
  if (const Json* power = member(check, "power")) out += line("power", text_at(*power, "text"));
  if (const Json* resolve = member(check, "resolve"))
    out += line("resolve", text_at(*resolve, "text"));
  return out;
}

Result<Json> report_of(const ReportPlace& place) {
  const std::unique_ptr<Files> files = make_real_files();
  return read_report(*files, place.report);
}

}  // namespace

int explain_main(std::span<const std::string> args) {
  if (args.empty() || args.size() > 2 || args[0] == "--help") {
    std::fputs(kHelp, args.size() == 1 ? stdout : stderr);
    return args.size() == 1 ? 0 : 4;
  }
  const ReportPlace place = place_of(args[0]);
  const auto report = report_of(place);
  if (!report) return command_failed("explain", report.error());
  std::vector<std::string> wanted, known;
  for (const Json& check : (*report)["checks"]) known.push_back(text_at(check, "id"));
  if (args.size() == 2) {
    wanted = {args[1]};
  } else if (const Json* deciding = member((*report)["verdict"], "deciding")) {
    for (const Json& id : *deciding)
      if (id.is_string()) wanted.push_back(id.get<std::string>());
  }
  for (const std::string& id : wanted)
    if (std::find(known.begin(), known.end(), id) == known.end()) {
      const std::string near = nearest(id, known);
      return command_failed(
          "explain", {Code::kInvalid, "there is no check \"" + id + "\" in " + place.report +
                                          (near.empty() ? " (it has: " + join(known, ", ") + ")"
                                                        : "; did you mean \"" + near + "\"?")});
    }
  for (const Json& check : (*report)["checks"])
    if (std::find(wanted.begin(), wanted.end(), text_at(check, "id")) != wanted.end())
      std::fputs((explain_check(check) + "\n").c_str(), stdout);
  std::fputs(summary_text(*report, place.report, place.shown_as).c_str(), stdout);
  return 0;
}

}  // namespace mixproof
