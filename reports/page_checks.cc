// Every check with its evidence, and the figures of each phase.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "reports/html.h"
#include "reports/page_parts.h"

namespace mixproof::page {
namespace {

std::string evidence_html(const Json& check, const Extent& extent) {
  if (!extent.evidence) return "";
  std::string out = "<details><summary>Evidence</summary><ul>\n";
  const auto item = [&](const char* title, const std::string& html) {
    if (!html.empty()) out += "<li>" + std::string(title) + " " + html + "</li>\n";
  };
  item("Rule:",
       "<code>" + escape_html(shortened(text_at(check, "rule"), extent.text_bytes)) + "</code>");
  item("Reason:", escape_html(text_at(check, "reason")));
  item("Observed:", facts_line(object_at(check, "observed")));
  item("Power:",
       escape_html(shortened(text_at(object_at(check, "power"), "text"), extent.text_bytes)));
  item("To settle it:",
       escape_html(shortened(text_at(object_at(check, "resolve"), "text"), extent.text_bytes)));
  item("Ask:", escape_html(shortened(text_at(check, "owner"), extent.text_bytes)));
  return out + "</ul></details>";
}

// The columns of a phase's table: a metric and, for samples, one of its quantiles.
struct Column {
  const char* head;
  const char* metric;
  const char* quantile;  // null: the value
  bool share = false;
};

constexpr Column kInference[] = {{"TTFT p50", "inference.ttft", "p50"},
                                 {"TTFT p99", "inference.ttft", "p99"},
                                 {"Max gap p50", "inference.max_gap", "p50"},
                                 {"Longest wait", "inference.longest_wait", "max"},
                                 {"Attainment", "inference.attainment", nullptr, true},
                                 {"Good requests", "inference.goodput", nullptr}};
constexpr Column kTraining[] = {{"Step p50", "training.step_time", "p50"},
                                {"Step p99", "training.step_time", "p99"},
                                {"Steps", "", nullptr},  // a second: see steps_words
                                {"Retained", "training.retained", nullptr, true}};

// p99, or the highest quantile below it for which the samples suffice, with its name.
std::string tail_cell(const Json& metric, const std::string& unit) {
  for (const char* quantile : {"p99", "p95", "p90"}) {
    const Json* figure = member(object_at(metric, "summary"), quantile);
    if (figure == nullptr || !text_at(*figure, "missing_reason").empty()) continue;
    return (quantile == std::string_view("p99")
                ? ""
                : "<span class=\"small\">" + std::string(quantile) + "</span> ") +
           escape_html(figure_words(figure, unit));
  }
  return "\xE2\x80\x93";
}

std::string cell(const Json* metric, const Column& column) {
  if (metric == nullptr) return "\xE2\x80\x93";
  const std::string unit = text_at(*metric, "unit");
  if (column.quantile != nullptr && column.quantile == std::string_view("p99"))
    return tail_cell(*metric, unit);
  const Json* figure =
      column.quantile == nullptr ? metric : member(object_at(*metric, "summary"), column.quantile);
  if (figure == nullptr) return "\xE2\x80\x93";
  const Json* value = member(*figure, "value");
  if (column.share && value != nullptr && value->is_number()) return percent(value->get<double>());
  return escape_html(figure_words(figure, unit));
}

std::string steps_words(const Json& report, const std::string& load, const std::string& phase) {
  for (const char* id : {"training.goodput", "training.retained"})
    if (const Json* metric = find_metric(report, id, load, phase))
      if (const Json* rate = member(object_at(*metric, "evidence"), "steps_per_s");
          rate != nullptr && rate->is_number())
        return quantity(rate->get<double>(), "1/s");
  return "\xE2\x80\x93";
}

template <std::size_t N>
std::string load_table(const Json& report, const std::string& load, const std::string& count_head,
                       const char* counted, const Column (&columns)[N], const Extent& extent) {
  Table table{"Figures of " + load, "figures", {"Phase", count_head}, {}};
  for (const Column& column : columns) table.head.push_back(column.head);
  for (const Json& phase : list_at(object_at(report, "timeline"), "phases")) {
    const std::string name = text_at(phase, "name");
    const Json* count = find_metric(report, counted, load, name);
    if (count == nullptr || table.rows.size() >= extent.rows) continue;
    std::vector<std::string> row = {escape_html(name), std::to_string(integer_at(*count, "n"))};
    for (const Column& column : columns)
      row.push_back(*column.metric == '\0'
                        ? steps_words(report, load, name)
                        : cell(find_metric(report, column.metric, load, name), column));
    table.rows.push_back(std::move(row));
  }
  if (table.rows.empty()) return "";
  const Json* first = find_metric(report, counted, load, "");
  const std::string backend =
      first == nullptr ? "" : text_at(object_at(*first, "labels"), "backend");
  return "<h3>" + escape_html(load) +
         (backend.empty() ? "" : " <span class=\"small\">on " + escape_html(backend) + "</span>") +
         "</h3>\n" + table_html(table);
}

std::string labels_words(const Json& labels) {
  std::vector<std::string> parts;
  for (auto it = labels.begin(); it != labels.end(); ++it)
    if (it->is_string() && it.key() != "backend")
      parts.push_back(it.key() == "phase" || it.key() == "load"
                          ? it->get<std::string>()
                          : it.key() + " " + it->get<std::string>());
  return join(parts, ", ");
}

std::string all_figures(const Json& report, const Extent& extent) {
  if (!extent.evidence) return "";
  Table table{"All figures",
              "compact names figures",
              {"Figure", "Of", "n", "Value or p50", "p90", "p99", "max"},
              {}};
  for (const Json& metric : list_at(report, "metrics")) {
    if (table.rows.size() >= extent.rows) break;
    const std::string unit = text_at(metric, "unit");
    std::vector<std::string> row = {escape_html(text_at(metric, "id")),
                                    escape_html(labels_words(object_at(metric, "labels"))),
                                    std::to_string(integer_at(metric, "n"))};
    const Json* summary = member(metric, "summary");
    for (const char* quantile : {"p50", "p90", "p99", "max"})
      row.push_back(summary != nullptr ? escape_html(figure_words(member(*summary, quantile), unit))
                                       : "");
    if (summary == nullptr) row[3] = escape_html(figure_words(&metric, unit));
    table.rows.push_back(std::move(row));
  }
  const std::size_t all = list_at(report, "metrics").size();
  return "<details><summary>All figures (" + std::to_string(all) + ")</summary>" +
         table_html(table) +
         (table.rows.size() < all ? "<p class=\"small\">The others are in report.json.</p>" : "") +
         "</details>\n";
}

}  // namespace

std::string checks_html(const Json& report, const Extent& extent) {
  Table table{"All checks", "checks", {"Check", "Status", "Outcome", "Why this limit"}, {}};
  for (const Json& check : list_at(report, "checks")) {
    if (table.rows.size() >= extent.rows) break;
    table.rows.push_back(
        {"<span class=\"id\">" + escape_html(text_at(check, "id")) + "</span>",
         badge(text_at(check, "status")) + (flag_at(check, "required", true)
                                                ? ""
                                                : "<br/><span class=\"small\">not required</span>"),
         escape_html(shortened(text_at(check, "detail"), extent.text_bytes)) +
             evidence_html(check, extent),
         escape_html(shortened(text_at(check, "why"), extent.text_bytes))});
  }
  const std::size_t all = list_at(report, "checks").size();
  return "<section id=\"checks\"><h2>All checks</h2>\n" +
         (all == 0 ? "<p>The plan has no checks.</p>" : table_html(table)) +
         (table.rows.size() < all ? "<p class=\"small\">The others are in report.json.</p>" : "") +
         "</section>\n";
}

std::string metrics_html(const Json& report, const Extent& extent) {
  std::string tables;
  for (const Json& load : list_at(object_at(report, "plan"), "loads")) {
    const std::string name = text_at(load, "name"), probe = text_at(load, "probe");
    if (probe == "inference")
      tables += load_table(report, name, "Requests", "inference.ttft", kInference, extent);
    if (probe == "training")
      tables += load_table(report, name, "Whole steps", "training.step_time", kTraining, extent);
  }
  if (tables.empty() && list_at(report, "metrics").empty()) return "";
  return "<section id=\"figures\"><h2>Figures of each phase</h2>\n" + tables +
         "<p class=\"small\">TTFT: from the scheduled time of a request to its first token. Max "
         "gap: the longest pause within an answer. "
         "Attainment: the share of scheduled requests within the SLO. Retained: step rate against "
         "the reference phase. Where the samples are too few for "
         "p99, the highest quantile that they give stands there by name. \xE2\x80\x93: not "
         "derived.</p>\n" +
         all_figures(report, extent) + "</section>\n";
}

}  // namespace mixproof::page
