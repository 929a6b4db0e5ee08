#include <nlohmann/json.hpp>

#include "suites/metrics.h"
#include "suites/plan.h"
#include "suites/suite_params.h"

namespace mixproof {
namespace {

// {"if": {"properties": {key: {"const": name}}}, "then": {"properties": {"params": schema}}}
Json params_rule(const std::string& key, const std::string& name, const Json& params) {
  return {{"if", {{"properties", {{key, {{"const", name}}}}}, {"required", Json::array({key})}}},
          {"then", {{"properties", {{"params", params}}}}}};
}

template <typename Entries, typename SchemaOf, typename Keep>
void narrow(Json& object, const std::string& key, const Entries& entries, SchemaOf schema_of_entry,
            Keep keep) {
  Json names = Json::array(), rules = Json::array();
  for (const auto& [name, entry] : entries) {
    if (!keep(entry)) continue;
    names.push_back(name);
    if (entry.schema != nullptr) rules.push_back(params_rule(key, name, schema_of_entry(entry)));
  }
  if (!names.empty()) object["properties"][key]["enum"] = std::move(names);
  if (!rules.empty()) object["allOf"] = std::move(rules);
}

}  // namespace

Json suite_schema(const Catalogue& catalogue) {
  Json schema = bare_suite_schema();
  Json& properties = schema["properties"];
  narrow(
      properties["services"]["additionalProperties"], "start", catalogue.service_kinds,
      [](const Catalogue::Service& kind) { return kind.schema(); },
      [](const Catalogue::Service&) { return true; });
  narrow(
      properties["loads"]["additionalProperties"], "probe", catalogue.probes,
      [](const Catalogue::Probe& probe) { return probe.schema(probe.name); },
      [](const Catalogue::Probe& probe) { return probe.load; });
  narrow(
      properties["phases"]["items"]["properties"]["faults"]["items"], "fault", catalogue.faults,
      [](const Catalogue::Fault& fault) { return fault.schema(fault.name); },
      [](const Catalogue::Fault&) { return true; });
  Json metrics = Json::array();
  for (const JudgedMetric& metric : judged_metrics())
    if (metric.kind != MetricKind::kReported) metrics.push_back(metric.id);
  properties["limits"]["items"]["properties"]["metric"]["enum"] = std::move(metrics);
  return schema;
}

}  // namespace mixproof
