#include <cstdio>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "harness/cli/catalogue.h"
#include "harness/cli/judging.h"
#include "harness/controller/inventory.h"
#include "suites/compare.h"

namespace mixproof {
namespace {

struct SchemaRow {
  const char* name;
  Json (*schema)();
};

constexpr SchemaRow kSchemas[] = {
    {"suite", [] { return suite_schema(build_catalogue()); }},
    {"report", [] { return report_schema(); }},
    {"inventory", [] { return inventory_schema(); }},
    {"comparison", [] { return comparison_schema(); }},
};

}  // namespace

int schema_main(std::span<const std::string> args) {
  std::vector<std::string> names;
  for (const SchemaRow& row : kSchemas) names.push_back(row.name);
  for (const SchemaRow& row : kSchemas) {
    if (args.size() != 1 || args[0] != row.name) continue;
    const auto text = print_json(row.schema(), 2);
    if (!text) return command_failed("schema", text.error());
    std::fputs((*text + "\n").c_str(), stdout);
    return 0;
  }
  std::fprintf(
      stderr,
      "usage: mixproof schema %s\n\nJSON Schema (draft-07) of what this build reads and writes.\n",
      join(names, "|").c_str());
  return args.size() == 1 && args[0] == "--help" ? 0 : 4;
}

}  // namespace mixproof
