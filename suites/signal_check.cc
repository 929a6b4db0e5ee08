#include "suites/signal_check.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "suites/plan_check.h"

namespace mixproof {
namespace {

constexpr Range kSeconds{.min = 0, .max = 86400};
constexpr Range kShare{.min = 1e-6, .max = 1};
constexpr std::string_view kScheme = "http://";
constexpr const char* kAbortPhase = "abort";  // the ids of its checks begin with it

template <typename Items>
std::vector<std::string> names_of(const Items& items) {
  std::vector<std::string> out;
  for (const auto& item : items) out.push_back(item.name);
  return out;
}

bool is_url(const std::string& place) { return place.find("://") != std::string::npos; }

// "10.0.0.1:9090" of "http://10.0.0.1:9090/x"
std::string host_of(const std::string& url) {
  const std::string rest = url.substr(kScheme.size());
  return rest.substr(0, rest.find('/'));
}

std::string without_slash(std::string url) {
  while (!url.empty() && url.back() == '/') url.pop_back();
  return url;
}

// The base of an OpenAI-compatible server may end in its API's version; its metrics do not lie
// under that.
std::string page_base(const std::string& service_url) {
  std::string url = without_slash(service_url);
  if (url.ends_with("/v1")) url.resize(url.size() - 3);
  return url;
}

// The role of the inference load, or edge, or the first.
std::string default_role(const Plan& plan) {
  for (const LoadPlan& load : plan.loads)
    if (load.probe == "inference") return load.on;
  return plan.nodes_of("edge").empty() ? plan.nodes.front().role : "edge";
}

// The whole URL of a page, the base URL of a Prometheus.
std::string source_url(const SignalPlan& signal, const ServicePlan* service,
                       const std::string& instance,
                       const std::function<std::string(const std::string&)>& url_of) {
  const bool on_page = !signal.page.empty();
  if (service != nullptr)
    return page_base(service->start.empty() ? service->url : url_of(instance)) +
           (on_page ? signal.path : "");
  if (!on_page) return without_slash(signal.prometheus);
  const bool has_path = signal.page.find('/', kScheme.size()) != std::string::npos;
  return signal.page + (has_path ? "" : signal.path);
}

struct SignalCheck {
  const RawSignal& raw;
  const std::string& pointer;
  const Plan& plan;
  SignalPlan out;

  Error at(const std::string& key, const std::string& what) const {
    return invalid_at(pointer + "/" + key, what);
  }

  Status place() {
    const bool on_page = !out.page.empty();
    if (on_page == !out.prometheus.empty())
      return invalid_at(pointer, R"(needs either "page" or "prometheus")");
    const std::string key = on_page ? "page" : "prometheus";
    const std::string& where = on_page ? out.page : out.prometheus;
    if (is_url(where)) {
      if (!starts_with(where, kScheme) || host_of(where).empty() ||
          where.find_first_of(" ?#\r\n") != std::string::npos)
        return at(key, "\"" + where + "\" is not http://host[:port][/path]");
      out.instances = {host_of(where)};
      return ok();
    }
    TRY(check_known(pointer + "/" + key, "service", where, names_of(plan.services)));
    const ServicePlan& service = *plan.service(where);
    for (const ServicePlan::Instance& instance : service.instances)
      out.instances.push_back(instance.name);
    if (service.instances.empty()) out.instances = {service.name};
    return ok();
  }

