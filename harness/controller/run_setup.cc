#include "harness/controller/run_setup.h"

#include <nlohmann/json.hpp>

#include "harness/base/text.h"

namespace mixproof {
namespace {

std::string cpu_list(const std::vector<int>& cpus, std::size_t begin, std::size_t end) {
  std::vector<std::string> words;
  for (std::size_t i = begin; i < end; ++i) words.push_back(std::to_string(cpus[i]));
  return join(words, ",");
}

}  // namespace

Status service_available(const ServicePlan& service) {
  if (service.start.empty()) return ok();
  const ServiceKind* kind = service_kind(service.start);
  if (kind == nullptr)
    return Error{Code::kInvalid, "unknown kind of service '" + service.start + "'"};
  const Status available = kind->available();
  if (!available.ok()) return Error(available.error()).in("service " + service.name);
  return ok();
}

Result<std::map<std::string, ServiceCommand>> service_commands(
    const Plan& plan, const std::vector<NodeAddress>& nodes) {
  std::map<std::string, std::string> addresses;
  for (const NodeAddress& node : nodes) addresses[node.name] = node.address;
  std::map<std::string, ServiceCommand> out;
  for (const ServicePlan& service : plan.services) {
    if (service.start.empty()) continue;
    const ServiceKind* kind = service_kind(service.start);
    if (kind == nullptr)
      return Error{Code::kInvalid, "unknown kind of service '" + service.start + "'"};
    std::vector<std::string> backends;
    if (const ServicePlan* behind = plan.service(service.before))
      for (const ServicePlan::Instance& instance : behind->instances)
        backends.push_back(addresses[instance.node] + ":" + std::to_string(instance.port));
    for (std::size_t i = 0; i < service.instances.size(); ++i) {
      const ServicePlan::Instance& instance = service.instances[i];
      Result<ServiceCommand> command = kind->command({.name = service.name,
                                                      .instance = static_cast<int>(i),
                                                      .address = addresses[instance.node],
                                                      .port = instance.port,
                                                      .params = service.params,
                                                      .backends = backends,
                                                      .argv = service.argv});
      if (!command.ok()) return Error(command.error()).in("service " + instance.name);
      out[instance.name] = std::move(*command);
    }
  }
  return out;
}

Result<std::map<std::string, std::string>> place(const Plan& plan, const std::vector<int>& cpus) {
  std::map<std::string, std::string> out;
  if (plan.placement == "none") return out;
  if (cpus.size() < 2)
    return Error{Code::kInvalid,
                 "placement physical needs at least 2 cores, this machine offers 1"};
  const std::size_t half = cpus.size() / 2;
  for (const NodePlan& node : plan.nodes) {
    if (node.role == "serve") out[node.name] = cpu_list(cpus, 0, half);
    if (node.role == "train") out[node.name] = cpu_list(cpus, half, cpus.size());
  }
  return out;
}

}  // namespace mixproof
