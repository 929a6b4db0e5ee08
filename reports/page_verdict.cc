// The head of the page: the verdict in a sentence, what qualifies it, and the checks that decided
// it.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/base/text.h"
#include "reports/html.h"
#include "reports/page_parts.h"
#include "reports/summary.h"
#include "reports/svg.h"

namespace mixproof::page {
namespace {

constexpr std::size_t kMostCards = 10;  // as many as a verdict names
constexpr double kMeterWidth = 300, kMeterHeight = 30;

std::string sentence(const Json& verdict) {
  const auto decided = static_cast<long long>(integer_at(verdict, "decided"));
  const auto judged = static_cast<long long>(integer_at(verdict, "judged"));
  const std::string status = text_at(verdict, "status");
  if (status == "pass")
    return decided == judged
               ? format("All %lld required checks were measured and hold.", judged)
               : format("%lld of %lld required checks were measured and hold.", decided, judged);
  if (status == "fail")
    return format("%lld of %lld required checks were measured outside their limit.", decided,
                  judged);
  if (status == "inconclusive" && decided > 0)
    return format(
        "Nothing was measured outside its limit, but %lld of %lld required checks could not be "
        "decided.",
        decided, judged);
  if (status == "inconclusive")
    return "Nothing was measured outside its limit, but the run was not whole.";
  if (status == "error" && decided > 0)
    return format("%lld of %lld required checks could not be measured.", decided, judged);
  if (status == "error") return "The run could not be measured.";
  if (status == "unsafe")
    return "A fault was not proved clean: a node may still be disturbed. See to it before anything "
           "else.";
  return "The report has no verdict.";
}

std::string capital(std::string words) {
  if (!words.empty())
    words[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(words[0])));
  return words;
}

bool is_synthetic(const Json& report) {
  for (const Json& service : list_at(object_at(report, "plan"), "services"))
    if (text_at(service, "start") == "null_server") return true;
  for (const Json& metric : list_at(report, "metrics"))
    if (text_at(object_at(metric, "labels"), "backend") == "null_server") return true;
  return false;
}

std::vector<std::string> warnings(const Json& report) {
  std::vector<std::string> out;
  const Json& verdict = object_at(report, "verdict");
  if (flag_at(report, "partial"))
    out.push_back(
        "Partial: the run was cut before its end. What is below is what it had recorded by then.");
  if (!flag_at(object_at(report, "safety"), "safe", true) || text_at(verdict, "status") == "unsafe")
    out.push_back(
        "Left behind: run \"mixproof fault recover\" on the nodes named under Faults; they take no "
        "further fault until then.");
  const std::size_t said = out.size();
  for (const Json& reason : list_at(verdict, "reasons")) {
    const std::string words = reason.is_string() ? reason.get<std::string>() : "";
    const bool again = said > 0 && (words == "a fault is not proved clean" ||
                                    words == "the recording has no end: the run was cut");
    if (!words.empty() && !again) out.push_back(capital(words) + ".");
  }
  if (is_synthetic(report))
    out.push_back(
        "Synthetic: the answers came from a null server, which computes nothing. The figures show "
        "what the harness and the "
        "network do, not what an inference engine can do.");
  for (const Json& phase : list_at(object_at(report, "timeline"), "phases"))
    for (const Json& problem : list_at(phase, "problems"))
      out.push_back("Phase " + text_at(phase, "name") + ": " + text_at(problem, "detail") + ".");
  const Json& settings = list_at(object_at(report, "provenance"), "settings");
  if (!settings.empty())
    out.push_back("The suite was changed for this run: --set " + shell_words(settings) + ".");
  return out;
}

std::string warnings_html(const Json& report, const Extent& extent) {
  std::vector<std::string> all = warnings(report);
  if (extent.rows < all.size()) all.resize(extent.rows);
  if (!extent.evidence)
    all.push_back(
        "This report is too long for a page: evidence and long lists are left out here, and are in "
        "report.json.");
  if (all.empty()) return "";
  std::string out = "<ul class=\"warnings\">\n";
  for (const std::string& one : all)
    out += "<li>" + escape_html(shortened(one, extent.text_bytes)) + "</li>\n";
  return out + "</ul>\n";
}

// A check's value beside its limit, on a line that starts at zero (or, where the limit is a share
// close to one, near it).
struct Meter {
  double low = 0, high = 1, limit = 0;
  bool at_most = true;
  std::optional<double> value, from, to;
  bool infinite = false;
};

std::optional<double> maybe_number(const Json& json, const char* key) {
  const Json* found = member(json, key);
  if (found == nullptr || !found->is_number() || !std::isfinite(found->get<double>()))
    return std::nullopt;
  return found->get<double>();
}

std::optional<Meter> meter_of(const Json& check) {
  const Json &limit = object_at(check, "limit"), &observed = object_at(check, "observed");
  const auto most = maybe_number(limit, "at_most"), least = maybe_number(limit, "at_least");
  Meter out;
  if (most.has_value() == least.has_value()) return std::nullopt;  // neither, or a range
  out.at_most = most.has_value();
  out.limit = most ? *most : *least;
  out.value = maybe_number(observed, "value");
  out.infinite = flag_at(observed, "infinite");
  out.from = maybe_number(object_at(observed, "interval"), "low");
  out.to = maybe_number(object_at(observed, "interval"), "high");
  if (out.limit <= 0 || (!out.value && !out.infinite)) return std::nullopt;
  out.high = std::max({out.limit, out.value.value_or(0), out.to.value_or(0)});
  const bool share =
      !out.at_most && text_at(limit, "unit") == "1" && out.limit < 1 && out.high <= 1;
  if (share) {
    out.high = 1;
    if (out.limit >= 0.8)
      out.low = std::max(
          0.0, std::min(1 - 4 * (1 - out.limit), out.from.value_or(out.value.value_or(1)) - 0.02));
  } else {
    out.high *= 1.15;
  }
  return out;
}

std::string meter_svg(const Meter& meter) {
  Svg svg(kMeterWidth, kMeterHeight);
  const Scale x{meter.low, meter.high, 8, kMeterWidth - 8, false};
  const double middle = kMeterHeight / 2, limit = x(meter.limit);
  svg.rect("meter-track", x.from, middle - 5, x.to - x.from, 10, 5);
  const double from = meter.at_most ? x.from : limit, to = meter.at_most ? limit : x.to;
  svg.rect("meter-allowed", from, middle - 5, to - from, 10, 5);
  svg.line("meter-limit", limit, 3, limit, kMeterHeight - 3);
  if (meter.from && meter.to && x(*meter.to) > x(*meter.from))
    svg.line("meter-interval", x(*meter.from), middle, x(*meter.to), middle);
  if (meter.infinite)
    svg.path("meter-value",
             "M" + coordinate(x.to - 4) + " " + coordinate(middle - 6) + "l9 6l-9 6z");
  else
    svg.path("meter-value", "M" + coordinate(x(*meter.value)) + " " + coordinate(middle - 6.5) +
                                "l6.5 6.5-6.5 6.5-6.5-6.5z");
  return svg.take("meter", "");
}

std::string meter_html(const Json& check) {
  const std::optional<Meter> meter = meter_of(check);
  if (!meter) return "";
  const std::string unit = text_at(object_at(check, "limit"), "unit"),
                    metric = text_at(check, "metric");
  const bool share =
      unit == "1" && (metric.ends_with(".attainment") || metric.ends_with(".retained"));
  const auto words = [&](double value) { return share ? percent(value) : quantity(value, unit); };
  return "<div class=\"measure\"><span class=\"value\">" +
         escape_html(meter->infinite ? "no answer" : words(*meter->value)) +
         "</span> <span class=\"limit\">" + (meter->at_most ? "at most " : "at least ") +
         escape_html(words(meter->limit)) + "</span>" + meter_svg(*meter) +
         "<div class=\"ends\"><span>" + escape_html(words(meter->low)) + "</span><span>" +
         escape_html(words(meter->high)) + "</span></div></div>";
}

std::string card(const Json& check, const Extent& extent) {
  const std::string status = text_at(check, "status");
  std::string out = "<li class=\"card c-" + escape_html(status) + "\"><h3>" + badge(status) +
                    " <span class=\"id\">" + escape_html(text_at(check, "id")) + "</span></h3>\n" +
                    meter_html(check) + "<p>" +
                    escape_html(shortened(text_at(check, "detail"), extent.text_bytes)) + "</p>\n";
  const auto more = [&](const char* title, const std::string& words) {
    if (!words.empty())
      out += "<p class=\"small\"><b>" + std::string(title) + "</b> " +
             escape_html(shortened(words, extent.text_bytes)) + "</p>\n";
  };
  more("Why this limit:", text_at(check, "why"));
  more("Ask:", text_at(check, "owner"));
  more("To settle it:", text_at(object_at(check, "resolve"), "text"));
  return out + "</li>\n";
}

}  // namespace

