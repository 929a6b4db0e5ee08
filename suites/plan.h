// Plan: a suite joined with nodes, seed and catalogue, checked, with every default filled in. What
// runs and what is judged both follow from it alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "suites/signal_plan.h"

namespace mixproof {

inline constexpr const char* kSuiteSchemaVersion = "0.1";

// What a suite may name, handed in by the command line, so that nothing here includes a probe or a
// fault.
struct Catalogue {
  struct Probe {
    std::string name;
    bool load = false, generator = false, ranks = false;
    struct Metric {
      std::string name, unit, better, help;
    };  // better: lower, higher, none
    std::vector<Metric> metrics;
    // Checks the parameters and returns them with every default filled in.
    Result<Json> (*check_params)(const std::string& name, const Json& params,
                                 const std::string& pointer) = nullptr;
    Json (*schema)(const std::string& name) = nullptr;  // draft-07 of params
  };
  struct Fault {
    std::string name, hits = "processes";  // processes | node | peers
    bool one_shot = false;
    int tier = 0;
    Result<Json> (*check_params)(const std::string& name, const Json& params,
                                 const std::string& pointer) = nullptr;
    Json (*schema)(const std::string& name) = nullptr;
  };
  struct Service {
    std::string name;  // llama_cpp, haproxy, null_server, command
    int port = 0;      // default
    Result<Json> (*check_params)(const Json& params, const std::string& pointer) = nullptr;
    Json (*schema)() = nullptr;
  };
  std::map<std::string, Probe> probes;
  std::map<std::string, Fault> faults;
  std::map<std::string, Service> service_kinds;
};

struct NodePlan {
  std::string name, role;  // "serve-1", "serve"
};

// A server in the run: started by it, or attached (already running).
struct ServicePlan {
  std::string name;
  std::string start;              // a kind (see Catalogue::service_kinds); empty when attached
  std::string url;                // attached: where it answers
  std::vector<std::string> urls;  // attached, with several addresses: instead of url
  std::string on;                 // role
  int replicas = 1;               // the total, spread over the role's nodes in order
  std::string restart = "never";  // never | always
  std::string before;             // haproxy: the service it stands in front of
  std::vector<std::string> argv;  // command
  int port = 0;                   // of the first instance on a node; filled in
  double ready_s = 60;            // deadline for the first good answer
  Json params = nullptr;          // of the kind: model shape, threads, slots; an object
  struct Instance {
    std::string name, node;
    int port = 0;
  };                                // "llm[0]", "serve-0"; the second on a node has port + 1
  std::vector<Instance> instances;  // in order; empty when attached
};

// What an answer must keep to be good. Infinity where the suite sets no bound.
struct Slo {
  double ttft_s, tpot_s, max_gap_s, deadline_s;
};

struct LoadPlan {
  std::string name, probe, on, target;
  bool spread = false;  // requests go round all instances of the target, not to its first one
  std::string on_loss = "error";  // error | resume
  std::optional<Slo> slo;         // inference
  Json params = nullptr;          // complete: every default filled in
  // One worker each. A load with ranks: params.ranks of them (one a node when it has no such
  // parameter), spread over the role's nodes in order. Any other load: params.workers of them, or
  // one, in the same way.
  std::vector<std::string> nodes;
};

struct FaultPlanEntry {
  std::string id;             // "stall/0": phase and index
  std::string fault, target;  // "process_pause", "llm[0]"; "net_drop", "train-0"
  double at_s = 0,
         for_s = 0;  // from the begin of the phase (settle time included); for_s 0: over at once
  Json params = nullptr;
  std::vector<std::string> peers;  // of faults between nodes: nodes and roles, as the suite says
  std::string direction = "both";  // both | in | out, as the target sees it

  // Where it is injected, each by a guard of its own; all of them together are the fault.
  struct Part {
    std::string node;
    std::vector<std::string> from;  // nodes whose packets it keeps from this one
  };
  std::vector<Part> parts;  // at least one; derived

  bool one_shot() const { return for_s == 0; }
};

struct PhasePlan {
  std::string name;
  std::vector<std::string> run;  // loads
  double settle_s = 0, measure_s = 0;
  std::vector<FaultPlanEntry> faults;
  double begin_s = 0;  // from the begin of the first phase; derived
  double length_s() const { return settle_s + measure_s; }
};

struct Limit {
  std::string id, metric, load, signal, phase, reference, why, owner;
  std::string check_id() const { return phase + "/" + id; }  // unique; names the check in reports
  std::string method;                                        // direct | binomial | interval
  std::string dependence;                                    // binomial: requests | blocks
  std::optional<double> at_most, at_least;
  double confidence = 0;    // binomial, interval; 0 for direct
  std::string quantile;     // for metrics with samples: "p50", "p90", "p99", "max"; empty otherwise
  int clean_requests = 59;  // time_to_recover: length of the good run that proves it;
                            // time_to_normal_latency: of the run whose median is looked at
  double margin = 1.1;      // time_to_normal_latency: of that median, over the reference's
  bool required = true;
  std::string skip;  // a reason: declared skipped
};

struct Plan {
  std::string schema_version, name, claim;
  std::string placement = "none";  // none | physical
  std::uint64_t seed = 0;
  double lease_s = 15, renew_s = 5;
  std::vector<NodePlan> nodes;
  std::vector<ServicePlan> services;  // in start order
  std::vector<LoadPlan> loads;
  std::vector<PhasePlan> phases;
  std::vector<Limit> limits;
  std::vector<SignalPlan> signals;
  std::vector<AbortPlan> aborts;
  std::vector<LoadPlan> collectors;  // one a role that collects signals; derived from them
  Json suite = nullptr;              // as read, after --set

  const LoadPlan* load(const std::string& name) const;
  const LoadPlan* worker(const std::string& name) const;  // a load or a collector
  const SignalPlan* signal(const std::string& name) const;
  const ServicePlan* service(const std::string& name) const;
  const PhasePlan* phase(const std::string& name) const;
  std::vector<std::string> nodes_of(const std::string& role) const;
  double length_s() const;
};

// Applies "a.b.c=value" to the suite's JSON: dotted paths, list members by id, name or index; the
// value is JSON, or a string when it is not valid JSON. A path that does not lead to an existing
// member is kInvalid with the nearest member at the place where it went wrong, unless the suite's
// schema knows the key there. What lies under `params` is only checked by make_plan.
Status apply_setting(Json& suite, const std::string& setting);

// kInvalid with a JSON pointer on anything wrong: unknown keys, names that point nowhere, faults
// that do not fit in their phase, limits on metrics that nothing measures, loads that no phase
// runs, phases with no load, no required limit.
Result<Plan> make_plan(const Json& suite, const Catalogue& catalogue, std::uint64_t seed);

Json plan_to_json(const Plan& plan);
Result<Plan> plan_from_json(const Json& json);  // of what plan_to_json wrote; kCorrupt otherwise

Json suite_schema(const Catalogue& catalogue);  // draft-07

}  // namespace mixproof