  Status what() {
    if (out.prometheus.empty()) {
      if (out.series.empty()) return invalid_at(pointer, "\"series\" is missing");
      if (!out.query.empty()) return at("query", "belongs to a \"prometheus\"");
    } else {
      if (out.query.empty()) return invalid_at(pointer, "\"query\" is missing");
      if (!out.series.empty()) return at("series", "belongs to a \"page\"");
      if (!raw.labels.empty()) return at("labels", "belongs to a \"page\"");
      if (out.is_counter())
        return at("as", "a query says itself what it counts: use rate() or increase() in it");
    }
    for (auto it = raw.labels.begin(); it != raw.labels.end(); ++it) {
      if (!it->is_string()) return at("labels/" + it.key(), "must be text");
      out.labels[it.key()] = it->get<std::string>();
    }
    if (out.is_counter() && out.combine != "sum")
      return at("combine", "what counters have grown by is summed");
    if (out.path.empty() || out.path.front() != '/' ||
        out.path.find_first_of(" \r\n") != std::string::npos)
      return at("path", "must begin with / and hold no space");
    if (!raw.has_timeout) out.timeout_s = std::min(out.every_s, 5.0);
    return ok();
  }
};

Status check_signal_abort(const RawAbort& raw, const std::string& pointer, const Plan& plan) {
  const AbortPlan& abort = raw.plan;
  TRY(check_known(pointer + "/signal", "signal", abort.signal, names_of(plan.signals)));
  for (const auto& [key, there] : {std::pair{"good_share_at_least", raw.has_share},
                                   {"over_s", raw.has_over},
                                   {"least_requests", raw.has_least_requests}})
    if (there) return invalid_at(pointer + "/" + key, "belongs to a \"load\"");
  if (!raw.has_at_most && !raw.has_at_least && !raw.has_no_data)
    return invalid_at(pointer, R"(needs "at_most", "at_least" or "no_data_s")");
  if (raw.has_at_most && raw.has_at_least && raw.at_least > raw.at_most)
    return invalid_at(pointer,
                      format("nothing is at least %g and at most %g", raw.at_least, raw.at_most));
  if (raw.has_for && !raw.has_at_most && !raw.has_at_least)
    return invalid_at(pointer + "/for_s", R"(needs "at_most" or "at_least")");
  const SignalPlan& signal = *plan.signal(abort.signal);
  if (raw.has_no_data && !(abort.no_data_s >= 2 * signal.every_s))
    return invalid_at(pointer + "/no_data_s",
                      format("must be at least twice the signal's every_s (%g s)", signal.every_s));
  return ok();
}

Status check_load_abort(const RawAbort& raw, const std::string& pointer, const Plan& plan) {
  const AbortPlan& abort = raw.plan;
  TRY(check_known(pointer + "/load", "load", abort.load, names_of(plan.loads)));
  if (!plan.load(abort.load)->slo)
    return invalid_at(pointer + "/load",
                      "load \"" + abort.load + "\" has no \"slo\" that says what is good");
  if (!raw.has_share) return invalid_at(pointer, "\"good_share_at_least\" is missing");
  for (const auto& [key, there] : {std::pair{"at_most", raw.has_at_most},
                                   {"at_least", raw.has_at_least},
                                   {"for_s", raw.has_for},
                                   {"no_data_s", raw.has_no_data}})
    if (there) return invalid_at(pointer + "/" + key, "belongs to a \"signal\"");
  return ok();
}

}  // namespace

Params signal_params(RawSignal& signal) {
  SignalPlan& plan = signal.plan;
  signal.labels = Json::object();
  return {
      text("on", &plan.on,
           "role whose first node reads it; default: that of the inference load, else edge"),
      text("page", &plan.page,
           "a service (the pages of all its instances) or an http URL with metrics as Prometheus "
           "text"),
      text("path", &plan.path, "of the page, where it is a service"),
      text("series", &plan.series, "of a page: the name of the metric"),
      any("labels", &signal.labels, "of a page: labels that a series must carry"),
      text("prometheus", &plan.prometheus, "a service or base URL of a Prometheus to ask"),
      text("query", &plan.query, "of a Prometheus: PromQL, evaluated at each sample"),
      choice("combine", &plan.combine, "of all series that match, on all instances",
             {"sum", "max", "min"}),
      choice("as", &plan.as,
             "value as it is, or of a counter its increase since the sample before, or that a "
             "second",
             {"value", "rate", "increase"}),
      number("every_s", &plan.every_s, "between samples", {.min = 0.1, .max = 3600}),
      seen(number("timeout_s", &plan.timeout_s,
                  "deadline of each answer; default: every_s, 5 at most", {.min = 0.05, .max = 60}),
           &signal.has_timeout)};
}

Params abort_params(RawAbort& abort) {
  AbortPlan& plan = abort.plan;
  return {
      required(text("id", &plan.id, "unique; names the check abort/<id>")),
      text("signal", &plan.signal, "the signal that it watches"),
      seen(number("at_most", &abort.at_most, "of the signal: upper bound"), &abort.has_at_most),
      seen(number("at_least", &abort.at_least, "of the signal: lower bound"), &abort.has_at_least),
      seen(number("for_s", &plan.for_s,
                  "how long the signal must lie outside of the bound, without a sample within",
                  kSeconds),
           &abort.has_for),
      seen(number("no_data_s", &plan.no_data_s,
                  "ends the run when the signal has had no data for so long; absent: that does not "
                  "end it",
                  {.min = 0.1, .max = 86400}),
           &abort.has_no_data),
      text("load", &plan.load, "the load whose requests it watches"),
      seen(number("good_share_at_least", &plan.good_share_at_least,
                  "of the load: least share of good requests", kShare),
           &abort.has_share),
      seen(number("over_s", &plan.over_s, "of the load: among requests that ended in so long",
                  {.min = 0.1, .max = 86400}),
           &abort.has_over),
      seen(integer("least_requests", &abort.least_requests,
                   "of the load: fewer of them decide nothing", {.min = 1, .max = 1e6}),
           &abort.has_least_requests),
      texts("phases", &plan.phases, "in which it is watched; default: all"),
      required(text("why", &plan.why, "where the bound comes from"))};
}

Status add_signals(const RawSuite& suite, Plan& plan) {
  for (const auto& [name, raw] : suite.signals) {
    const std::string pointer = "/signals/" + name;
    TRY(check_name(pointer, name));
    SignalCheck check{raw, pointer, plan, raw.plan};
    check.out.name = name;
    TRY(check.place());
    TRY(check.what());
    if (check.out.on.empty()) check.out.on = default_role(plan);
    std::vector<std::string> roles;
    for (const NodePlan& node : plan.nodes) roles.push_back(node.role);
    TRY(check_known(pointer + "/on", "role", check.out.on, roles));
    plan.signals.push_back(std::move(check.out));
  }
  plan.collectors = collectors_of(plan);
  return ok();
}

Status add_aborts(const RawSuite& suite, Plan& plan) {
  for (std::size_t i = 0; i < suite.aborts.size(); ++i) {
    const RawAbort& raw = suite.aborts[i];
    const std::string pointer = "/aborts/" + std::to_string(i);
    TRY(check_name(pointer + "/id", raw.plan.id));
    for (const AbortPlan& other : plan.aborts)
      if (other.id == raw.plan.id)
        return invalid_at(pointer + "/id", "a second abort \"" + raw.plan.id + "\"");
    if (raw.plan.signal.empty() == raw.plan.load.empty())
      return invalid_at(pointer, R"(needs either "signal" or "load")");
    TRY(raw.plan.load.empty() ? check_signal_abort(raw, pointer, plan)
                              : check_load_abort(raw, pointer, plan));
    for (std::size_t p = 0; p < raw.plan.phases.size(); ++p)
      TRY(check_known(pointer + "/phases/" + std::to_string(p), "phase", raw.plan.phases[p],
                      names_of(plan.phases)));
    if (raw.plan.why.empty()) return invalid_at(pointer + "/why", "is empty");
    if (plan.phase(kAbortPhase) != nullptr)
      return invalid_at(pointer,
                        "the checks of aborts are called abort/..., so no phase may be "
                        "called abort");
    AbortPlan abort = raw.plan;
    if (raw.has_at_most) abort.at_most = raw.at_most;
    if (raw.has_at_least) abort.at_least = raw.at_least;
    abort.least_requests = static_cast<int>(raw.least_requests);
    plan.aborts.push_back(std::move(abort));
  }
  return ok();
}

Status check_signal_limit(const Limit& limit, const std::string& pointer, const Plan& plan) {
  if (!limit.load.empty())
    return invalid_at(pointer + "/load", limit.metric + " belongs to a signal, not to a load");
  if (limit.signal.empty()) return invalid_at(pointer, "\"signal\" is missing");
  TRY(check_known(pointer + "/signal", "signal", limit.signal, names_of(plan.signals)));
  const SignalPlan& signal = *plan.signal(limit.signal);
  if (limit.metric == "signal.increase" && !signal.is_counter())
    return invalid_at(pointer + "/signal", "signal \"" + limit.signal +
                                               "\" is read as it is: signal.increase needs "
                                               "\"as\": \"increase\" or \"rate\"");
  return ok();
}

std::vector<LoadPlan> collectors_of(const Plan& plan) {
  std::vector<LoadPlan> out;
  for (const SignalPlan& signal : plan.signals) {
    const std::string name = std::string(kSignalsProbe) + "@" + signal.on;
    const bool there =
        std::any_of(out.begin(), out.end(), [&](const LoadPlan& one) { return one.name == name; });
    if (there) continue;
    LoadPlan collector;
    collector.name = name;
    collector.probe = kSignalsProbe;
    collector.on = signal.on;
    collector.params = Json::object();
    collector.nodes = {plan.nodes_of(signal.on).front()};
    out.push_back(std::move(collector));
  }
  return out;
}

Json collector_params(const Plan& plan, const LoadPlan& collector,
                      const std::function<std::string(const std::string& instance)>& url_of) {
  Json signals = Json::array();
  for (const SignalPlan& signal : plan.signals) {
    if (signal.on != collector.on) continue;
    const ServicePlan* service =
        plan.service(signal.page.empty() ? signal.prometheus : signal.page);
    Json sources = Json::array();
    for (const std::string& instance : signal.instances) {
      sources.push_back(
          {{"instance", instance}, {"url", source_url(signal, service, instance, url_of)}});
    }
    Json labels = Json::object();
    for (const auto& [key, value] : signal.labels) labels[key] = value;
    signals.push_back({{"name", signal.name},
                       {"series", signal.series},
                       {"labels", labels},
                       {"query", signal.query},
                       {"combine", signal.combine},
                       {"counter", signal.is_counter()},
                       {"every_s", signal.every_s},
                       {"timeout_s", signal.timeout_s},
                       {"sources", sources}});
  }
  return {{"signals", signals}};
}

}  // namespace mixproof
