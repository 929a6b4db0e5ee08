// A made-up run: a suite, and the rows that it would leave, from a seed and a few knobs. No clock,
// no processes.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/base/check.h"
#include "harness/base/params.h"
#include "harness/base/random.h"
#include "suites/plan.h"

namespace mixproof {

inline Result<Json> accept_params(const std::string&, const Json& params,
                                  const std::string& pointer) {
  double rate = 6, deadline_s = 30;
  std::int64_t ranks = 2, tokens = 24, checkpoint_every_steps = 0, workers = 1;
  bool short_is_ok = false;
  std::string kind = "poisson";
  Params known = {
      one_of("arrivals", &kind, "process",
             {{"poisson", {number("rate_per_s", &rate, "rate", {.min = 0.001, .max = 1000})}}}),
      number("deadline_s", &deadline_s, "deadline", {.min = 0.1, .max = 3600}),
      integer("answer_tokens", &tokens, "tokens", {.min = 1}),
      integer("checkpoint_every_steps", &checkpoint_every_steps, "steps", {.min = 0}),
      integer("workers", &workers, "workers", {.min = 1}),
      flag("short_is_ok", &short_is_ok, "whether SHORT is as good as OK"),
      integer("ranks", &ranks, "ranks", {.min = 1})};
  TRY(read_params(params, known, pointer));
  return write_params(known);
}

inline Result<Json> accept_none(const std::string&, const Json& params,
                                const std::string& pointer) {
  TRY(read_params(params, {}, pointer));
  return params;
}

inline Result<Json> accept_service(const Json& params, const std::string&) { return params; }

inline Json one_param_schema(const std::string&) {
  double rate = 6;
  return schema_of({number("rate_per_s", &rate, "rate", {.min = 1})});
}

inline Catalogue fake_catalogue() {
  Catalogue out;
  out.probes["inference"] = {.name = "inference",
                             .load = true,
                             .generator = true,
                             .ranks = false,
                             .metrics = {{"inference.event_gap", "s", "lower", "gaps"}},
                             .check_params = accept_params,
                             .schema = one_param_schema};
  out.probes["training"] = {.name = "training",
                            .load = true,
                            .generator = false,
                            .ranks = true,
                            .metrics = {},
                            .check_params = accept_params,
                            .schema = one_param_schema};
  out.probes["process_progress"] = {.name = "process_progress",
                                    .load = false,
                                    .generator = false,
                                    .ranks = false,
                                    .metrics = {},
                                    .check_params = accept_none,
                                    .schema = nullptr};
  out.faults["process_pause"] = {
      .name = "process_pause", .tier = 1, .check_params = accept_none, .schema = nullptr};
  out.faults["process_kill"] = {.name = "process_kill",
                                .one_shot = true,
                                .tier = 2,
                                .check_params = accept_none,
                                .schema = nullptr};
  out.faults["net_drop"] = {.name = "net_drop",
                            .hits = "peers",
                            .tier = 2,
                            .check_params = accept_none,
                            .schema = nullptr};
  for (const auto& [name, port] : {std::pair{"llama_cpp", 8080}, {"haproxy", 8000}, {"command", 0}})
    out.service_kinds[name] = {
        .name = name, .port = port, .check_params = accept_service, .schema = nullptr};
  return out;
}

inline Json fake_suite() {
  return *parse_json(R"({
    "schema_version": "0.1", "name": "fake", "claim": "a made-up run",
    "nodes": {"edge": 1, "serve": 2, "train": 2},
    "services": {"llm": {"start": "llama_cpp", "on": "serve", "replicas": 2},
                 "front": {"start": "haproxy", "on": "edge", "before": "llm"}},
    "loads": {
      "users": {"probe": "inference", "on": "edge", "target": "front",
                "slo": {"ttft_s": 0.5, "tpot_s": 0.1, "max_gap_s": 1, "deadline_s": 10},
                "params": {"arrivals": {"poisson": {"rate_per_s": 8}}}},
      "trainer": {"probe": "training", "on": "train", "params": {"ranks": 2}}},
    "phases": [
      {"name": "baseline", "run": ["users"], "settle_s": 2, "measure_s": 20},
      {"name": "alone", "run": ["trainer"], "settle_s": 2, "measure_s": 10},
      {"name": "contention", "run": ["users", "trainer"], "settle_s": 2, "measure_s": 20},
      {"name": "stall", "run": ["users", "trainer"], "measure_s": 20,
       "faults": [{"fault": "process_pause", "target": "llm[0]", "at_s": 4, "for_s": 4}]}],
    "limits": [
      {"id": "sla", "metric": "inference.attainment", "load": "users", "phase": "contention", "method": "binomial",
       "dependence": "requests", "at_least": 0.95, "confidence": 0.95, "why": "contract 4.2", "owner": "serving"},
      {"id": "floor", "metric": "training.retained", "load": "trainer", "phase": "contention", "reference": "alone",
       "method": "direct", "at_least": 0.7, "why": "batch deadline"},
      {"id": "wait", "metric": "inference.longest_wait", "load": "users", "phase": "stall", "method": "direct",
       "at_most": 6, "why": "client timeout"},
      {"id": "back", "metric": "inference.time_to_recover", "load": "users", "phase": "stall", "method": "direct",
       "clean_requests": 20, "at_most": 5, "why": "pager threshold"},
      {"id": "tail", "metric": "inference.ttft", "load": "users", "phase": "baseline", "method": "direct",
       "quantile": "p90", "at_most": 0.2, "required": false, "why": "for information"}]
  })",
                     "suite");
}

