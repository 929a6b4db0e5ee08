// `mixproof list`: what this build and this machine can do, with reasons.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "faults/fault.h"
#include "harness/base/build.h"
#include "harness/base/text.h"
#include "harness/cli/arguments.h"
#include "harness/cli/catalog_text.h"
#include "harness/cli/inspect.h"
#include "harness/cli/judging.h"
#include "probes/probe.h"
#include "suites/services/service.h"

namespace mixproof {
namespace {

constexpr const char* kHelp =
    "usage: mixproof list probes|faults|services|backends|metrics [--markdown]\n"
    "\n"
    "What this build and this machine can do; for what they cannot, why. --markdown: probes and faults as the pages\n"
    "probes/CATALOG.md and faults/CATALOG.md.\n";

std::string_view direction(Better better) {
  return better == Better::kLower    ? "lower is better"
         : better == Better::kHigher ? "higher is better"
                                     : "";
}

void list_probes() {
  for (const ProbeSpec* spec : all_probes()) {
    std::printf("%s (%s)\n  %s\n", std::string(spec->name).c_str(), spec->load ? "load" : "probe",
                std::string(spec->summary).c_str());
    std::fputs(describe(spec->create()->params(), 4).c_str(), stdout);
  }
}

void list_faults() {
  for (const FaultSpec* spec : all_faults()) {
    std::printf("%s (tier %d)\n  %s\n", std::string(spec->name).c_str(), spec->tier,
                std::string(spec->summary).c_str());
    std::fputs(describe(spec->create()->params(), 4).c_str(), stdout);
  }
}

void list_services() {
  for (const ServiceKind& kind : service_kinds()) {
    const Status available = kind.available();
    std::printf("%-12s %s\n", kind.name.c_str(), kind.summary.c_str());
    if (!available.ok())
      std::printf("             not here: %s\n", available.error().message.c_str());
  }
}

void list_backends() {
  int count = 0;
  const BackendFact* facts = backend_facts(&count);
  for (int i = 0; i < count; ++i)
    std::printf("%-10s %-9s %s\n", facts[i].name, facts[i].found ? "found" : "left out",
                facts[i].detail);
}

void list_metrics() {
  for (const ProbeSpec* spec : all_probes())
    for (const MetricSpec& metric : spec->metrics)
      std::printf("%-28s %-4s %-17s %s\n", std::string(metric.name).c_str(),
                  std::string(metric.unit).c_str(), std::string(direction(metric.better)).c_str(),
                  std::string(metric.help).c_str());
}

}  // namespace

int list_main(std::span<const std::string> args) {
  const Result<Arguments> arguments =
      Arguments::parse(args, {{"--markdown", "", false}, {"--help", "-h", false}});
  if (!arguments.ok()) return command_failed("list", arguments.error());
  const std::string what = arguments->positional().size() == 1 ? arguments->positional()[0] : "";
  const bool markdown = arguments->has("--markdown");
  if (what == "probes") {
    markdown ? static_cast<void>(std::fputs(probes_markdown().c_str(), stdout)) : list_probes();
  } else if (what == "faults") {
    markdown ? static_cast<void>(std::fputs(faults_markdown().c_str(), stdout)) : list_faults();
  } else if (what == "services") {
    list_services();
  } else if (what == "backends") {
    list_backends();
  } else if (what == "metrics") {
    list_metrics();
  } else {
    std::fputs(kHelp, arguments->has("--help") ? stdout : stderr);
    return arguments->has("--help") ? 0 : 4;
  }
  return 0;
}

}  // namespace mixproof
