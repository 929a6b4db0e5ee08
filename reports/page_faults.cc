// What was broken, the proof that it was, and the proof that nothing is left of it.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "reports/fault_words.h"
#include "reports/html.h"
#include "reports/page_parts.h"

namespace mixproof::page {
namespace {

using Events = std::vector<const Json*>;

// By node: a fault between nodes has a life on each of its nodes. In the order of the events.
std::vector<std::pair<std::string, Events>> events_of(const Json& report, const std::string& id) {
  std::vector<std::pair<std::string, Events>> out;
  for (const Json& event : list_at(object_at(report, "timeline"), "events")) {
    if (text_at(event, "kind") != "fault" || text_at(event, "what") != id) continue;
    const std::string node = text_at(event, "node");
    auto at = std::find_if(out.begin(), out.end(),
                           [&node](const auto& one) { return one.first == node; });
    if (at == out.end()) at = out.insert(out.end(), {node, {}});
    at->second.push_back(&event);
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return out;
}

// The newest that the events tell of; null when none does.
const Json* plan_in(const Events& events) {
  const Json* planned = nullptr;
  for (const Json* event : events)
    if (const Json* found = member(object_at(*event, "evidence"), "plan")) planned = found;
  return planned;
}

// Of the plan; an empty object when it is not there.
const Json& planned_fault(const Json& report, const Json& fault) {
  for (const Json& phase : list_at(object_at(report, "plan"), "phases"))
    for (const Json& one : list_at(phase, "faults"))
      if (text_at(one, "id") == text_at(fault, "id")) return one;
  return object_at(report, "no such key");
}

// `node` is empty where there is only one.
std::string times_line(const std::string& node, const Events& events, bool one_shot) {
  std::vector<std::string> parts;
  for (const Json* event : events) {
    std::string state = text_at(*event, "state");
    if (one_shot && state == "reverting") continue;  // of its guard; there is nothing to revert
    std::replace(state.begin(), state.end(), '_', ' ');
    parts.push_back(escape_html(state) + " <b class=\"num\">" +
                    format("%.3f s", number_at(*event, "at_s")) + "</b>");
  }
  if (parts.empty()) return "";
  return "<p>" + (node.empty() ? "" : escape_html(node) + ": ") + join(parts, " \xE2\x86\x92 ") +
         "</p>\n";
}

// "0 (5 samples)", "0.2 to 1 (3 samples)".
std::string values_words(const Json* values) {
  if (values == nullptr || !values->is_array()) return "\xE2\x80\x93";
  double low = 0, high = 0;
  std::size_t n = 0;
  for (const Json& value : *values) {
    if (!value.is_number()) continue;
    low = n == 0 ? value.get<double>() : std::min(low, value.get<double>());
    high = n == 0 ? value.get<double>() : std::max(high, value.get<double>());
    ++n;
  }
  if (n == 0) return "none";
  return digits(low) + (low == high ? "" : " to " + digits(high)) +
         (n == 1 ? "" : format(" (%zu samples)", n));
}

std::string expected_words(const Json& control) {
  const auto bound = [&](const char* key) {
    const Json* found = member(control, key);
    return found != nullptr && found->is_number() ? digits(found->get<double>()) : std::string();
  };
  const std::string low = bound("low"), high = bound("high");
  if (low == high) return low.empty() ? "\xE2\x80\x93" : low;
  if (low.empty()) return "at most " + high;
  return high.empty() ? "at least " + low : low + " to " + high;
}

// The newest evidence of each stage: later states repeat what earlier ones had.
const Json* stage_values(const Events& events, const char* stage, const std::string& control) {
  for (auto it = events.rbegin(); it != events.rend(); ++it) {
    const Json& values = object_at(object_at(object_at(**it, "evidence"), stage), "values");
    if (const Json* found = member(values, control)) return found;
  }
  return nullptr;
}

// `node` is empty where there is only one.
void add_controls(const std::string& node, const Events& events, const Json& planned,
                  const Extent& extent, Table& table) {
  std::size_t index = 0;
  for (const Json& control : list_at(planned, "controls")) {
    if (table.rows.size() >= extent.rows) break;
    const std::string name = "control_" + std::to_string(index++);
    const std::string at = text_at(control, "at"), seen_from = at.empty() ? node : at;
    const std::string what =
        text_at(control, "metric") + " of " + text_at(control, "of") +
        (seen_from.empty() ? "" : ", seen from " + seen_from) +
        (flag_at(control, "positive") ? " (must change)" : " (must not change)");
    table.rows.push_back({escape_html(what), escape_html(expected_words(control)),
                          escape_html(values_words(stage_values(events, "before", name))),
                          escape_html(values_words(stage_values(events, "during", name))),
                          escape_html(values_words(stage_values(events, "after", name)))});
  }
}

std::string interval_words(const Json* metric, const std::string& unit) {
  const Json* interval = metric == nullptr ? nullptr : member(*metric, "interval");
  if (interval == nullptr) return "";
  const Json* high = member(*interval, "high");
  return " (between " + quantity(number_at(*interval, "low"), unit) + " and " +
         (high != nullptr && high->is_number() ? quantity(high->get<double>(), unit)
                                               : "later than the run saw") +
         ")";
}

std::string delays_line(const Json& report, const std::string& id, bool one_shot) {
  const std::pair<const char*, const char*> delays[] = {
      {"fault.effect_delay", "injected after it was due by"},
      {"inference.time_to_impact", "first felt by users after"},
      {"fault.revert_delay", "proved clean after its end was due by"},
      {"inference.time_to_recover",
       one_shot ? "users recovered from it in" : "users recovered after the undo in"},
      {"inference.time_to_normal_latency", "first tokens took their usual time again after"},
      {"inference.time_to_drain", "the backlog was gone after"}};
  std::vector<std::string> parts;
  for (const auto& [metric, words] : delays) {
    const Json* found = find_metric(report, metric, "", "", id);
    if (found == nullptr) continue;
    const std::string missing = text_at(*found, "missing_reason");
    if (missing == "no_impact") {
      parts.push_back("<b>no impact on users seen</b>");
      continue;
    }
    const std::string value =
        missing.empty() ? figure_words(found, "s") : "(not derived: " + missing + ")";
    parts.push_back(std::string(words) + " <b>" + escape_html(value) + "</b>" +
                    escape_html(interval_words(found, "s")));
  }
  return parts.empty() ? "" : "<p>" + join(parts, " \xC2\xB7 ") + "</p>\n";
}

// `node` is empty where there is only one.
std::string mechanism_items(const std::string& node, const Json& planned, const Extent& extent) {
  std::string out;
  const std::string where = node.empty() ? "" : ", " + node;
  const auto item = [&](const std::string& title, const std::string& words) {
    if (!words.empty())
      out += "<li><b>" + escape_html(title) + ":</b> " +
             escape_html(shortened(words, extent.text_bytes)) + "</li>\n";
  };
  for (const Json& step : list_at(planned, "steps")) item("Done" + where, text_at(step, "words"));
  std::vector<std::string> touches;
  for (const Json& one : list_at(planned, "touches"))
    if (one.is_string()) touches.push_back(one.get<std::string>());
  item("Touches" + where, join(touches, ", "));
  item("If everything of ours is killed", text_at(planned, "residual_life"));
  return out;
}

std::string fault_html(const Json& report, const Json& fault, const Extent& extent) {
  const std::string id = text_at(fault, "id");
  const auto lives = events_of(report, id);
  std::string out = "<article class=\"fault\"><h3>" + escape_html(fault_words(report, fault)) +
                    " <span class=\"small\">" + escape_html(id) +
                    "</span></h3>\n<p class=\"badges\">";
  const bool injected = flag_at(fault, "injected"), touched = flag_at(fault, "touched");
  out += yes_or_no(injected, "injected", "not injected");
  if (injected) out += yes_or_no(flag_at(fault, "effective"), "effect proved", "effect not proved");
  if (flag_at(fault, "unsafe"))
    out += badge("unsafe", "NOT proved clean");
  else if (touched)
    out += yes_or_no(flag_at(fault, "clean"), "proved clean", "not clean");
  else
    out += badge("skipped", "nothing was touched");
  out += "</p>\n";
  if (const std::string why = text_at(fault, "not_effective"); !why.empty())
    out += "<p>" + escape_html(shortened(why, extent.text_bytes)) + "</p>\n";
  const bool one_shot = is_one_shot(report, fault);
  Table controls{"Controls of the fault",
                 "compact",
                 {"Control", "Expected during", "Before", "During", "After"},
                 {}};
  std::string how;
  for (const auto& [node, events] : lives) {
    const std::string named = lives.size() > 1 ? node : "";
    out += times_line(named, events, one_shot);
    const Json* planned = plan_in(events);
    if (planned == nullptr) continue;
    add_controls(named, events, *planned, extent, controls);
    how += mechanism_items(named, *planned, extent);
  }
  out += delays_line(report, id, one_shot);
  if (!controls.rows.empty()) out += table_html(controls);
  if (!how.empty())
    out += "<details><summary>How it was done</summary><ul>\n" + how + "</ul></details>\n";
  return out + "</article>\n";
}

}  // namespace

std::string fault_words(const Json& report, const Json& fault) {
  const Json& planned = planned_fault(report, fault);
  std::vector<std::string> peers;
  for (const Json& peer : list_at(planned, "peers"))
    if (peer.is_string()) peers.push_back(peer.get<std::string>());
  return mixproof::fault_words(text_at(fault, "fault"), text_at(fault, "target"), peers,
                               text_at(planned, "direction"));
}

bool is_one_shot(const Json& report, const Json& fault) {
  return number_at(planned_fault(report, fault), "for_s", 1) == 0;
}

std::string faults_html(const Json& report, const Extent& extent) {
  const Json& safety = object_at(report, "safety");
  std::string out = "<section id=\"faults\"><h2>Faults and what is left of them</h2>\n";
  const Json& leftovers = list_at(safety, "leftovers");
  if (list_at(safety, "faults").empty() && leftovers.empty())
    return out + "<p>The plan has no faults.</p></section>\n";
  if (leftovers.empty()) {
    const bool touched =
        std::any_of(list_at(safety, "faults").begin(), list_at(safety, "faults").end(),
                    [](const Json& fault) { return flag_at(fault, "touched"); });
    const bool at_once =
        std::any_of(list_at(safety, "faults").begin(), list_at(safety, "faults").end(),
                    [&](const Json& fault) { return is_one_shot(report, fault); });
    const char* over = at_once
                           ? "<p>Nothing is left: every fault that touched something is over or "
                             "was undone, and that was proved.</p>\n"
                           : "<p>Nothing is left: every fault that touched something was undone, "
                             "and that was proved.</p>\n";
    out += touched ? over : "<p>Nothing is left: no fault touched anything.</p>\n";
  } else {
    out += "<p><b>Not proved clean:</b></p><ul>\n";
    for (const Json& one : leftovers)
      if (one.is_string())
        out +=
            "<li>" + escape_html(shortened(one.get<std::string>(), extent.text_bytes)) + "</li>\n";
    out += "</ul>\n";
  }
  std::size_t n = 0;
  for (const Json& fault : list_at(safety, "faults"))
    if (++n <= extent.rows) out += fault_html(report, fault, extent);
  return out + "</section>\n";
}

}  // namespace mixproof::page