struct FakeRun {
  Json suite = fake_suite();
  std::uint64_t seed = 7;
  int violations = 0;  // requests of the contention window that take 0.8 s to their first token
  bool stall_hurts = true;        // requests wait for the paused replica
  double stall_recovers_s = 0.6;  // requests keep waiting for so long after the pause
  double client_delay_s = 0.0001, client_cpu = 0.2, client_steal = 0;
  std::map<std::string, double> slower;  // by phase: requests wait so many times as long
  double trainer_slowdown = 1.1;         // in contention and stall
  bool injected = true, effective = true, clean = true, dirty = false;
  bool trainer_rows = true, user_rows = true, second_rank = true;
  bool arrivals_rows = true;
  double pause_s = 4;                        // how long it really lasted
  std::string outcome_in_contention = "OK";  // of one request
  std::string all_outcomes_in_contention = "OK", all_outcomes_in_baseline = "OK";
  std::string last_phase = "stall";  // the run ends after it
  bool complete = true, end_row = true;
  std::string stop_why = "end";
  std::vector<Json> extra;  // appended before the end row

  Plan plan() const {
    auto made = make_plan(suite, fake_catalogue(), seed);
    CHECK(made.ok());
    return std::move(*made);
  }

  std::vector<Json> rows() const;
};

class FakeRows {
 public:
  FakeRows(const FakeRun& run, const Plan& plan)
      : run_(run), plan_(plan), random_(run.seed, "fake") {}

  std::vector<Json> take() {
    add({{"row", "begin"}, {"at", kStart}, {"utc_ns", 0}, {"run", "fake"}, {"seed", run_.seed}});
    for (const NodePlan& node : plan_.nodes) clock(node.name, kStart);
    for (const ServicePlan& service : plan_.services)
      for (const auto& instance : service.instances)
        add({{"row", "ready"},
             {"what", instance.name},
             {"node", instance.node},
             {"info", Json::object()}});
    for (const PhasePlan& phase : plan_.phases) {
      one_phase(phase);
      if (phase.name == run_.last_phase) break;
    }
    for (const Json& row : run_.extra) add(row);
    add({{"row", "stop"}, {"at", kStart + ns(end_s_)}, {"why", run_.stop_why}});
    if (run_.end_row) add({{"row", "end"}, {"at", kStart + ns(end_s_ + 1)}});
    return std::move(rows_);
  }

  static std::int64_t ns(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }
  static constexpr std::int64_t kStart = 1'000'000'000'000;
  static std::int64_t offset(const std::string& node) {  // controller minus node
    return static_cast<std::int64_t>(Random::hash(node) % 1000) * 1'000'000'000;
  }

