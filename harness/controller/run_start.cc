// The way to the first phase: agents, services, loads.
#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "harness/base/random.h"
#include "harness/base/text.h"
#include "harness/controller/run_tasks.h"
#include "suites/signal_check.h"

namespace mixproof {
namespace {

constexpr Time kAnswer = std::chrono::seconds(5);
constexpr Time kPrepareDeadline = std::chrono::seconds(60);

std::string signal_name(int signal) {
  return signal == SIGINT    ? "SIGINT"
         : signal == SIGTERM ? "SIGTERM"
         : signal == SIGHUP  ? "SIGHUP"
                             : std::to_string(signal);
}

}  // namespace

void Run::start() {
  world_.listen({.on_line = {}, .on_end = {}, .on_signal = [this](int signal) {
                   stop("signal " + signal_name(signal));
                 }});
  record({{"row", "begin"},
          {"at", world_.now(Clock::kMonotonic).count()},
          {"utc_ns", world_.now(Clock::kUtc).count()},
          {"run", setup_.id},
          {"seed", setup_.plan.seed}});
  connect();
}

void Run::connect() {
  stage_ = Stage::kConnect;
  note("connecting to " + std::to_string(setup_.nodes.size()) + " nodes");
  waiting_ = static_cast<int>(setup_.nodes.size());
  for (const NodeAddress& node : setup_.nodes) {
    const std::string name = node.name;
    links_[name] = make_link(
        name,
        {.on_ready =
             [this, name] {
               record({{"row", "ready"},
                       {"what", "agent"},
                       {"node", name},
                       {"info", {{"boot_id", text_at(links_[name]->handshake(), "boot_id")}}}});
               if (stage_ == Stage::kConnect && --waiting_ == 0) start_services(0);
             },
         .on_event = [this, name](const Json& event) { on_event(name, event); },
         .on_lost = [this, name](const Error& error) { node_lost(name, error); },
         .on_clock =
             [this, name] {
               const ClockEstimate& clock = links_[name]->clock();
               record({{"row", "clock"},
                       {"node", name},
                       {"at", world_.now(Clock::kMonotonic).count()},
                       {"offset_ns", clock.offset.count()},
                       {"uncertainty_ns", clock.uncertainty.count()}});
             }});
  }
  for (const auto& [name, link] : links_) link->connect();
}

std::unique_ptr<AgentLink> Run::make_link(const std::string& node, AgentLink::Events events) {
  for (const NodeAddress& address : setup_.nodes)
    if (address.name == node)
      return std::make_unique<AgentLink>(
          world_, address,
          LinkOptions{.build = setup_.build,
                      .run = setup_.id,
                      .log = setup_.directory + "/logs/" + node + ".agent.log"},
          std::move(events));
  return nullptr;
}

void Run::start_services(std::size_t index) {
  stage_ = Stage::kServices;
  if (index == setup_.plan.services.size()) return prepare_loads();
  const ServicePlan& service = setup_.plan.services[index];
  if (service.start.empty())
    return start_services(index + 1);  // attached: the loads' warm-up finds out
  note("starting " + service.name + " (" + service.start + ", " +
       std::to_string(service.instances.size()) + ")");
  waiting_ = static_cast<int>(service.instances.size());
  for (const ServicePlan::Instance& instance : service.instances) {
    const ServiceCommand& command = setup_.services.at(instance.name);
    const auto cpus = setup_.cpus.find(instance.node);
    services_[instance.name] = instance.node;
    ask(instance.node,
        {{"do", "start"},
         {"what", instance.name},
         {"kind", "service"},
         {"argv", command.argv},
         {"env", command.environment},
         {"files", command.files},
         {"cpus", cpus == setup_.cpus.end() ? "" : cpus->second},
         {"restart", service.restart == "always"}},
        kAnswer,
        [this, index, name = instance.name, node = instance.node](const Result<Json>& reply) {
          if (stage_ != Stage::kServices || stopping_) return;
          if (!reply.ok()) return fail(reply.error(), name, node);
          if (--waiting_ == 0) wait_until_ready(index);
        });
  }
}

void Run::wait_until_ready(std::size_t index) {
  const ServicePlan& service = setup_.plan.services[index];
  waiting_ = static_cast<int>(service.instances.size());
  for (const ServicePlan::Instance& instance : service.instances) {
    const ServiceCommand& command = setup_.services.at(instance.name);
    probes_.run(instance.node, "http_ready",
                {{"url", command.ready_url}, {"deadline_s", service.ready_s}}, {},
                run_seconds(service.ready_s) + kAnswer,
                [this, index, &instance, &command](const Result<std::vector<Json>>& rows) {
                  if (stage_ != Stage::kServices || stopping_) return;
                  if (!rows.ok())
                    return fail(Error(rows.error()).in(instance.name + " is not ready"),
                                instance.name, instance.node);
                  record({{"row", "ready"},
                          {"what", instance.name},
                          {"node", instance.node},
                          {"info", command.labels}});
                  if (--waiting_ == 0) start_services(index + 1);
                });
  }
}

// Every stretch of every load is prepared before the first phase, so that no preparation disturbs a
// later one.
void Run::prepare_loads() {
  stage_ = Stage::kLoads;
  std::map<std::string, int> stretches;
  for (std::size_t i = 0; i < schedule_.loads.size(); ++i) {
    const LoadPlan* load = setup_.plan.worker(schedule_.loads[i].load);
    const int stretch = stretches[load->name]++;
    for (std::size_t rank = 0; rank < load->nodes.size(); ++rank) {
      auto task = std::make_unique<LoadTask>();
      task->name = load->name + "[" + std::to_string(rank) + "]" +
                   (stretch == 0 ? "" : "#" + std::to_string(stretch));
      task->load = load;
      task->span = i;
      task->stretch = stretch;
      task->rank = static_cast<int>(rank);
      task->ranks = static_cast<int>(load->nodes.size());
      task->node = load->nodes[rank];
      task->collects = load->probe == kSignalsProbe;
      const std::string name = task->name;
      loads_[name] = std::move(task);
    }
  }
  note("preparing " + std::to_string(loads_.size()) + " load workers");
  waiting_ = static_cast<int>(loads_.size());
  for (const auto& [name, task] : loads_) start_worker(*task);
  stage_timer_ = world_.after(kPrepareDeadline, [this] {
    if (stage_ != Stage::kLoads || stopping_) return;
    std::vector<std::string> missing;
    for (const auto& [name, task] : loads_)
      if (!task->ready) missing.push_back(name + " on " + task->node);
    fail({Code::kTimeout, "not prepared in time: " + join(missing, ", ")},
         missing.empty() ? "" : missing[0], "");
  });
}

void Run::start_worker(LoadTask& task) {
  task.started = true;
  const auto cpus = setup_.cpus.find(task.node);
  const auto outside = setup_.outside_cgroups.find(task.load->probe);
  const bool grouped = outside == setup_.outside_cgroups.end() || !outside->second;
  ask(task.node,
      {{"do", "start"},
       {"what", task.name},
       {"kind", "worker"},
       {"spec", worker_spec(task)},
       {"grouped", grouped},
       {"cpus", cpus == setup_.cpus.end() ? "" : cpus->second}},
      kAnswer, [this, &task, attempt = task.attempt](const Result<Json>& reply) {
        const bool waited_for =
            stage_ == Stage::kLoads || (stage_ == Stage::kTimeline && attempt > 0);
        if (waited_for && !stopping_ && !reply.ok() && task.attempt == attempt)
          fail(reply.error(), task.name, task.node);
      });
}

// Where the target of the load answers: its first instance, or all of them in order when the load
// spreads.
std::vector<std::string> Run::target_urls(const LoadPlan& load) const {
  const ServicePlan& service = *setup_.plan.service(load.target);
  if (service.start.empty())
    return service.urls.empty() ? std::vector<std::string>{service.url} : service.urls;
  std::vector<std::string> out;
  for (const ServicePlan::Instance& instance : service.instances) {
    out.push_back(setup_.services.at(instance.name).url);
    if (!load.spread) break;
  }
  return out;
}

Json Run::worker_spec(const LoadTask& task) const {
  const LoadSpan& span = schedule_.loads[task.span];
  Json phases = Json::array();
  for (const PhaseTime& phase : span.phases)
    phases.push_back({{"name", phase.name},
                      {"begin_ns", run_seconds(phase.begin_s - span.begin_s).count()},
                      {"end_ns", run_seconds(phase.end_s - span.begin_s).count()}});
  const auto attempt = attempts_.find(task.span);
  const std::int64_t steps_before = attempt == attempts_.end() ? 0 : attempt->second.steps;
  Json params = task.load->params;
  if (!task.load->target.empty()) {
    const std::vector<std::string> urls = target_urls(*task.load);
    params["url"] = urls.front();
    if (task.load->spread) params["urls"] = urls;
  }
  if (task.collects)
    params = collector_params(setup_.plan, *task.load, [this](const std::string& instance) {
      return setup_.services.at(instance).url;
    });
  std::string address;
  for (const NodeAddress& node : setup_.nodes)
    if (node.name == task.node) address = node.address;
  // 63 bits: the number travels as a JSON integer.
  const std::uint64_t seed =
      Random(setup_.plan.seed, task.load->name + "#" + std::to_string(task.stretch)).next() >> 1;
  return {{"probe", task.load->probe},
          {"params", params},
          {"seed", seed},
          {"name", task.load->name},
          {"node", task.node},
          {"address", address},
          {"rank", task.rank},
          {"ranks", task.ranks},
          {"phases", phases},
          {"attempt", task.attempt},
          {"steps_before", steps_before}};
}

void Run::loads_ready() {
  world_.cancel(stage_timer_);
  begin_timeline();
}

}  // namespace mixproof
