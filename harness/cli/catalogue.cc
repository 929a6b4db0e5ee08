#include "harness/cli/catalogue.h"

#include <nlohmann/json.hpp>

#include "faults/fault.h"
#include "probes/probe.h"
#include "suites/services/service.h"

namespace mixproof {
namespace {

// Reads the parameters into a fresh entry and writes them back: ranges are checked and defaults
// filled in. What the declaration cannot write (maps, lists, free objects) stays as it was given.
Result<Json> complete(const Params& params, const Json& given, const std::string& pointer) {
  TRY(read_params(given, params, pointer));
  Json out = given;
  out.update(write_params(params), true);
  return out;
}

const ProbeSpec* probe_spec(const std::string& name) {
  for (const ProbeSpec* spec : all_probes())
    if (spec->name == name) return spec;
  return nullptr;
}

const FaultSpec* fault_spec(const std::string& name) {
  for (const FaultSpec* spec : all_faults())
    if (spec->name == name) return spec;
  return nullptr;
}

Result<Json> check_probe(const std::string& name, const Json& params, const std::string& pointer) {
  const ProbeSpec* spec = probe_spec(name);
  if (spec == nullptr)
    return Error{Code::kInvalid, pointer + ": there is no probe \"" + name + "\""};
  const std::unique_ptr<Probe> probe = spec->create();
  Json completed = TRY(complete(probe->params(), params, pointer));
  if (Status agree = probe->check_params(); !agree) return std::move(agree).error().in(pointer);
  return completed;
}

Result<Json> check_fault(const std::string& name, const Json& params, const std::string& pointer) {
  const FaultSpec* spec = fault_spec(name);
  if (spec == nullptr)
    return Error{Code::kInvalid, pointer + ": there is no fault \"" + name + "\""};
  const std::unique_ptr<Fault> fault = spec->create();
  return complete(fault->params(), params, pointer);
}

Json probe_schema(const std::string& name) {
  return schema_of(probe_spec(name)->create()->params());
}
Json fault_schema(const std::string& name) {
  return schema_of(fault_spec(name)->create()->params());
}

std::string_view word(Better better) {
  return better == Better::kLower ? "lower" : better == Better::kHigher ? "higher" : "none";
}

std::string word(Hits hits) {
  return hits == Hits::kProcesses ? "processes" : hits == Hits::kNode ? "node" : "peers";
}

Catalogue::Probe entry_of(const ProbeSpec& spec) {
  Catalogue::Probe out{.name = std::string(spec.name),
                       .load = spec.load,
                       .generator = spec.generator,
                       .ranks = spec.ranks,
                       .metrics = {},
                       .check_params = check_probe,
                       .schema = probe_schema};
  for (const MetricSpec& metric : spec.metrics)
    out.metrics.push_back({std::string(metric.name), std::string(metric.unit),
                           std::string(word(metric.better)), std::string(metric.help)});
  return out;
}

}  // namespace

Catalogue build_catalogue() {
  Catalogue out;
  for (const ProbeSpec* spec : all_probes()) out.probes[std::string(spec->name)] = entry_of(*spec);
  for (const FaultSpec* spec : all_faults())
    out.faults[std::string(spec->name)] = {.name = std::string(spec->name),
                                           .hits = word(spec->hits),
                                           .one_shot = spec->effect == Effect::kOneShot,
                                           .tier = spec->tier,
                                           .check_params = check_fault,
                                           .schema = fault_schema};
  for (const ServiceKind& kind : service_kinds())
    out.service_kinds[kind.name] = {.name = kind.name,
                                    .port = kind.port,
                                    .check_params = kind.check_params,
                                    .schema = kind.schema};
  return out;
}

}  // namespace mixproof
