#include "reports/summary.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"

namespace mixproof {
namespace {

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// A pass rests on every required check; any other verdict on those that share its status, or on all
// that did not pass.
bool is_shown(const Json& check, const std::string& verdict) {
  const std::string status = text_at(check, "status");
  if (verdict == "unsafe") return status != "pass" && status != "skipped";
  if (verdict == "pass") return true;
  return status == verdict ||
         (flag_at(check, "required") && status != "pass" && status != "skipped");
}

std::string headline(const Json& report) {
  const Json& verdict = report["verdict"];
  const std::string status = text_at(verdict, "status");
  const auto decided = static_cast<long long>(integer_at(verdict, "decided"));
  const auto judged = static_cast<long long>(integer_at(verdict, "judged"));
  std::string out = upper(status) + "  " + text_at(report["plan"], "name") + "   ";
  if (status == "pass") return out + format("%lld of %lld checks hold", decided, judged);
  if (decided > 0) return out + format("%lld of %lld checks decided it", decided, judged);
  return out + format("%lld checks judged", judged);
}

}  // namespace

bool is_synthetic(const Json& report) {
  const Json* plan = member(report, "plan");
  const Json* services = plan == nullptr ? nullptr : member(*plan, "services");
  if (services == nullptr || !services->is_array()) return false;
  return std::any_of(services->begin(), services->end(), [](const Json& service) {
    return text_at(service, "start") == "null_server";
  });
}

std::string faults_line(const Json& safety) {
  const auto count = [&](const char* key) {
    return static_cast<long long>(integer_at(safety, key));
  };
  const Json* faults = member(safety, "faults");
  if (faults == nullptr || faults->empty()) return "faults: none planned";
  std::vector<std::string> left;
  if (const Json* leftovers = member(safety, "leftovers"))
    for (const Json& one : *leftovers)
      if (one.is_string()) left.push_back(one.get<std::string>());
  return format("faults: %lld injected, %lld effective, %lld clean; ", count("injected"),
                count("effective"), count("clean")) +
         (left.empty() ? "nothing left" : "NOT PROVED CLEAN: " + join(left, ", "));
}

std::string summary_text(const Json& report, const std::string& path, const std::string& shown_as,
                         const std::string& page) {
  const std::string verdict = text_at(report["verdict"], "status");
  std::string out =
      headline(report) + (flag_at(report, "partial") ? " (partial: the run was cut)" : "") + "\n";
  std::size_t width = 0;
  for (const Json& check : report["checks"]) width = std::max(width, text_at(check, "id").size());
  std::string first;
  for (const Json& check : report["checks"]) {
    if (!is_shown(check, verdict)) continue;
    std::string id = text_at(check, "id");
    if (first.empty() && text_at(check, "status") == verdict) first = id;
    id.resize(width, ' ');
    std::string status = text_at(check, "status");
    if (!flag_at(check, "required")) status += " (not required)";
    out += "  " + status + "  " + id + "  " + text_at(check, "detail") + "\n";
  }
  if (const Json* reasons = member(report["verdict"], "reasons"))
    for (const Json& reason : *reasons)
      if (reason.is_string()) out += "  " + reason.get<std::string>() + "\n";
  if (is_synthetic(report))
    out += "  synthetic: a null server answered; these are no figures of an engine\n";
  out += faults_line(report["safety"]) + "\n";
  out += "report: " + path + (page.empty() ? "" : "   page: " + page) + "\n";
  if (verdict == "unsafe") return out + "next: mixproof fault recover\n";
  if (verdict == "pass") return out + "next: mixproof report show " + shown_as + "\n";
  return out + "next: mixproof explain " + shown_as + (first.empty() ? "" : " " + first) + "\n";
}

}  // namespace mixproof
