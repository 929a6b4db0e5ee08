#include "suites/observed.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace mixproof {
namespace {

bool is_instance(const Plan& plan, const std::string& what) {
  for (const ServicePlan& service : plan.services)
    for (const ServicePlan::Instance& instance : service.instances)
      if (instance.name == what) return true;
  return false;
}

Json info_of(const Json& row) {
  const Json* info = member(row, "info");
  Json out = info != nullptr && info->is_object() ? *info : Json::object();
  out["node"] = text_at(row, "node");
  return out;
}

void add_clock(Json& clocks, const Json& row) {
  Json& clock = clocks[text_at(row, "node")];
  const auto n = integer_at(clock, "n") + 1;
  clock = {{"offset_s", static_cast<double>(integer_at(row, "offset_ns")) * 1e-9},
           {"uncertainty_s", static_cast<double>(integer_at(row, "uncertainty_ns")) * 1e-9},
           {"n", n}};
}

void add_load(Json& loads, const std::string& what, const Json& row) {
  Json entry = info_of(row);
  entry["rank"] = integer_at(row, "rank");
  entry["stretch"] = integer_at(row, "stretch");
  Json& list = loads[what];
  if (list.is_null()) list = Json::array();
  list.push_back(std::move(entry));
}

}  // namespace

Json observed(const Plan& plan, std::span<const Json> rows) {
  Json clocks = Json::object(), services = Json::object(), loads = Json::object();
  for (const Json& row : rows) {
    const std::string kind = text_at(row, "row"), what = text_at(row, "what");
    if (kind == "clock") add_clock(clocks, row);
    if (kind != "ready") continue;
    if (is_instance(plan, what)) services[what] = info_of(row);
    if (plan.load(what) != nullptr && integer_at(row, "attempt") == 0) add_load(loads, what, row);
  }
  // Workers become ready in any order; the report must not depend on it.
  for (Json& list : loads)
    std::sort(list.begin(), list.end(), [](const Json& a, const Json& b) {
      return std::pair(integer_at(a, "stretch"), integer_at(a, "rank")) <
             std::pair(integer_at(b, "stretch"), integer_at(b, "rank"));
    });
  return {{"clocks", clocks}, {"services", services}, {"loads", loads}};
}

std::string backend_of(const Plan& plan, const LoadPlan& load, const Json& observed) {
  const ServicePlan* service = plan.service(load.target);
  if (service != nullptr && !service->before.empty() && plan.service(service->before) != nullptr)
    service = plan.service(service->before);  // a proxy answers with what stands behind it
  if (service != nullptr) return service->start.empty() ? "attached" : service->start;
  const Json* loads = member(observed, "loads");
  const Json* entries = loads == nullptr ? nullptr : member(*loads, load.name);
  if (entries == nullptr || entries->empty()) return "unknown";
  const std::string backend = text_at(entries->front(), "backend"),
                    transport = text_at(entries->front(), "transport");
  return "cpu" + (backend.empty() ? "" : "+" + backend) +
         (transport.empty() ? "" : "/" + transport);
}

}  // namespace mixproof
