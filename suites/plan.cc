#include "suites/plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "suites/fault_parts.h"
#include "suites/plan_check.h"
#include "suites/signal_check.h"
#include "suites/suite_params.h"

namespace mixproof {
namespace {

template <typename Items>
auto* find_named(Items& items, const std::string& name) {
  const auto found =
      std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.name == name; });
  return found == items.end() ? nullptr : &*found;
}

template <typename Map>
std::vector<std::string> keys_of(const Map& map) {
  std::vector<std::string> out;
  for (const auto& [key, value] : map) out.push_back(key);
  return out;
}

std::vector<std::string> roles_of(const Plan& plan) {
  std::vector<std::string> out;
  for (const NodePlan& node : plan.nodes)
    if (out.empty() || out.back() != node.role) out.push_back(node.role);
  return out;
}

Status add_nodes(const Json& nodes, Plan& plan) {
  if (nodes.empty()) return invalid_at("/nodes", "is empty");
  for (auto it = nodes.begin(); it != nodes.end(); ++it) {
    const std::string pointer = "/nodes/" + it.key();
    TRY(check_name(pointer, it.key()));
    if (!it->is_number_integer()) return invalid_at(pointer, "must be a whole number");
    const auto count = it->get<std::int64_t>();
    if (count < 1 || count > 1024)
      return invalid_at(pointer, std::to_string(count) + " is out of range (1 to 1024)");
    for (std::int64_t i = 0; i < count; ++i)
      plan.nodes.push_back({it.key() + "-" + std::to_string(i), it.key()});
  }
  return ok();
}

// Instances over the role's nodes in order; the second one on a node takes the next port.
void spread(ServicePlan& service, const std::vector<std::string>& nodes) {
  for (int i = 0; i < service.replicas; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::string name = service.name + "[" + std::to_string(i) + "]";
    service.instances.push_back(
        {name, nodes[at % nodes.size()], service.port + i / static_cast<int>(nodes.size())});
  }
}

Status fill_started(const RawService& raw, const std::string& pointer, const Catalogue& catalogue,
                    const Plan& plan, ServicePlan& service) {
  TRY(check_known(pointer + "/start", "kind of service", service.start,
                  keys_of(catalogue.service_kinds)));
  const Catalogue::Service& kind = catalogue.service_kinds.at(service.start);
  if (service.on.empty()) return invalid_at(pointer, "\"on\" is missing");
  TRY(check_known(pointer + "/on", "role", service.on, roles_of(plan)));
  service.port = raw.port != 0 ? static_cast<int>(raw.port) : kind.port;
  if (service.start == "command" && service.argv.empty())
    return invalid_at(pointer, "\"argv\" is missing");
  if (service.start != "command" && !service.argv.empty())
    return invalid_at(pointer + "/argv", "belongs to start \"command\"");
  if (service.start == "haproxy" && service.before.empty())
    return invalid_at(pointer, "haproxy needs \"before\": the service that it stands in front of");
  if (kind.check_params != nullptr)
    service.params = TRY(kind.check_params(service.params, pointer + "/params"));
  spread(service, plan.nodes_of(service.on));
  return ok();
}

Status check_ports(const Plan& plan, const std::string& pointer, const ServicePlan& service) {
  for (const ServicePlan& other : plan.services)
    for (const ServicePlan::Instance& theirs : other.instances)
      for (const ServicePlan::Instance& ours : service.instances)
        if (ours.port != 0 && ours.node == theirs.node && ours.port == theirs.port)
          return invalid_at(pointer + "/port",
                            format("%s and %s both listen on port %d of %s", ours.name.c_str(),
                                   theirs.name.c_str(), ours.port, ours.node.c_str()));
  return ok();
}

