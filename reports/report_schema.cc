// The report's schema. Statuses come from the table that decides verdicts; report_text holds every
// report to it.
#include <nlohmann/json.hpp>

#include "reports/report.h"
#include "reports/verdict.h"

namespace mixproof {
namespace {

constexpr const char* kUnits[] = {"s", "1", "1/s", "count", "B", "B/s", "W", "Hz", "degC"};

Json typed(const Json& type, const char* help) { return {{"type", type}, {"description", help}}; }
Json text(const char* help) { return typed("string", help); }
Json number(const char* help) { return typed("number", help); }
Json whole(const char* help) {
  return {{"type", "integer"}, {"minimum", 0}, {"description", help}};
}
Json flag(const char* help) { return typed("boolean", help); }
Json maybe_number(const char* help) { return typed({"number", "null"}, help); }
Json free_object(const char* help) { return typed("object", help); }
Json one_of_names(const Json& names, const char* help) {
  return {{"type", "string"}, {"enum", names}, {"description", help}};
}
Json list(Json items, const char* help) {
  return {{"type", "array"}, {"items", std::move(items)}, {"description", help}};
}

// All of `required_keys` and nothing beyond `properties`.
Json closed(Json properties, const Json& required_keys, const char* help) {
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", required_keys},
          {"additionalProperties", false},
          {"description", help}};
}

Json interval_schema() {
  return closed({{"low", maybe_number("lower end")},
                 {"high", maybe_number("upper end; null when censored or infinite")},
                 {"censored", flag("it had not happened when the evidence ended")},
                 {"infinite", flag("the upper end is infinite")}},
                {"low", "high"}, "where the value lies");
}

Json figure_properties() {
  return {{"value", maybe_number("null when infinite or missing")},
          {"infinite", flag("beyond every bound: a request without a complete answer")},
          {"missing_reason", text("why there is no value")},
          {"interval", interval_schema()},
          {"n", whole("samples")},
          {"evidence", free_object("what it was computed from")}};
}

Json metric_schema() {
  Json properties = figure_properties();
  properties["id"] = text("stable name");
  properties["labels"] = {
      {"type", "object"},
      {"additionalProperties", text("value")},
      {"description", "load, phase, fault, reference, quantile, clean_requests"}};
  properties["unit"] = one_of_names(kUnits, "SI base unit");
  properties["better"] = one_of_names({"lower", "higher", "none"}, "direction");
  properties["replicate_unit"] = text("of what there is one value");
  properties["latency_basis"] = one_of_names({"scheduled", "sent"}, "where the latency starts");
  properties["infinite_samples"] = whole("samples without a complete answer");
  properties["counts"] = {
      {"type", "object"}, {"additionalProperties", whole("requests")}, {"description", "by class"}};
  Json quantile = figure_properties();
  quantile.erase("n");
  properties["summary"] = {
      {"type", "object"},
      {"additionalProperties", closed(quantile, {"value"}, "a quantile")},
      {"description", "smallest sample x with at least ceil(p n) samples <= x"}};
  return closed(std::move(properties), {"id", "labels", "unit", "better", "replicate_unit", "n"},
                "a derived figure");
}

Json check_schema() {
  Json limit = closed({{"at_most", number("upper bound")},
                       {"at_least", number("lower bound")},
                       {"unit", one_of_names(kUnits, "SI base unit")}},
                      {"unit"}, "the bound");
  Json resolve = closed(
      {{"text", text("for people")}, {"numbers", typed({"object", "null"}, "the same as numbers")}},
      {"text", "numbers"}, "what would settle it");
  Json power =
      closed({{"text", text("for people")}, {"numbers", free_object("the same as numbers")}},
             {"text", "numbers"}, "what it can decide, by the plan");
  return closed({{"id", text("<phase>/<limit>")},
                 {"required", flag("decides the verdict")},
                 {"metric", text("what is bounded")},
                 {"phase", text("where")},
                 {"load", text("whose")},
                 {"signal", text("of a signal: which")},
                 {"reference", text("phase that it is compared with")},
                 {"quantile", text("of the samples")},
                 {"method", one_of_names({"direct", "binomial", "interval"}, "how it is decided")},
                 {"dependence", text("what is assumed about requests")},
                 {"confidence", number("of the one-sided bounds")},
                 {"rule", text("the limit in a line")},
                 {"limit", std::move(limit)},
                 {"why", text("where the bound comes from")},
                 {"owner", text("whom to ask")},
                 {"status", one_of_names(check_status_names(), "the outcome")},
                 {"reason", text("code of the reason")},
                 {"detail", text("the outcome in a line, with its numbers")},
                 {"observed", closed(figure_properties(), {"value", "n"}, "what was measured")},
                 {"power", std::move(power)},
                 {"resolve", std::move(resolve)}},
                {"id", "required", "metric", "phase", "method", "rule", "limit", "why", "status",
                 "reason", "detail"},
                "a judged limit");
}

Json timeline_schema() {
  Json problem = closed({{"reason", text("code")}, {"detail", text("in words")}},
                        {"reason", "detail"}, "a problem");
  Json phase =
      closed({{"name", text("of the phase")},
              {"loads", list(text("load"), "what ran")},
              {"begin_s", number("from the begin of the first phase")},
              {"settled_s", number("begin of the measured window")},
              {"end_s", number("end of both")},
              {"complete", flag("ran to its end")},
              {"problems", list(std::move(problem), "why it was not measured, or not well")}},
             {"name", "loads", "complete", "problems"}, "a phase; without times it did not begin");
  Json event = closed({{"kind", one_of_names({"fault", "lost", "exit", "error", "resume",
                                              "checkpoint", "abort", "stop"},
                                             "of event")},
                       {"at_s", maybe_number("when")},
                       {"what", text("fault, node or process")},
                       {"state", text("of the fault")},
                       {"node", text("of the fault")},
                       {"uncertainty_s", number("of the time")},
                       {"detail", text("in words")},
                       {"evidence", typed({"object", "null"}, "what proved it")}},
                      {"kind", "at_s", "what", "detail"}, "an event");
  return closed({{"phases", list(std::move(phase), "in order")},
                 {"events", list(std::move(event), "by time")},
                 {"notes", list(text("note"), "for people")}},
                {"phases", "events", "notes"}, "what happened when");
}

Json safety_schema() {
  Json fault = closed(
      {{"id", text("<phase>/<index>")},
       {"fault", text("which")},
       {"target", text("on what")},
       {"state", text("the newest")},
       {"touched", flag("something may have been changed")},
       {"injected", flag("acknowledged")},
       {"effective", flag("proved, for its whole time")},
       {"not_effective", text("why not")},
       {"clean", flag("proved undone")},
       {"unsafe", flag("touched and not proved clean")}},
      {"id", "fault", "target", "state", "touched", "injected", "effective", "clean", "unsafe"},
      "a fault of the plan");
  return closed({{"faults", list(std::move(fault), "all of the plan")},
                 {"injected", whole("faults")},
                 {"effective", whole("faults")},
                 {"clean", whole("faults")},
                 {"leftovers", list(text("fault"), "not proved clean")},
                 {"safe", flag("nothing is left")}},
                {"faults", "injected", "effective", "clean", "leftovers", "safe"},
                "what became of the faults");
}

Json verdict_schema() {
  Json counts = Json::object();
  for (const std::string& name : check_status_names()) counts[name] = whole("checks");
  return closed({{"status", one_of_names(verdict_status_names(), "of the run")},
                 {"exit_code", whole("of the command")},
                 {"counts", closed(counts, check_status_names(), "checks by status")},
                 {"deciding", list(text("check"), "the first ten that have the run's status")},
                 {"decided", whole("how many have it")},
                 {"judged", whole("required checks")},
                 {"reasons", list(text("reason"), "beside the checks")}},
                {"status", "exit_code", "counts", "deciding", "decided", "judged", "reasons"},
                "the outcome");
}

Json artifact_schema() {
  return closed({{"path", text("beside the report")},
                 {"sha256", text("of its bytes")},
                 {"bytes", whole("size")},
                 {"media_type", text("of the file")},
                 {"what", text("it is")}},
                {"path", "sha256", "bytes", "media_type", "what"}, "a file of the run");
}

Json reproduce_schema() {
  return closed({{"command", list(text("word"), "that made the run")},
                 {"seed", text("of every stream")},
                 {"rejudge", list(text("word"), "judges the recording again")}},
                {"command", "seed", "rejudge"}, "how to do it again");
}

}  // namespace

Json report_schema() {
  Json properties = {
      {"schema_version", {{"const", kReportSchemaVersion}, {"description", "of this document"}}},
      {"kind", one_of_names({"acceptance"}, "of report")},
      {"partial", flag("the recording was cut: the run was killed")},
      {"tool", free_object("what made it")},
      {"provenance", free_object("how it was started")},
      {"environment", free_object("where it ran")},
      {"plan", free_object("everything that should have run and been judged")},
      {"timeline", timeline_schema()},
      {"metrics", list(metric_schema(), "all derived figures")},
      {"checks", list(check_schema(), "one for every limit of the plan")},
      {"safety", safety_schema()},
      {"verdict", verdict_schema()},
      {"artifacts", list(artifact_schema(), "files that belong to it")},
      {"reproduce", reproduce_schema()},
      {"ext", free_object("keys of others")},
  };
  Json keys = Json::array();
  for (auto it = properties.begin(); it != properties.end(); ++it) keys.push_back(it.key());
  Json schema = closed(std::move(properties), keys, "Report of a run");
  schema["$schema"] = "http://json-schema.org/draft-07/schema#";
  schema["title"] = "Mixproof report";
  return schema;
}

}  // namespace mixproof