std::string head_html(const Json& report, const Extent& extent) {
  const Json &plan = object_at(report, "plan"), &verdict = object_at(report, "verdict");
  const Json &provenance = object_at(report, "provenance"),
             &environment = object_at(report, "environment");
  const std::string status = text_at(verdict, "status", "error");
  const auto spans = phase_spans(report);
  std::vector<std::string> facts = {text_at(provenance, "run"), text_at(provenance, "started_utc")};
  if (!spans.empty()) facts.push_back(format("%.0f s", spans.back().end_s));
  facts.push_back(format("%zu nodes in %s", list_at(environment, "nodes").size(),
                         text_at(environment, "where", "an unknown place").c_str()));
  std::erase(facts, "");
  return "<header class=\"verdict v-" + escape_html(status) +
         "\">\n<p class=\"product\">Mixproof report</p>\n<h1>" + badge(status) + " <span>" +
         escape_html(text_at(plan, "name")) + "</span></h1>\n<p class=\"claim\">" +
         escape_html(shortened(text_at(plan, "claim"), extent.text_bytes)) +
         "</p>\n<p class=\"sentence\">" + escape_html(sentence(verdict)) + "</p>\n<p>" +
         escape_html(
             shortened(capital(faults_line(object_at(report, "safety"))), extent.text_bytes)) +
         "</p>\n<p class=\"small\">" +
         escape_html(shortened(join(facts, " \xC2\xB7 "), extent.text_bytes)) +
         "</p>\n</header>\n" + warnings_html(report, extent);
}

std::string deciding_html(const Json& report, const Extent& extent) {
  std::set<std::string> deciding;
  for (const Json& id : list_at(object_at(report, "verdict"), "deciding"))
    if (id.is_string()) deciding.insert(id.get<std::string>());
  std::string cards;
  std::size_t n = 0;
  for (const Json& check : list_at(report, "checks"))
    if (deciding.contains(text_at(check, "id")) && ++n <= kMostCards) cards += card(check, extent);
  const std::string body = cards.empty() ? "<p>No check decided it; see the reasons above.</p>\n"
                                         : "<ul class=\"cards\">\n" + cards + "</ul>\n";
  return "<section id=\"why\"><h2>What decided it</h2>\n" + body + "</section>\n";
}

}  // namespace mixproof::page
