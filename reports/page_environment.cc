// Where it ran and with what, and how to do it again.
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "reports/html.h"
#include "reports/page_parts.h"

namespace mixproof::page {
namespace {

std::string nodes_html(const Json& environment, const Extent& extent) {
  Table table{
      "Nodes", "compact names", {"Node", "Role", "Address", "Clock known to", "Readings"}, {}};
  const Json& clocks = object_at(object_at(environment, "observed"), "clocks");
  for (const Json& node : list_at(environment, "nodes")) {
    if (table.rows.size() >= extent.rows) break;
    const std::string name = text_at(node, "name");
    const Json* clock = member(clocks, name);
    table.rows.push_back(
        {escape_html(name), escape_html(text_at(node, "role")),
         escape_html(text_at(node, "address")),
         clock == nullptr
             ? "never read"
             : "\xC2\xB1 " + escape_html(quantity(number_at(*clock, "uncertainty_s"), "s")),
         clock == nullptr ? "" : std::to_string(integer_at(*clock, "n"))});
  }
  return table.rows.empty() ? "" : table_html(table);
}

std::string machine_html(const Json& environment) {
  Json machine = object_at(environment, "controller");
  const double memory = number_at(machine, "memory_bytes");
  machine.erase("memory_bytes");
  std::string facts = facts_line(machine);
  if (memory > 0) facts += " \xC2\xB7 memory <b>" + escape_html(quantity(memory, "B")) + "</b>";
  return facts.empty() ? "" : "<p>Controller: " + facts + "</p>\n";
}

// "llm[0]: engine llama.cpp, ..." for services; loads have a list of such facts, one a worker.
std::string parts_html(const Json& parts, const char* title, const Extent& extent) {
  std::string out;
  std::size_t n = 0;
  for (auto it = parts.begin(); it != parts.end(); ++it)
    for (const Json& one : it->is_array() ? *it : Json::array({*it})) {
      if (++n > extent.rows) break;
      out += "<li><b class=\"id\">" + escape_html(it.key()) + "</b> " + facts_line(one) + "</li>\n";
    }
  return out.empty() ? ""
                     : "<details><summary>" + std::string(title) + " (" + std::to_string(n) +
                           ")</summary><ul class=\"facts\">\n" + out + "</ul></details>\n";
}

std::string backends_html(const Json& tool) {
  std::string out;
  for (const Json& backend : list_at(tool, "backends"))
    out +=
        "<li>" +
        yes_or_no(flag_at(backend, "found"), text_at(backend, "name"), text_at(backend, "name")) +
        " " + escape_html(text_at(backend, "detail")) + "</li>\n";
  return out.empty() ? ""
                     : "<details><summary>Backends of this build</summary><ul class=\"facts\">\n" +
                           out + "</ul></details>\n";
}

std::string command_html(const std::string& words, const std::string& what) {
  return words.empty() ? ""
                       : "<dt>" + what + "</dt><dd><pre tabindex=\"0\"><code>" +
                             escape_html(words) + "</code></pre></dd>\n";
}

}  // namespace

std::string environment_html(const Json& report, const Extent& extent) {
  const Json &environment = object_at(report, "environment"), &tool = object_at(report, "tool");
  const Json& observed = object_at(environment, "observed");
  const std::string placement = text_at(object_at(report, "plan"), "placement");
  std::string out =
      "<section id=\"environment\"><h2>Where it ran</h2>\n<p>In <b>" +
      escape_html(text_at(environment, "where", "an unknown place")) + "</b>" +
      (placement.empty() ? "" : ", placement <b>" + escape_html(placement) + "</b>") + "; " +
      escape_html(text_at(tool, "name", "mixproof") + " " + text_at(tool, "version")) +
      ", build <code>" + escape_html(text_at(tool, "build")) + "</code>, " +
      escape_html(text_at(tool, "compiler")) + ".</p>\n";
  out += machine_html(environment) + nodes_html(environment, extent) +
         parts_html(object_at(observed, "services"), "Services", extent) +
         parts_html(object_at(observed, "loads"), "Loads", extent) + backends_html(tool);
  return out + "</section>\n";
}

std::string reproduce_html(const Json& report, const Extent& extent) {
  const Json& reproduce = object_at(report, "reproduce");
  std::string explain;
  if (const Json& deciding = list_at(object_at(report, "verdict"), "deciding");
      !deciding.empty() && deciding.front().is_string())
    explain = "mixproof explain report.json " + shell_words(Json::array({deciding.front()}));
  std::string out =
      "<section id=\"again\"><h2>How to do it again</h2>\n<dl>" +
      command_html(shortened(shell_words(list_at(reproduce, "command")), extent.text_bytes),
                   "The same run (same schedule, same seed):") +
      command_html(shortened(shell_words(list_at(reproduce, "rejudge")), extent.text_bytes),
                   "The same verdict from the recording, in the directory of this report:") +
      command_html(shortened(explain, extent.text_bytes), "Why a check came out so:") + "</dl>\n";
  for (const Json& artifact : list_at(report, "artifacts"))
    out += "<p class=\"small\">" +
           escape_html(text_at(artifact, "what") + ": " + text_at(artifact, "path")) + ", " +
           escape_html(quantity(number_at(artifact, "bytes"), "B")) + ", sha256 <code>" +
           escape_html(text_at(artifact, "sha256")) + "</code></p>\n";
  if (const std::string suite = text_at(object_at(report, "provenance"), "suite_sha256");
      !suite.empty())
    out += "<p class=\"small\">suite: sha256 <code>" + escape_html(suite) + "</code></p>\n";
  return out + "</section>\n";
}

}  // namespace mixproof::page