Status add_service(const RawSuite& suite, const std::string& name, const Catalogue& catalogue,
                   Plan& plan) {
  const std::string pointer = "/services/" + name;
  const RawService& raw = suite.services.at(name);
  ServicePlan service = raw.plan;
  service.name = name;
  service.replicas = static_cast<int>(raw.replicas);
  TRY(check_name(pointer, name));
  const int sources = (service.start.empty() ? 0 : 1) + (service.url.empty() ? 0 : 1) +
                      (service.urls.empty() ? 0 : 1);
  if (sources != 1) return invalid_at(pointer, "needs either \"start\" or \"url\"");
  if (!service.before.empty()) {
    TRY(check_known(pointer + "/before", "service", service.before, keys_of(suite.services)));
    if (service.before == name) return invalid_at(pointer + "/before", "is the service itself");
  }
  if (!service.start.empty()) TRY(fill_started(raw, pointer, catalogue, plan, service));
  TRY(check_ports(plan, pointer, service));
  plan.services.push_back(std::move(service));
  return ok();
}

// Start order: what a service stands in front of comes first.
Status add_services(const RawSuite& suite, const Catalogue& catalogue, Plan& plan) {
  while (plan.services.size() < suite.services.size()) {
    const std::size_t before = plan.services.size();
    for (const auto& [name, raw] : suite.services) {
      if (plan.service(name) != nullptr) continue;
      const bool known = suite.services.contains(raw.plan.before);
      if (known && raw.plan.before != name && plan.service(raw.plan.before) == nullptr) continue;
      TRY(add_service(suite, name, catalogue, plan));
    }
    if (plan.services.size() == before)
      return invalid_at("/services", "stand in front of each other in a circle");
  }
  return ok();
}

std::vector<std::string> worker_nodes(const LoadPlan& load, bool ranks,
                                      const std::vector<std::string>& nodes) {
  const auto count = static_cast<std::size_t>(
      ranks ? integer_at(load.params, "ranks", static_cast<std::int64_t>(nodes.size()))
            : integer_at(load.params, "workers", 1));
  std::vector<std::string> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(nodes[i % nodes.size()]);
  return out;
}

Status add_load(const RawLoad& raw, const std::string& name, const Catalogue& catalogue,
                Plan& plan) {
  const std::string pointer = "/loads/" + name;
  LoadPlan load = raw.plan;
  load.name = name;
  if (raw.has_slo) load.slo = raw.slo;
  TRY(check_name(pointer, name));
  if (plan.service(name) != nullptr) return invalid_at(pointer, "a service has that name too");
  std::vector<std::string> known;
  for (const auto& [probe, entry] : catalogue.probes)
    if (entry.load && probe != kSignalsProbe) known.push_back(probe);
  TRY(check_known(pointer + "/probe", "load", load.probe, known));
  TRY(check_known(pointer + "/on", "role", load.on, roles_of(plan)));
  std::vector<std::string> services;
  for (const ServicePlan& service : plan.services) services.push_back(service.name);
  if (!load.target.empty()) TRY(check_known(pointer + "/target", "service", load.target, services));
  if (load.probe == "inference" && load.target.empty())
    return invalid_at(pointer, "\"target\" is missing");
  const ServicePlan* target = plan.service(load.target);
  if (load.spread && (load.probe != "inference" || target == nullptr))
    return invalid_at(pointer + "/spread", "is for load inference and its target");
  if (target != nullptr && target->urls.size() > 1 && !load.spread)
    return invalid_at(
        pointer, "service \"" + target->name + "\" has several addresses: say \"spread\": true");
  if (load.probe != "inference" && load.slo)
    return invalid_at(pointer + "/slo", "belongs to load inference");
  if (raw.has_deadline && !load.params.contains("deadline_s"))
    load.params["deadline_s"] = raw.slo.deadline_s;
  const Catalogue::Probe& probe = catalogue.probes.at(load.probe);
  if (probe.check_params != nullptr)
    load.params = TRY(probe.check_params(load.probe, load.params, pointer + "/params"));
  if (load.slo) load.slo->deadline_s = number_at(load.params, "deadline_s", load.slo->deadline_s);
  if (load.on_loss == "resume" && !probe.ranks)
    return invalid_at(pointer + "/on_loss",
                      "\"resume\" is for loads with ranks; " + load.probe + " has none");
  load.nodes = worker_nodes(load, probe.ranks, plan.nodes_of(load.on));
  if (load.nodes.empty()) return invalid_at(pointer + "/params/ranks", "must be at least 1");
  plan.loads.push_back(std::move(load));
  return ok();
}

