#include "suites/validity.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "harness/base/text.h"
#include "suites/fault_evidence.h"
#include "suites/offered.h"
#include "suites/request_metrics.h"
#include "suites/training_metrics.h"
#include "suites/training_survival.h"

namespace mixproof {
namespace {

constexpr double kLatenessFloorS = 0.001, kLatenessShare = 0.02;
constexpr double kDroppedShare = 0.001, kSentShare = 0.999;
constexpr double kClientCpuLimit = 0.85, kStealLimit = 0.05;
constexpr double kLeastWindowShare = 0.98;
constexpr double kCountSigmas =
    5;  // of the count; for poisson a wrong alarm in about two million windows
// Gaps are not as declared below this p. In two phases of a thousand an honest schedule is as odd
// as that by chance, which is nobody's fault: then the sending must have made it worse by a factor,
// or so odd that no schedule is.
constexpr double kArrivalsAlpha = 0.001, kWorse = 10, kNeverDrawn = 1e-6;
// Of the gaps of requests whose times hold no chance.
constexpr double kMovedLimit = 0.05;

double seconds_between(std::int64_t from, std::int64_t until) {
  return static_cast<double>(until - from) * 1e-9;
}

bool is_client_fault(const Request& request) {
  const bool server_unreachable =
      request.outcome == "CONNECT_ERROR" || request.outcome.rfind("TIMEOUT", 0) == 0;
  return request.outcome == "CLIENT_DROPPED" || (!request.sent && !server_unreachable);
}

struct ProblemFinder {
  const JudgeInput& input;
  const PhasePlan& phase;
  std::vector<Problem> out;

  void add(std::string reason, std::string detail) {
    out.push_back({std::move(reason), std::move(detail)});
  }

  const PhaseWindow* window() const {
    const auto found = input.evidence.phases.find(phase.name);
    return found != input.evidence.phases.end() && found->second.begun ? &found->second : nullptr;
  }

  void phase_itself() {
    const PhaseWindow* w = window();
    if (w == nullptr) return add("not_run", "phase " + phase.name + " was not run");
    if (!w->complete) return add("phase_incomplete", "phase " + phase.name + " was cut short");
    if (w->measure_s() < kLeastWindowShare * phase.measure_s || w->settled < w->begin)
      add("phase_incomplete", format("phase %s measured %.1f s of %.1f s", phase.name.c_str(),
                                     w->measure_s(), phase.measure_s));
  }

  void losses(const PhaseWindow& w) {
    for (std::size_t i = 0; i < input.evidence.lost.size(); ++i)
      if (input.evidence.lost[i].second < w.end)
        add("lost_node",
            "node " + input.evidence.lost[i].first + " was lost: " + input.evidence.lost_why[i]);
    for (const ProcessExit& exit : input.evidence.exits)
      if (exit.at < w.end && concerns(exit.what) && !explained(exit))
        add("process_exit", exit.what + " on " + exit.node + " ended by itself: " + exit.status);
    for (const RunError& error : input.evidence.errors)
      if ((error.at == 0 || error.at < w.end) && concerns(error.what))
        out.push_back({"error_" + std::string(code_name(error.code)),
                       error.what + ": " + error.message, error.code,
                       error.what.substr(0, error.what.find('['))});
  }

  // The death of a fault's target is what the fault is about. A load that resumes may lose ranks,
  // whoever killed them, if it did resume.
  bool explained(const ProcessExit& exit) const {
    if (survived(input, exit)) return true;
    const LoadPlan* load = input.plan.load(exit.what.substr(0, exit.what.find('[')));
    if (load != nullptr && load->on_loss == "resume") return false;
    const std::vector<FaultFacts> faults = all_faults_of(input);
    return std::any_of(faults.begin(), faults.end(), [&](const FaultFacts& fault) {
      return fault.injected && is_target(fault, exit) && exit.at >= fault.began &&
             (!fault.plan->one_shot() || is_first_since(fault.began, exit));
    });
  }

  // Also as a later stretch of its load: "trainer[1]#1".
  static bool is_target(const FaultFacts& fault, const ProcessExit& exit) {
    return fault.plan->target == exit.what.substr(0, exit.what.find('#'));
  }

  // A kill ends one process. If its successor dies too, that was not the fault.
  bool is_first_since(std::int64_t began, const ProcessExit& exit) const {
    return std::none_of(input.evidence.exits.begin(), input.evidence.exits.end(),
                        [&](const ProcessExit& other) {
                          return other.what == exit.what && other.at >= began && other.at < exit.at;
                        });
  }

