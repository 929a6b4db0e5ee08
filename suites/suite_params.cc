#include "suites/suite_params.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "suites/signal_check.h"

namespace mixproof {
namespace {

constexpr double kNoBound = std::numeric_limits<double>::infinity();
constexpr Range kSeconds{.min = 0, .max = 86400};
constexpr Range kBound{.min = 1e-6, .max = 86400};

Params service_params(RawService& service) {
  ServicePlan& plan = service.plan;
  plan.params = Json::object();
  return {text("start", &plan.start, "kind of server that the run starts"),
          text("url", &plan.url, "base URL of a server that already runs (attached)"),
          texts("urls", &plan.urls,
                "base URLs of a service that already runs at several addresses (attached)"),
          text("on", &plan.on, "role whose nodes it runs on"),
          integer("replicas", &service.replicas, "in total, spread over the role's nodes in order",
                  {.min = 1, .max = 1024}),
          choice("restart", &plan.restart, "whether it is started again after it died",
                 {"never", "always"}),
          text("before", &plan.before, "the service that it stands in front of (haproxy)"),
          texts("argv", &plan.argv, "what to start (command)"),
          integer("port", &service.port, "where it listens; 0: the kind's default",
                  {.min = 0, .max = 65535}),
          number("ready_s", &plan.ready_s, "deadline for its first good answer",
                 {.min = 0.1, .max = 3600}),
          any("params", &plan.params, "parameters of the kind")};
}

Params load_params(RawLoad& load) {
  LoadPlan& plan = load.plan;
  plan.params = Json::object();
  load.slo = {kNoBound, kNoBound, kNoBound, kNoBound};
  return {required(text("probe", &plan.probe, "which load")),
          required(text("on", &plan.on, "role whose nodes it runs on")),
          text("target", &plan.target, "the service that it uses"),
          flag("spread", &plan.spread,
               "requests go round all instances of the target directly, not to its first one"),
          choice("on_loss", &plan.on_loss, "what the loss of a rank means", {"error", "resume"}),
          seen(object("slo", "what an answer must keep to be good; no bound where none is given",
                      {number("ttft_s", &load.slo.ttft_s,
                              "time to the first token, from the scheduled time", kBound),
                       number("tpot_s", &load.slo.tpot_s, "time per further token", kBound),
                       number("max_gap_s", &load.slo.max_gap_s, "longest gap between token events",
                              kBound),
                       seen(number("deadline_s", &load.slo.deadline_s,
                                   "after which the answer is given up", kBound),
                            &load.has_deadline)}),
               &load.has_slo),
          any("params", &plan.params, "parameters of the probe")};
}

Params fault_params(FaultPlanEntry& fault) {
  fault.params = Json::object();
  return {
      required(text("fault", &fault.fault, "which fault")),
      required(text("target", &fault.target,
                    "what it hits: service[i] or load[i] for faults on processes, a node or a "
                    "role for the others")),
      required(number("at_s", &fault.at_s,
                      "when, from the begin of the phase (settle time included)", kSeconds)),
      number("for_s", &fault.for_s,
             "how long it stays in effect; not for faults that are over at once", kSeconds),
      texts("peers", &fault.peers, "of faults between nodes: the nodes or roles on the other side"),
      choice("direction", &fault.direction,
             "of faults between nodes: in: the target does not hear its peers, out: they do not "
             "hear it",
             {"both", "in", "out"}),
      any("params", &fault.params, "parameters of the fault")};
}

Params phase_params(PhasePlan& phase) {
  return {
      required(text("name", &phase.name, "unique name")),
      required(texts("run", &phase.run,
                     "loads; one named in consecutive phases goes on without a restart")),
      number("settle_s", &phase.settle_s, "left out of measures, counts for recovery", kSeconds),
      required(
          number("measure_s", &phase.measure_s, "measured window", {.min = 0.1, .max = 86400})),
      list_of("faults", "injected in this phase", [&phase](std::size_t index) {
        if (index >= phase.faults.size()) phase.faults.resize(index + 1);
        return fault_params(phase.faults[index]);
      })};
}

Params limit_params(RawLimit& raw) {
  Limit& limit = raw.limit;
  return {
      required(text("id", &limit.id, "unique within its phase")),
      required(text("metric", &limit.metric, "what is bounded")),
      text("load", &limit.load, "whose metric"),
      text("signal", &limit.signal, "of signal.value and signal.increase: which signal"),
      required(text("phase", &limit.phase, "in which phase")),
      text("reference", &limit.reference, "the phase that relative metrics are compared with"),
      required(
          choice("method", &limit.method, "how it is decided", {"direct", "binomial", "interval"})),
      choice("dependence", &limit.dependence,
             "binomial: requests takes them as independent; blocks counts no more trials than "
             "blocks of max(1 s, 2 x the baseline's p99 end-to-end time), and needs 20 of them",
             {"requests", "blocks"}),
      seen(number("at_most", &raw.at_most, "upper bound"), &raw.has_at_most),
      seen(number("at_least", &raw.at_least, "lower bound"), &raw.has_at_least),
      seen(number("confidence", &limit.confidence,
                  "of the one-sided bounds of binomial and interval (there 0.95 by default)",
                  {.min = 0.5, .max = 0.99999}),
           &raw.has_confidence),
      choice("quantile", &limit.quantile, "of metrics with samples",
             {"p50", "p90", "p95", "p99", "p99.9", "max"}),
      seen(
          integer(
              "clean_requests", &raw.clean_requests,
              "time_to_recover: length of the run of good requests that proves it; 59 shows at least 95 % "
              "attainment at 95 % confidence. time_to_normal_latency: length of the run whose "
              "median is compared",
              {.min = 1, .max = 100000}),
          &raw.has_clean_requests),
      seen(number("margin", &limit.margin,
                  "time_to_normal_latency: how many times the reference's median the running "
                  "median may be",
                  {.min = 1, .max = 1000}),
           &raw.has_margin),
      flag("required", &limit.required, "whether it decides the verdict"),
      text("skip", &limit.skip, "a reason: the check is declared skipped"),
      required(text("why", &limit.why, "where the bound comes from")),
      text("owner", &limit.owner, "whom to ask")};
}

}  // namespace

Params suite_params(RawSuite& suite) {
  suite.nodes = Json::object();
  return {
      required(
          choice("schema_version", &suite.schema_version, "of this file", {kSuiteSchemaVersion})),
      required(text("name", &suite.name, "of the suite: letters, digits, _ and -")),
      required(text("claim", &suite.claim, "what a pass means, in a sentence")),
      required(any("nodes", &suite.nodes, "how many nodes of each role")),
      choice("placement", &suite.placement, "physical pins serve and train nodes to disjoint cores",
             {"none", "physical"}),
      number("lease_s", &suite.lease_s, "for which a fault may outlive the last renewal",
             {.min = 1, .max = 600}),
      number("renew_s", &suite.renew_s, "between renewals; below lease_s",
             {.min = 0.1, .max = 300}),
      map_of("services", "servers of the run",
             [&suite](const std::string& name) { return service_params(suite.services[name]); }),
      required(
          map_of("loads", "what makes and measures work",
                 [&suite](const std::string& name) { return load_params(suite.loads[name]); })),
      required(list_of("phases", "stretches of the run, in order",
                       [&suite](std::size_t index) {
                         if (index >= suite.phases.size()) suite.phases.resize(index + 1);
                         return phase_params(suite.phases[index]);
                       })),
      map_of("signals", "series read from elsewhere, on the run's timeline",
             [&suite](const std::string& name) { return signal_params(suite.signals[name]); }),
      list_of("aborts", "conditions that end the run early",
              [&suite](std::size_t index) {
                if (index >= suite.aborts.size()) suite.aborts.resize(index + 1);
                return abort_params(suite.aborts[index]);
              }),
      required(list_of("limits", "what is judged", [&suite](std::size_t index) {
        if (index >= suite.limits.size()) suite.limits.resize(index + 1);
        return limit_params(suite.limits[index]);
      }))};
}

Json bare_suite_schema() {
  RawSuite suite;
  Json schema = schema_of(suite_params(suite));
  schema["$schema"] = "http://json-schema.org/draft-07/schema#";
  schema["title"] = "Mixproof suite";
  schema["properties"]["nodes"]["additionalProperties"] = {
      {"type", "integer"}, {"minimum", 1}, {"maximum", 1024}};
  schema["properties"]["nodes"]["minProperties"] = 1;
  return schema;
}

}  // namespace mixproof
