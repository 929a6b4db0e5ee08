#include "reports/page.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "reports/html.h"
#include "reports/page_parts.h"

namespace mixproof {
namespace page {

const Json& object_at(const Json& json, const char* key) {
  static const Json none = Json::object();
  const Json* found = member(json, key);
  return found != nullptr && found->is_object() ? *found : none;
}

const Json& list_at(const Json& json, const char* key) {
  static const Json none = Json::array();
  const Json* found = member(json, key);
  return found != nullptr && found->is_array() ? *found : none;
}

const Json* find_metric(const Json& report, std::string_view id, std::string_view load,
                        std::string_view phase, std::string_view fault) {
  for (const Json& metric : list_at(report, "metrics")) {
    const Json& labels = object_at(metric, "labels");
    const auto fits = [&](const char* label, std::string_view value) {
      return value.empty() || text_at(labels, label) == value;
    };
    if (text_at(metric, "id") == id && fits("load", load) && fits("phase", phase) &&
        fits("fault", fault))
      return &metric;
  }
  return nullptr;
}

namespace {

constexpr double kWide = 1040, kNarrow = 380;  // pixels; the style sheet shows one of the two

std::string legend(const TimelineSeries& series) {
  std::int64_t requests = 0, bad = 0, unanswered = 0;
  bool has_slo = false, has_bound = false;
  for (const RequestSeries& one : series.requests) {
    requests += one.requests;
    bad += one.bad;
    unanswered += one.unanswered;
    has_slo = has_slo || one.has_slo;
    has_bound = has_bound || one.ttft_bound_s;
  }
  const auto entry = [](const std::string& picture, const std::string& words) {
    return "<li><svg viewBox=\"0 0 22 14\" aria-hidden=\"true\" focusable=\"false\">" + picture +
           "</svg>" + words + "</li>";
  };
  const auto counted = [](std::int64_t n) { return format(" (%lld)", static_cast<long long>(n)); };
  std::string out = "<ul class=\"legend\">";
  if (requests > 0) {
    out += entry("<path class=\"good\" d=\"M11 7h0\"/>",
                 (has_slo ? "good: within the SLO" : "answered") + counted(requests - bad));
    out += entry("<path class=\"bad\" d=\"M8 4l6 6m0-6l-6 6\"/>",
                 (has_slo ? "answered, but not within the SLO" : "not a whole answer") +
                     counted(bad - unanswered));
    out += entry("<path class=\"unanswered\" d=\"M11 3l4 7h-8z\"/>",
                 "no complete answer" + counted(unanswered));
  }
  if (has_bound) out += entry("<path class=\"bound\" d=\"M0 7h22\"/>", "bound of a limit or SLO");
  out += entry("<rect class=\"fault-bar\" x=\"1\" y=\"3\" width=\"20\" height=\"9\" rx=\"2\"/>",
               "fault, from injected to proved clean");
  out += entry("<rect class=\"settle\" x=\"1\" y=\"1\" width=\"20\" height=\"12\"/>",
               "settling: recorded, left out of figures");
  if (!series.checkpoints.empty())
    out += entry("<path class=\"checkpoint\" d=\"M11 2l5 5-5 5-5-5z\"/>", "checkpoint complete");
  if (std::any_of(series.checkpoints.begin(), series.checkpoints.end(),
                  [](const CheckpointMark& mark) { return !mark.complete; }))
    out += entry("<path class=\"bad\" d=\"M7 3l8 8m0-8l-8 8\"/>", "beside them: checkpoint failed");
  return out + "</ul>\n";
}

std::string phases_table(const Json& report, const Extent& extent) {
  Table table{"Phases",
              "compact names phases",
              {"Phase", "From", "Measured from", "To", "Loads", "Remarks"},
              {}};
  int number = 0;
  for (const Json& phase : list_at(object_at(report, "timeline"), "phases")) {
    if (table.rows.size() >= extent.rows) break;
    const bool begun = member(phase, "begin_s") != nullptr;
    std::vector<std::string> loads, remarks;
    for (const Json& load : list_at(phase, "loads"))
      loads.push_back(load.is_string() ? load.get<std::string>() : "");
    if (!begun)
      remarks.push_back("did not begin");
    else if (!flag_at(phase, "complete"))
      remarks.push_back("cut short");
    for (const Json& problem : list_at(phase, "problems"))
      remarks.push_back(text_at(problem, "detail"));
    const auto time = [&](const char* key) {
      return begun ? format("%.1f s", number_at(phase, key)) : std::string();
    };
    table.rows.push_back(
        {(begun ? std::to_string(++number) + " " : "") + escape_html(text_at(phase, "name")),
         time("begin_s"), time("settled_s"), time("end_s"), escape_html(join(loads, ", ")),
         escape_html(shortened(join(remarks, "; "), extent.text_bytes))});
  }
  return table_html(table);
}

std::string events_list(const Json& report, const Extent& extent) {
  std::string out;
  std::size_t n = 0;
  for (const Json& event : list_at(object_at(report, "timeline"), "events")) {
    if (text_at(event, "kind") == "stop" && text_at(event, "detail") == "end") continue;
    if (++n > extent.rows) break;
    const Json* at = member(event, "at_s");
    const std::string detail = shortened(text_at(event, "detail"), extent.text_bytes);
    out += "<li><span class=\"num\">" +
           (at != nullptr && at->is_number() ? format("%.3f s", at->get<double>())
                                             : "at an unknown time") +
           "</span> " +
           escape_html(text_at(event, "kind") + " " + text_at(event, "what") + " " +
                       text_at(event, "state") + (detail.empty() ? "" : ": " + detail)) +
           "</li>\n";
  }
  for (const Json& note : list_at(object_at(report, "timeline"), "notes"))
    if (note.is_string() && ++n <= extent.rows)
      out +=
          "<li>" + escape_html(shortened(note.get<std::string>(), extent.text_bytes)) + "</li>\n";
  if (out.empty()) return "";
  return "<details><summary>Events (" + std::to_string(n) + ")</summary><ul class=\"events\">\n" +
         out + "</ul></details>\n";
}

}  // namespace

std::string timeline_html(const Json& report, const TimelineSeries* series, const Extent& extent) {
  std::string out = "<section id=\"timeline\"><h2>What happened when</h2>\n";
  static const TimelineSeries none;
  if (series == nullptr)
    out +=
        "<p class=\"note\">The recording of this run is not beside the report, so requests and "
        "training steps are not "
        "drawn.</p>\n";
  if (phase_spans(report).empty()) {
    out += "<p>No phase began.</p>\n";
  } else {
    const TimelineSeries& drawn = series == nullptr ? none : *series;
    out += "<figure>" + timeline_svg(report, drawn, kWide) + timeline_svg(report, drawn, kNarrow) +
           legend(drawn) + "</figure>\n";
  }
  return out + phases_table(report, extent) + events_list(report, extent) + "</section>\n";
}

}  // namespace page

namespace {

std::string whole(const Json& report, const TimelineSeries* series, const page::Extent& extent) {
  const std::string name = text_at(page::object_at(report, "plan"), "name", "report");
  const std::string verdict = text_at(page::object_at(report, "verdict"), "status", "no verdict");
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\"/>\n"
      "<meta name=\"color-scheme\" content=\"light dark\"/>\n<title>" +
      escape_html(verdict + ": " + name) + "</title>\n<style>" + page::kStyle +
      "</style></head>\n<body>\n" +
      "<a class=\"skip\" href=\"#main\">Skip to the verdict</a>\n<main id=\"main\">\n";
  out += page::head_html(report, extent) + page::deciding_html(report, extent) +
         page::timeline_html(report, series, extent) + page::faults_html(report, extent) +
         page::checks_html(report, extent) + page::metrics_html(report, extent) +
         page::environment_html(report, extent) + page::reproduce_html(report, extent);
  return out + "</main>\n</body></html>\n";
}

}  // namespace

std::string page_text(const Json& report, const TimelineSeries* series) {
  std::string out;
  for (const page::Extent& extent :
       {page::Extent{}, page::Extent{false, 400, 500}, page::Extent{false, 60, 120}}) {
    out = whole(report, series, extent);
    if (out.size() <= kPageLimitBytes) break;
  }
  return out;
}

}  // namespace mixproof