  // A load of the phase (also as load[i]), a service (also one of its instances), or a node.
  bool concerns(const std::string& what) const {
    const std::string base = what.substr(0, what.find('['));
    if (std::find(phase.run.begin(), phase.run.end(), base) != phase.run.end()) return true;
    if (input.plan.service(base) != nullptr) return true;
    return std::any_of(input.plan.nodes.begin(), input.plan.nodes.end(),
                       [&](const NodePlan& node) { return node.name == what; });
  }

  void services() {
    for (const ServicePlan& service : input.plan.services)
      for (const ServicePlan::Instance& instance : service.instances)
        if (std::find(input.evidence.ready.begin(), input.evidence.ready.end(), instance.name) ==
            input.evidence.ready.end())
          add("service_absent", instance.name + " never answered");
  }

  void load(const std::string& name) {
    const LoadPlan& plan = *input.plan.load(name);
    const auto found = input.evidence.loads.find(name);
    if (found == input.evidence.loads.end())
      return add("load_absent", "load " + name + " left no rows");
    const LoadEvidence& evidence = found->second;
    if (!evidence.unmapped_node.empty())
      add("no_clock", "no clock row tells the time of node " + evidence.unmapped_node);
    if (evidence.bad_rows > 0)
      add("bad_rows", format("%lld rows of load %s contradict themselves, the first a %s",
                             static_cast<long long>(evidence.bad_rows), name.c_str(),
                             evidence.first_bad_row.c_str()));
    if (plan.probe == "inference")
      inference(plan);
    else if (plan.probe == "training")
      training(plan);
    else if (std::find(input.evidence.ready.begin(), input.evidence.ready.end(), name) ==
             input.evidence.ready.end())
      add("load_absent", "load " + name + " was never ready");
  }

  void inference(const LoadPlan& plan) {
    const auto requests = measured_requests(input.evidence, plan.name, phase.name);
    if (requests.empty())
      return add("load_absent", "load " + plan.name + " scheduled no request in " + phase.name);
    announced(found_load(plan.name), plan);
    every_index(requests, plan);
    expected(plan, static_cast<double>(requests.size()));
  }

  // By the plan alone, whatever the load has announced.
  void expected(const LoadPlan& plan, double count) {
    const Json* arrivals = member(plan.params, "arrivals");
    if (arrivals == nullptr) return;
    const PhaseWindow& seen = *window();
    OfferedWindow part = window_of_phase(input.plan, plan.name, phase);
    part.from_s = seconds_between(seen.begin, seen.settled);
    part.until_s = seconds_between(seen.begin, seen.end);
    const std::optional<double> mean = expected_requests(*arrivals, part);
    if (!mean) return;
    const double deviation = std::sqrt(*mean * std::max(1.0, count_dispersion(*arrivals)));
    if (std::fabs(count - *mean) > kCountSigmas * deviation + 2)
      add("missing_rows",
          format("%.0f requests of load %s in %s, where its arrivals give about %.0f", count,
                 plan.name.c_str(), phase.name.c_str(), *mean));
  }

  // Rows of one window are neighbours in the schedule. At its edges the clocks of several workers'
  // nodes may disagree about what lies inside, so any row of the load will do for an index between.
  void every_index(const std::vector<const Request*>& requests, const LoadPlan& plan) {
    std::int64_t lowest = requests.front()->index, highest = lowest;
    for (const Request* request : requests) {
      lowest = std::min(lowest, request->index);
      highest = std::max(highest, request->index);
    }
    std::set<std::int64_t> indices;
    std::int64_t rows = 0;
    for (const Request& request : found_load(plan.name).requests) {
      if (request.stretch != requests.front()->stretch || request.index < lowest ||
          request.index > highest)
        continue;
      indices.insert(request.index);
      ++rows;
    }
    const std::int64_t span = highest - lowest + 1;
    if (span != std::ssize(indices) || rows != span)
      add("missing_rows", format("%lld rows for %lld scheduled requests of load %s in %s",
                                 static_cast<long long>(rows), static_cast<long long>(span),
                                 plan.name.c_str(), phase.name.c_str()));
  }

  const LoadEvidence& found_load(const std::string& name) const {
    return input.evidence.loads.at(name);
  }

