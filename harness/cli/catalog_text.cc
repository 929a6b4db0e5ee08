#include "harness/cli/catalog_text.h"

#include <nlohmann/json.hpp>

#include "faults/fault.h"
#include "probes/probe.h"

namespace mixproof {
namespace {

std::string fenced(const Params& params) {
  return params.empty() ? "No parameters.\n" : "```\n" + describe(params, 0) + "```\n";
}

std::string_view direction(Better better) {
  return better == Better::kLower ? "lower" : better == Better::kHigher ? "higher" : "-";
}

}  // namespace

std::string probes_markdown() {
  std::string out =
      "# Probes and loads\n\nWritten by `mixproof list probes --markdown`; do not edit.\n";
  for (const ProbeSpec* spec : all_probes()) {
    out += "\n## " + std::string(spec->name) + " (" + (spec->load ? "load" : "probe") + ")\n\n" +
           std::string(spec->summary) + "\n\n" + fenced(spec->create()->params());
    out += "\n| metric | unit | better | what it is |\n|---|---|---|---|\n";
    for (const MetricSpec& metric : spec->metrics)
      out += "| `" + std::string(metric.name) + "` | " + std::string(metric.unit) + " | " +
             std::string(direction(metric.better)) + " | " + std::string(metric.help) + " |\n";
  }
  return out;
}

std::string faults_markdown() {
  std::string out =
      "# Faults\n\nWritten by `mixproof list faults --markdown`; do not edit. Tiers: 1 process-local, 2 node-local "
      "and ended by the kernel, 3 needs its guard, 4 may need hands.\n";
  for (const FaultSpec* spec : all_faults())
    out += "\n## " + std::string(spec->name) + " (tier " + std::to_string(spec->tier) + ")\n\n" +
           std::string(spec->summary) +
           "\n\nAfter SIGKILL of everything of ours: " + std::string(spec->residual_life) + "\n\n" +
           fenced(spec->create()->params());
  return out;
}

}  // namespace mixproof