Status add_phases(const RawSuite& suite, const Catalogue& catalogue, Plan& plan) {
  double begin_s = 0;
  for (std::size_t p = 0; p < suite.phases.size(); ++p) {
    PhasePlan phase = suite.phases[p];
    phase.begin_s = begin_s;
    begin_s += phase.length_s();
    for (std::size_t f = 0; f < phase.faults.size(); ++f) {
      FaultPlanEntry& fault = phase.faults[f];
      const std::string pointer = "/phases/" + std::to_string(p) + "/faults/" + std::to_string(f);
      fault.id = phase.name + "/" + std::to_string(f);
      TRY(check_known(pointer + "/fault", "fault", fault.fault, keys_of(catalogue.faults)));
      const Catalogue::Fault& entry = catalogue.faults.at(fault.fault);
      if (entry.check_params != nullptr)
        fault.params = TRY(entry.check_params(fault.fault, fault.params, pointer + "/params"));
      fault.parts = TRY(fault_parts(fault, entry, pointer, plan));
    }
    plan.phases.push_back(std::move(phase));
  }
  return check_phases(plan, catalogue);
}

Status add_limits(const RawSuite& suite, const Catalogue& catalogue, Plan& plan) {
  bool judged = false;
  for (std::size_t i = 0; i < suite.limits.size(); ++i) {
    const std::string pointer = "/limits/" + std::to_string(i);
    Limit limit = TRY(check_limit(suite.limits[i], pointer, plan, catalogue));
    for (const Limit& other : plan.limits)
      if (other.check_id() == limit.check_id())
        return invalid_at(pointer + "/id", "a second limit \"" + limit.check_id() + "\"");
    TRY(check_primary(limit, pointer, plan));
    judged = judged || (limit.required && limit.skip.empty());
    plan.limits.push_back(std::move(limit));
  }
  if (!judged) return invalid_at("/limits", "no required limit: nothing would be judged");
  return ok();
}

}  // namespace

const LoadPlan* Plan::load(const std::string& wanted) const { return find_named(loads, wanted); }
const LoadPlan* Plan::worker(const std::string& wanted) const {
  const LoadPlan* found = find_named(loads, wanted);
  return found != nullptr ? found : find_named(collectors, wanted);
}
const SignalPlan* Plan::signal(const std::string& wanted) const {
  return find_named(signals, wanted);
}
const ServicePlan* Plan::service(const std::string& wanted) const {
  return find_named(services, wanted);
}
const PhasePlan* Plan::phase(const std::string& wanted) const { return find_named(phases, wanted); }

std::vector<std::string> Plan::nodes_of(const std::string& role) const {
  std::vector<std::string> out;
  for (const NodePlan& node : nodes)
    if (node.role == role) out.push_back(node.name);
  return out;
}

double Plan::length_s() const {
  return phases.empty() ? 0 : phases.back().begin_s + phases.back().length_s();
}

Result<Plan> make_plan(const Json& suite, const Catalogue& catalogue, std::uint64_t seed) {
  RawSuite raw;
  TRY(read_params(suite, suite_params(raw)));
  Plan plan;
  plan.schema_version = raw.schema_version;
  plan.name = raw.name;
  plan.claim = raw.claim;
  plan.placement = raw.placement;
  plan.seed = seed;
  plan.lease_s = raw.lease_s;
  plan.renew_s = raw.renew_s;
  plan.suite = suite;
  TRY(check_name("/name", plan.name));
  if (!(plan.renew_s < plan.lease_s)) return invalid_at("/renew_s", "must be below lease_s");
  TRY(add_nodes(raw.nodes, plan));
  TRY(add_services(raw, catalogue, plan));
  for (const auto& [name, load] : raw.loads) TRY(add_load(load, name, catalogue, plan));
  TRY(add_phases(raw, catalogue, plan));
  TRY(add_signals(raw, plan));
  TRY(add_aborts(raw, plan));
  TRY(add_limits(raw, catalogue, plan));
  return plan;
}

}  // namespace mixproof