  // The load said beforehand how many requests each phase has, and numbers them in that order: each
  // must have its row.
  void announced(const LoadEvidence& evidence, const LoadPlan& plan) {
    for (const auto& [stretch, by_phase] : evidence.scheduled) {
      const auto mine = by_phase.find(phase.name);
      if (mine == by_phase.end()) continue;
      std::int64_t first = 0;
      for (const PhasePlan& before : input.plan.phases) {
        if (before.name == phase.name) break;
        if (const auto count = by_phase.find(before.name); count != by_phase.end())
          first += count->second;
      }
      std::set<std::int64_t> seen;
      for (const Request& request : evidence.requests)
        if (request.stretch == stretch && request.index >= first &&
            request.index < first + mine->second)
          seen.insert(request.index);
      if (std::ssize(seen) < mine->second)
        add("missing_rows",
            format("%lld of %lld scheduled requests of load %s in %s left no row",
                   static_cast<long long>(mine->second - std::ssize(seen)),
                   static_cast<long long>(mine->second), plan.name.c_str(), phase.name.c_str()));
    }
  }

  void training(const LoadPlan& plan) {
    const StepWindow steps = measured_steps(input, plan.name, phase.name);
    if (steps.silent_ranks.size() == plan.nodes.size())
      return add("load_absent", "load " + plan.name + " made no step in " + phase.name);
    for (const std::int64_t rank : steps.silent_ranks)
      add("missing_ranks",
          format("rank %lld of load %s made no step in %s", static_cast<long long>(rank),
                 plan.name.c_str(), phase.name.c_str()));
    if (steps.partial_steps > 0)
      add("missing_rows", format("%lld steps of load %s in %s were not reported by every rank",
                                 static_cast<long long>(steps.partial_steps), plan.name.c_str(),
                                 phase.name.c_str()));
  }
};

// Of each worker by itself: an idle one must not hide a busy one.
std::string client_rows_trouble(const LoadPlan& plan, const LoadEvidence& evidence,
                                std::int64_t from, std::int64_t until) {
  struct Sum {
    double cpu = 0, steal = 0, n = 0;
  };
  std::map<std::int64_t, Sum> workers;
  for (const ClientSample& sample : evidence.client) {
    if (sample.at < from || sample.at >= until) continue;
    Sum& sum = workers[sample.worker];
    sum.cpu += sample.cpu;
    sum.steal += sample.steal;
    sum.n += 1;
  }
  if (workers.empty()) return "no client row tells how busy the load generator was";
  if (std::ssize(workers) < std::ssize(plan.nodes))
    return format("client rows of %zu of %zu workers tell how busy the load generator was",
                  workers.size(), plan.nodes.size());
  for (const auto& [worker, sum] : workers) {
    if (!(sum.cpu / sum.n <= kClientCpuLimit))
      return format("the load generator used %.0f %% of its core", 100 * sum.cpu / sum.n);
    if (!(sum.steal / sum.n <= kStealLimit))
      return format("%.1f %% of the machine's time was stolen", 100 * sum.steal / sum.n);
  }
  return "";
}

std::string gaps_trouble(const ArrivalTest& test) {
  if (test.deterministic) {
    if (test.moved <= kMovedLimit) return "";
    return format("%.0f %% of their gaps differ from the schedule's", 100 * test.moved);
  }
  for (const auto& [name, realised, scheduled] :
       {std::tuple{"KS", test.realised.ks_p, test.scheduled.ks_p},
        std::tuple{"dispersion", test.realised.dispersion_p, test.scheduled.dispersion_p}}) {
    if (!realised || *realised >= kArrivalsAlpha) continue;
    if (scheduled && *realised * kWorse > *scheduled && *realised >= kNeverDrawn) continue;
    return format("%s test of %s: p = %.2g%s", name, test.process.c_str(), *realised,
                  scheduled ? format(" (%.2g as scheduled)", *scheduled).c_str() : "");
  }
  return "";
}

// Each worker tests its requests of each phase that it has run to its end, once it has ended
// itself. Without that nobody knows how they arrived.
std::string arrivals_trouble_in(const LoadPlan& plan, const LoadEvidence& evidence,
                                const std::string& phase, bool complete) {
  std::set<std::int64_t> workers;
  for (const ArrivalTest& test : evidence.arrival_tests) {
    if (test.phase != phase) continue;
    workers.insert(test.worker);
    if (const std::string trouble = gaps_trouble(test); !trouble.empty())
      return "the requests of " + phase + " did not arrive as declared: " + trouble;
  }
  const bool has_arrivals = member(plan.params, "arrivals") != nullptr;
  if (!complete || !has_arrivals || std::ssize(workers) >= std::ssize(plan.nodes)) return "";
  if (workers.empty())
    return "no arrivals row tells whether the requests of " + phase + " arrived as declared";
  return format(
      "arrivals rows of %zu of %zu workers tell whether the requests of %s arrived as "
      "declared",
      workers.size(), plan.nodes.size(), phase.c_str());
}

// Of the phases that touch [from, until).
std::string arrivals_trouble(const JudgeInput& input, const LoadPlan& plan,
                             const LoadEvidence& evidence, std::int64_t from, std::int64_t until) {
  for (const PhasePlan& phase : input.plan.phases) {
    const auto window = input.evidence.phases.find(phase.name);
    if (std::find(phase.run.begin(), phase.run.end(), plan.name) == phase.run.end() ||
        window == input.evidence.phases.end() || window->second.begin >= until ||
        window->second.end <= from)
      continue;
    std::string trouble = arrivals_trouble_in(plan, evidence, phase.name, window->second.complete);
    if (!trouble.empty()) return trouble;
  }
  return "";
}

std::string client_trouble(const LoadPlan& plan, const LoadEvidence& evidence, std::int64_t from,
                           std::int64_t until) {
  std::vector<const Request*> requests;
  double dropped = 0, unsent = 0;
  for (const Request& request : evidence.requests) {
    if (request.sched < from || request.sched >= until) continue;
    requests.push_back(&request);
    dropped += request.outcome == "CLIENT_DROPPED" ? 1 : 0;
    unsent += is_client_fault(request) ? 1 : 0;
  }
  if (requests.empty()) return "";
  const auto n = static_cast<double>(requests.size());
  if (dropped / n > kDroppedShare)
    return format("the load generator dropped %.0f of %.0f requests", dropped, n);
  if (1 - unsent / n < kSentShare)
    return format("the load generator did not send %.0f of %.0f requests", unsent, n);
  const double bound = plan.slo && std::isfinite(plan.slo->ttft_s)
                           ? std::max(kLatenessFloorS, kLatenessShare * plan.slo->ttft_s)
                           : kLatenessFloorS;
  for (const auto& [metric, words] : {std::pair{"inference.client_delay", "sent late"},
                                      std::pair{"inference.receive_lag", "read late"}}) {
    const auto p99 = nearest_rank(request_samples(requests, metric), 0.99);
    if (p99 && !(*p99 <= bound))
      return format("the load generator %s: p99 %.1f ms, allowed %.1f ms", words, *p99 * 1e3,
                    bound * 1e3);
  }
  return client_rows_trouble(plan, evidence, from, until);
}

}  // namespace

std::vector<Problem> phase_problems(const JudgeInput& input, const std::string& phase) {
  ProblemFinder finder{input, *input.plan.phase(phase), {}};
  finder.phase_itself();
  if (const PhaseWindow* window = finder.window()) {
    finder.losses(*window);
    finder.services();
    for (const std::string& load : finder.phase.run) finder.load(load);
  }
  return std::move(finder.out);
}

std::string measurement_trouble(const JudgeInput& input, const std::string& load, std::int64_t from,
                                std::int64_t until) {
  const LoadPlan* plan = input.plan.load(load);
  if (plan == nullptr) return "";
  for (const std::string& node : plan->nodes)
    if (std::string trouble = input.evidence.clocks.trouble(node); !trouble.empty()) return trouble;
  const auto evidence = input.evidence.loads.find(load);
  if (plan->probe != "inference" || evidence == input.evidence.loads.end()) return "";
  std::string trouble = client_trouble(*plan, evidence->second, from, until);
  return trouble.empty() ? arrivals_trouble(input, *plan, evidence->second, from, until) : trouble;
}

double client_error_s(const JudgeInput& input, const std::string& load, std::int64_t from,
                      std::int64_t until) {
  double worst = 0;
  if (const auto evidence = input.evidence.loads.find(load); evidence != input.evidence.loads.end())
    for (const Request& request : evidence->second.requests)
      if (request.sched >= from && request.sched < until)
        worst = std::max({worst, request.client_delay.value_or(0), request.lag.value_or(0)});
  return worst;
}

}  // namespace mixproof
