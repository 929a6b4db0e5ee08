// A plan as JSON and back. Bounds that the suite did not set (infinity) are null.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "suites/check_power.h"
#include "suites/plan.h"
#include "suites/signal_check.h"

namespace mixproof {
namespace {

Json bound(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json optional_number(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json service_json(const ServicePlan& s) {
  Json instances = Json::array();
  for (const auto& instance : s.instances)
    instances.push_back(
        {{"name", instance.name}, {"node", instance.node}, {"port", instance.port}});
  return {{"name", s.name},        {"start", s.start},     {"url", s.url},
          {"urls", s.urls},        {"on", s.on},           {"replicas", s.replicas},
          {"restart", s.restart},  {"before", s.before},   {"argv", s.argv},
          {"port", s.port},        {"ready_s", s.ready_s}, {"params", s.params},
          {"instances", instances}};
}

Json load_json(const LoadPlan& l) {
  Json slo = nullptr;
  if (l.slo)
    slo = {{"ttft_s", bound(l.slo->ttft_s)},
           {"tpot_s", bound(l.slo->tpot_s)},
           {"max_gap_s", bound(l.slo->max_gap_s)},
           {"deadline_s", bound(l.slo->deadline_s)}};
  return {{"name", l.name},     {"probe", l.probe},   {"on", l.on},
          {"target", l.target}, {"spread", l.spread}, {"on_loss", l.on_loss},
          {"slo", slo},         {"params", l.params}, {"nodes", l.nodes}};
}

Json fault_json(const FaultPlanEntry& f) {
  Json parts = Json::array();
  for (const FaultPlanEntry::Part& part : f.parts)
    parts.push_back({{"node", part.node}, {"from", part.from}});
  return {{"id", f.id},       {"fault", f.fault},         {"target", f.target},
          {"at_s", f.at_s},   {"for_s", f.for_s},         {"params", f.params},
          {"peers", f.peers}, {"direction", f.direction}, {"parts", parts}};
}

Json phase_json(const PhasePlan& p) {
  Json faults = Json::array();
  for (const FaultPlanEntry& f : p.faults) faults.push_back(fault_json(f));
  return {{"name", p.name},           {"run", p.run},         {"settle_s", p.settle_s},
          {"measure_s", p.measure_s}, {"begin_s", p.begin_s}, {"faults", faults}};
}

Json limit_json(const Plan& plan, const Limit& l) {
  const CheckPower power = check_power(plan, l);
  return {{"id", l.id},
          {"metric", l.metric},
          {"load", l.load},
          {"signal", l.signal},
          {"phase", l.phase},
          {"reference", l.reference},
          {"why", l.why},
          {"owner", l.owner},
          {"method", l.method},
          {"dependence", l.dependence},
          {"at_most", optional_number(l.at_most)},
          {"at_least", optional_number(l.at_least)},
          {"confidence", l.confidence},
          {"quantile", l.quantile},
          {"clean_requests", l.clean_requests},
          {"margin", l.margin},
          {"required", l.required},
          {"skip", l.skip},
          {"power", {{"text", power.text}, {"numbers", power.numbers}}}};
}

Json signal_json(const SignalPlan& s) {
  Json labels = Json::object();
  for (const auto& [key, value] : s.labels) labels[key] = value;
  return {{"name", s.name},
          {"on", s.on},
          {"page", s.page},
          {"path", s.path},
          {"series", s.series},
          {"labels", labels},
          {"query", s.query},
          {"combine", s.combine},
          {"prometheus", s.prometheus},
          {"as", s.as},
          {"every_s", s.every_s},
          {"timeout_s", s.timeout_s},
          {"instances", s.instances}};
}

Json abort_json(const AbortPlan& a) {
  return {{"id", a.id},
          {"why", a.why},
          {"phases", a.phases},
          {"signal", a.signal},
          {"at_most", optional_number(a.at_most)},
          {"at_least", optional_number(a.at_least)},
          {"for_s", a.for_s},
          {"no_data_s", a.no_data_s},
          {"load", a.load},
          {"good_share_at_least", a.good_share_at_least},
          {"over_s", a.over_s},
          {"least_requests", a.least_requests}};
}

template <typename Items, typename Writer>
Json list_json(const Items& items, Writer writer) {
  Json out = Json::array();
  for (const auto& item : items) out.push_back(writer(item));
  return out;
}

// Reads members and remembers the first one that is missing or of another type.
class Reader {
 public:
  Reader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  void text(const char* key, std::string& out) {
    const Json* value = find(key);
    if (value != nullptr && value->is_string())
      out = value->get<std::string>();
    else
      wrong(key);
  }
  void number(const char* key, double& out) {
    const Json* value = find(key);
    if (value != nullptr && value->is_number())
      out = value->get<double>();
    else
      wrong(key);
  }
  // As above; one that is absent keeps what it has.
  void number_if(const char* key, double& out) {
    if (find(key) != nullptr) number(key, out);
  }
  void whole(const char* key, int& out) {
    const Json* value = find(key);
    if (value != nullptr && value->is_number_integer())
      out = value->get<int>();
    else
      wrong(key);
  }
  void flag(const char* key, bool& out) {
    const Json* value = find(key);
    if (value != nullptr && value->is_boolean())
      out = value->get<bool>();
    else
      wrong(key);
  }
  void bound(const char* key, double& out) {
    out = std::numeric_limits<double>::infinity();
    const Json* value = find(key);
    if (value == nullptr || !value->is_null()) number(key, out);
  }
  void optional(const char* key, std::optional<double>& out) {
    const Json* value = find(key);
    if (value != nullptr && value->is_null()) return;
    double number_value = 0;
    number(key, number_value);
    out = number_value;
  }
  void texts(const char* key, std::vector<std::string>& out) {
    each(key, [&](const Json& item) {
      if (item.is_string())
        out.push_back(item.get<std::string>());
      else
        wrong(key);
    });
  }
  void any(const char* key, Json& out) {
    const Json* value = find(key);
    if (value != nullptr)
      out = *value;
    else
      wrong(key);
  }
  template <typename Use>
  void each(const char* key, Use use) {
    const Json* value = find(key);
    if (value == nullptr || !value->is_array()) return wrong(key);
    for (const Json& item : *value) use(item);
  }
  // Reads an item of a list with a reader of its own and takes over its error.
  template <typename T>
  void items(const char* key, std::vector<T>& out, void (*read)(Reader&, T&)) {
    each(key, [&](const Json& item) {
      Reader inner(item, where_ + "/" + key + "/" + std::to_string(out.size()));
      out.emplace_back();
      read(inner, out.back());
      if (error_.empty()) error_ = inner.error_;
    });
  }
  template <typename T>
  void maybe(const char* key, std::optional<T>& out, void (*read)(Reader&, T&)) {
    const Json* value = find(key);
    if (value == nullptr) return wrong(key);
    if (value->is_null()) return;
    Reader inner(*value, where_ + "/" + key);
    read(inner, out.emplace());
    if (error_.empty()) error_ = inner.error_;
  }
  const std::string& error() const { return error_; }

 private:
  const Json* find(const char* key) const { return member(json_, key); }
  void wrong(const char* key) {
    if (error_.empty()) error_ = where_ + "/" + key + " is missing or of another type";
  }

  const Json& json_;
  std::string where_, error_;
};

void read_instance(Reader& r, ServicePlan::Instance& i) {
  r.text("name", i.name);
  r.text("node", i.node);
  r.whole("port", i.port);
}

void read_service(Reader& r, ServicePlan& s) {
  r.text("name", s.name);
  r.text("start", s.start);
  r.text("url", s.url);
  r.texts("urls", s.urls);
  r.text("on", s.on);
  r.whole("replicas", s.replicas);
  r.text("restart", s.restart);
  r.text("before", s.before);
  r.texts("argv", s.argv);
  r.whole("port", s.port);
  r.number("ready_s", s.ready_s);
  r.any("params", s.params);
  r.items("instances", s.instances, read_instance);
}

void read_slo(Reader& r, Slo& slo) {
  r.bound("ttft_s", slo.ttft_s);
  r.bound("tpot_s", slo.tpot_s);
  r.bound("max_gap_s", slo.max_gap_s);
  r.bound("deadline_s", slo.deadline_s);
}

void read_load(Reader& r, LoadPlan& l) {
  r.text("name", l.name);
  r.text("probe", l.probe);
  r.text("on", l.on);
  r.text("target", l.target);
  r.flag("spread", l.spread);
  r.text("on_loss", l.on_loss);
  r.maybe("slo", l.slo, read_slo);
  r.any("params", l.params);
  r.texts("nodes", l.nodes);
}

void read_part(Reader& r, FaultPlanEntry::Part& part) {
  r.text("node", part.node);
  r.texts("from", part.from);
}

void read_fault(Reader& r, FaultPlanEntry& f) {
  r.text("id", f.id);
  r.text("fault", f.fault);
  r.text("target", f.target);
  r.number("at_s", f.at_s);
  r.number("for_s", f.for_s);
  r.any("params", f.params);
  r.texts("peers", f.peers);
  r.text("direction", f.direction);
  r.items("parts", f.parts, read_part);
}

void read_phase(Reader& r, PhasePlan& p) {
  r.text("name", p.name);
  r.texts("run", p.run);
  r.number("settle_s", p.settle_s);
  r.number("measure_s", p.measure_s);
  r.number("begin_s", p.begin_s);
  r.items("faults", p.faults, read_fault);
}

void read_limit(Reader& r, Limit& l) {
  for (const auto& [key, out] : {std::pair{"id", &l.id},
                                 {"metric", &l.metric},
                                 {"load", &l.load},
                                 {"signal", &l.signal},
                                 {"phase", &l.phase},
                                 {"reference", &l.reference},
                                 {"why", &l.why},
                                 {"owner", &l.owner},
                                 {"method", &l.method},
                                 {"dependence", &l.dependence},
                                 {"quantile", &l.quantile},
                                 {"skip", &l.skip}})
    r.text(key, *out);
  r.optional("at_most", l.at_most);
  r.optional("at_least", l.at_least);
  r.number("confidence", l.confidence);
  r.whole("clean_requests", l.clean_requests);
  r.number_if("margin", l.margin);
  r.flag("required", l.required);
}

void read_signal(Reader& r, SignalPlan& s) {
  for (const auto& [key, out] : {std::pair{"name", &s.name},
                                 {"on", &s.on},
                                 {"page", &s.page},
                                 {"prometheus", &s.prometheus},
                                 {"path", &s.path},
                                 {"series", &s.series},
                                 {"query", &s.query},
                                 {"combine", &s.combine},
                                 {"as", &s.as}})
    r.text(key, *out);
  Json labels = nullptr;
  r.any("labels", labels);
  for (auto it = labels.begin(); it != labels.end(); ++it)
    s.labels[it.key()] = text_at(labels, it.key());
  r.number("every_s", s.every_s);
  r.number("timeout_s", s.timeout_s);
  r.texts("instances", s.instances);
}

void read_abort(Reader& r, AbortPlan& a) {
  r.text("id", a.id);
  r.text("why", a.why);
  r.texts("phases", a.phases);
  r.text("signal", a.signal);
  r.optional("at_most", a.at_most);
  r.optional("at_least", a.at_least);
  r.number("for_s", a.for_s);
  r.number("no_data_s", a.no_data_s);
  r.text("load", a.load);
  r.number("good_share_at_least", a.good_share_at_least);
  r.number("over_s", a.over_s);
  r.whole("least_requests", a.least_requests);
}

void read_node(Reader& r, NodePlan& n) {
  r.text("name", n.name);
  r.text("role", n.role);
}

Status check_pointers(const Plan& plan) {
  for (const SignalPlan& signal : plan.signals)
    if (plan.nodes_of(signal.on).empty() || signal.instances.empty() || !(signal.every_s > 0))
      return Error{Code::kCorrupt, "plan/signals: " + signal.name + " points nowhere"};
  for (const AbortPlan& abort : plan.aborts)
    if (abort.signal.empty() ? plan.load(abort.load) == nullptr || !plan.load(abort.load)->slo
                             : plan.signal(abort.signal) == nullptr)
      return Error{Code::kCorrupt, "plan/aborts: " + abort.id + " points nowhere"};
  return ok();
}

}  // namespace

Json plan_to_json(const Plan& plan) {
  return {
      {"schema_version", plan.schema_version},
      {"name", plan.name},
      {"claim", plan.claim},
      {"placement", plan.placement},
      {"seed",
       std::to_string(plan.seed)},  // text: above 2^53 a JSON number is not exact everywhere
      {"lease_s", plan.lease_s},
      {"renew_s", plan.renew_s},
      {"length_s", plan.length_s()},
      {"nodes", list_json(plan.nodes,
                          [](const NodePlan& n) {
                            return Json{{"name", n.name}, {"role", n.role}};
                          })},
      {"services", list_json(plan.services, service_json)},
      {"loads", list_json(plan.loads, load_json)},
      {"phases", list_json(plan.phases, phase_json)},
      {"limits", list_json(plan.limits, [&plan](const Limit& l) { return limit_json(plan, l); })},
      {"signals", list_json(plan.signals, signal_json)},
      {"aborts", list_json(plan.aborts, abort_json)},
      {"suite", plan.suite}};
}

Result<Plan> plan_from_json(const Json& json) {
  Plan plan;
  std::string seed;
  Reader r(json, "plan");
  r.text("schema_version", plan.schema_version);
  r.text("name", plan.name);
  r.text("claim", plan.claim);
  r.text("placement", plan.placement);
  r.text("seed", seed);
  r.number("lease_s", plan.lease_s);
  r.number("renew_s", plan.renew_s);
  r.items("nodes", plan.nodes, read_node);
  r.items("services", plan.services, read_service);
  r.items("loads", plan.loads, read_load);
  r.items("phases", plan.phases, read_phase);
  r.items("limits", plan.limits, read_limit);
  r.items("signals", plan.signals, read_signal);
  r.items("aborts", plan.aborts, read_abort);
  r.any("suite", plan.suite);
  if (!r.error().empty()) return Error{Code::kCorrupt, r.error()};
  char* end = nullptr;
  plan.seed = std::strtoull(seed.c_str(), &end, 10);
  if (seed.empty() || *end != '\0') return Error{Code::kCorrupt, "plan/seed is not a number"};
  if (plan.schema_version != kSuiteSchemaVersion)
    return Error{Code::kCorrupt,
                 "plan/schema_version is " + plan.schema_version + ", not " + kSuiteSchemaVersion};
  for (const Limit& limit : plan.limits)
    if (plan.phase(limit.phase) == nullptr ||
        (!limit.load.empty() && plan.load(limit.load) == nullptr) ||
        (!limit.signal.empty() && plan.signal(limit.signal) == nullptr))
      return Error{Code::kCorrupt, "plan/limits: " + limit.check_id() + " points nowhere"};
  TRY(check_pointers(plan));
  plan.collectors = collectors_of(plan);
  return plan;
}

}  // namespace mixproof