 private:
  void add(Json row) { rows_.push_back(std::move(row)); }

  void clock(const std::string& node, std::int64_t at) {
    add({{"row", "clock"},
         {"node", node},
         {"at", at},
         {"offset_ns", offset(node)},
         {"uncertainty_ns", 200'000}});
  }

  void one_phase(const PhasePlan& phase) {
    const bool last = phase.name == run_.last_phase;
    end_s_ = phase.begin_s + phase.length_s();
    add({{"row", "phase"},
         {"name", phase.name},
         {"begin", kStart + ns(phase.begin_s)},
         {"settled", kStart + ns(phase.begin_s + phase.settle_s)},
         {"end", kStart + ns(end_s_)}});
    for (const FaultPlanEntry& fault : phase.faults) states(phase, fault);
    for (const std::string& load : phase.run) {
      if (plan_.load(load)->probe == "inference" && run_.user_rows) requests(phase, load);
      if (plan_.load(load)->probe == "training" && run_.trainer_rows) steps(phase, load);
    }
    add({{"row", "phase_end"},
         {"name", phase.name},
         {"at", kStart + ns(end_s_)},
         {"complete", !last || run_.complete}});
  }

  void state(const FaultPlanEntry& fault, const char* name, double at_s,
             Json evidence = Json::object()) {
    add({{"row", "fault"},
         {"fault", fault.id},
         {"state", name},
         {"node", "serve-0"},
         {"at", kStart + ns(at_s)},
         {"uncertainty_ns", 1'000'000},
         {"detail", ""},
         {"evidence", std::move(evidence)}});
  }

  void states(const PhasePlan& phase, const FaultPlanEntry& fault) {
    const double on_s = phase.begin_s + fault.at_s, off_s = on_s + run_.pause_s;
    state(fault, "planned", on_s - 1);
    if (!run_.injected) return state(fault, "refused", on_s);
    state(fault, "injected", on_s + 0.01);
    state(fault, run_.effective ? "effective" : "not_effective", on_s + 0.5);
    state(fault, "reverting", off_s);
    if (run_.dirty) return state(fault, "dirty", off_s + 0.1);
    if (run_.clean) state(fault, "clean", off_s + 0.3, {{"undone_at", kStart + ns(off_s + 0.005)}});
  }

  // Even requests go to the replica that the fault pauses.
  double wait_of(const PhasePlan& phase, double sched_s, std::int64_t index) {
    double wait = 0.015 + 0.01 * random_.unit();
    if (const auto slower = run_.slower.find(phase.name); slower != run_.slower.end())
      wait *= slower->second;
    for (const FaultPlanEntry& fault : phase.faults) {
      const double on_s = phase.begin_s + fault.at_s;
      const double off_s = on_s + run_.pause_s + run_.stall_recovers_s;
      if (run_.injected && run_.stall_hurts && index % 2 == 0 && sched_s >= on_s && sched_s < off_s)
        wait += off_s - sched_s;
    }
    return wait;
  }

  void requests(const PhasePlan& phase, const std::string& load) {
    const std::string node = plan_.load(load)->nodes[0];
    const double rate = 8;
    const std::int64_t first = index_;
    int slow = run_.violations;
    bool odd_one = run_.outcome_in_contention != "OK";
    for (double at_s = phase.begin_s;
         (at_s += random_.exponential(rate)) < phase.begin_s + phase.length_s();) {
      const bool measured = at_s >= phase.begin_s + phase.settle_s;
      const std::int64_t index = index_++;
      double wait = wait_of(phase, at_s, index);
      std::string outcome = phase.name == "contention" ? run_.all_outcomes_in_contention
                            : phase.name == "baseline" ? run_.all_outcomes_in_baseline
                                                       : "OK";
      if (phase.name == "contention" && measured && slow > 0 && slow-- > 0) wait = 0.8;
      if (phase.name == "contention" && measured && odd_one) {
        outcome = run_.outcome_in_contention;
        odd_one = false;
      }
      const std::int64_t sched = kStart + ns(at_s) - offset(node);
      const bool got = outcome == "OK";
      add({{"row", "request"},
           {"load", load},
           {"node", node},
           {"i", index},
           {"sched", sched},
           {"send", outcome == "CLIENT_DROPPED" ? 0 : sched + ns(run_.client_delay_s)},
           {"sent", outcome == "CLIENT_DROPPED" ? 0 : sched + ns(run_.client_delay_s) + 20'000},
           {"head", got ? sched + ns(wait / 2) : 0},
           {"first", got ? sched + ns(wait) : 0},
           {"last", got ? sched + ns(wait + 0.046) : 0},
           {"end", sched + ns(wait + 0.047)},
           {"tokens", got ? 24 : 0},
           {"events", got ? 24 : 0},
           {"max_gap", got ? 3'000'000 : 0},
           {"outcome", outcome},
           {"detail", ""},
           {"lag", 50'000},
           {"reconnects", 0},
           {"estimated", false}});
    }
    for (double at_s = phase.begin_s + 0.5; at_s < phase.begin_s + phase.length_s(); at_s += 1)
      add({{"row", "client"},
           {"load", load},
           {"node", node},
           {"at", kStart + ns(at_s) - offset(node)},
           {"cpu", run_.client_cpu},
           {"steal", run_.client_steal},
           {"dropped", 0}});
    const bool ended = phase.name != run_.last_phase || run_.complete;
    if (run_.arrivals_rows && ended) arrivals(phase, load, index_ - first);
  }

  // Of requests that came as declared.
  void arrivals(const PhasePlan& phase, const std::string& load, std::int64_t n) {
    const Json gaps = {{"n", n - 1},      {"ks", 0.05},          {"ks_p", 0.5},
                       {"dispersion", 1}, {"dispersion_p", 0.5}, {"cells", n / 5}};
    add({{"row", "arrivals"},
         {"load", load},
         {"node", plan_.load(load)->nodes[0]},
         {"phase", phase.name},
         {"process", "poisson"},
         {"deterministic", false},
         {"every", 1},
         {"n", n},
         {"unsent", 0},
         {"moved", 0},
         {"tolerance_s", 0.001},
         {"gap_distance", 0.01},
         {"scheduled", gaps},
         {"realised", gaps}});
  }

  void steps(const PhasePlan& phase, const std::string& load) {
    const bool alone = phase.run.size() == 1;
    const double step_s = 0.1 * (alone ? 1 : run_.trainer_slowdown);
    const std::vector<std::string>& nodes = plan_.load(load)->nodes;
    for (; next_step_s_ < phase.begin_s ||
           next_step_s_ + step_s <= phase.begin_s + phase.length_s() + 1e-6;
         ++step_) {
      if (next_step_s_ < phase.begin_s) next_step_s_ = phase.begin_s;
      for (std::size_t rank = 0; rank < (run_.second_rank ? nodes.size() : 1); ++rank) {
        const std::int64_t begin = kStart + ns(next_step_s_) - offset(nodes[rank]);
        add({{"row", "step"},
             {"load", load},
             {"node", nodes[rank]},
             {"rank", rank},
             {"step", step_},
             {"begin", begin},
             {"end", begin + ns(step_s)},
             {"compute", ns(step_s * 0.7)},
             {"comm", ns(step_s * 0.3)}});
      }
      next_step_s_ += step_s;
    }
  }

  const FakeRun& run_;
  const Plan& plan_;
  Random random_;
  std::vector<Json> rows_;
  std::int64_t index_ = 0, step_ = 0;
  double next_step_s_ = 0, end_s_ = 0;
};

inline std::vector<Json> FakeRun::rows() const {
  const Plan made = plan();
  return FakeRows(*this, made).take();
}

inline Json fake_run_json(const Plan& plan) {
  return {{"tool", {{"name", "mixproof"}, {"version", "0.1.0"}, {"build", "0123456789abcdef"}}},
          {"provenance", {{"argv", {"mixproof", "run", "fake"}}, {"run", "fake"}}},
          {"environment", {{"kernel", "none"}}},
          {"plan", plan_to_json(plan)}};
}

}  // namespace mixproof
