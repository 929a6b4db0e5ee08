// The timeline and the way out.
#include "harness/controller/run.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "harness/controller/run_tasks.h"

namespace mixproof {
namespace {

constexpr Time kAnswer = std::chrono::seconds(5);
constexpr Time kHeadStart =
    std::chrono::milliseconds(500);  // for "go" to reach every worker before its first phase
constexpr Time kLookAhead = std::chrono::milliseconds(1500);  // for the controls before a fault
constexpr Time kLoadGrace = std::chrono::seconds(5);          // beyond a load's own deadline
constexpr Time kStopGrace = std::chrono::milliseconds(2000);
constexpr Time kLeaveDeadline = std::chrono::seconds(12);

bool takes_part(const FaultPlanEntry& entry, const std::string& node) {
  return std::any_of(entry.parts.begin(), entry.parts.end(), [&node](const auto& part) {
    return part.node == node ||
           std::find(part.from.begin(), part.from.end(), node) != part.from.end();
  });
}

}  // namespace

Run::Run(World& world, RunSetup setup, RunObserver observer)
    : world_(world),
      setup_(std::move(setup)),
      observer_(std::move(observer)),
      schedule_(make_schedule(setup_.plan)),
      recording_(setup_.directory + "/" + kRecordingFile),
      recorder_(world, setup_.directory,
                [this](const Error& error) {
                  // A run that cannot be recorded proves nothing; leave it, and revert.
                  world_.after(Time(0), [this, error] { fail(error, "recording", ""); });
                }),
      aborts_(world, setup_.plan, [this](const Json& row) { abort(row); }),
      probes_(
          world,
          [this](const std::string& node, Json request, Time deadline, Channel::Reply then) {
            ask(node, std::move(request), deadline, std::move(then));
          },
          [this](const Json& row) { record(row); }) {}

Run::~Run() = default;

void Run::begin_timeline() {
  stage_ = Stage::kTimeline;
  timeline_began_ = true;
  begin_ = world_.now(Clock::kMonotonic) + kHeadStart;
  for (const auto& [name, task] : loads_) tell_go(*task);
  const auto at = [this](double seconds, std::function<void()> task) {
    timers_.push_back(world_.at(Clock::kMonotonic, begin_ + run_seconds(seconds), std::move(task)));
  };
  for (std::size_t i = 0; i < schedule_.phases.size(); ++i) {
    at(schedule_.phases[i].begin_s, [this, i] { begin_phase(i); });
    at(schedule_.phases[i].end_s, [this, i] { end_phase(i, true); });
  }
  for (const PhasePlan& phase : setup_.plan.phases)
    for (const FaultPlanEntry& entry : phase.faults)
      for (const FaultPlanEntry::Part& part : entry.parts) {
        faults_.push_back(
            std::make_unique<FaultRun>(world_, fault_host(), fault_order(entry, part), [this] {
              if (stage_ == Stage::kStopFaults) world_.after(Time(0), [this] { wind_down(); });
            }));
        FaultRun* fault = faults_.back().get();
        const double inject_s = phase.begin_s + entry.at_s;
        at(inject_s - std::chrono::duration<double>(kLookAhead).count(),
           [fault] { fault->look_before(); });
        at(inject_s, [fault] { fault->inject(); });
      }
  at(schedule_.length_s, [this] { finish_loads(); });
}

// The phases that are not over, absolute.
void Run::tell_go(LoadTask& task) {
  Json phases = Json::array();
  for (const PhaseTime& phase : schedule_.loads[task.span].phases)
    if (begin_ + run_seconds(phase.end_s) > world_.now(Clock::kMonotonic))
      phases.push_back(
          {{"name", phase.name},
           {"begin_ns", links_[task.node]->to_node(begin_ + run_seconds(phase.begin_s))},
           {"end_ns", links_[task.node]->to_node(begin_ + run_seconds(phase.end_s))}});
  task.running = true;
  ask(task.node,
      {{"do", "tell"}, {"what", task.name}, {"line", {{"do", "go"}, {"phases", phases}}}}, kAnswer,
      [this, &task, attempt = task.attempt](const Result<Json>& reply) {
        if (reply.ok() || stopping_ || task.attempt != attempt) return;
        if (!lost_rank(task, task.name + " did not hear its go: " + reply.error().message))
          fail(reply.error(), task.name, task.node);
      });
}

void Run::begin_phase(std::size_t index) {
  phase_ = index;
  const PhaseTime& phase = schedule_.phases[index];
  const Time begin = begin_ + run_seconds(phase.begin_s), end = begin_ + run_seconds(phase.end_s);
  record({{"row", "phase"},
          {"name", phase.name},
          {"begin", begin.count()},
          {"settled", (begin_ + run_seconds(phase.settled_s)).count()},
          {"end", end.count()}});
  if (observer_.phase) observer_.phase(phase.name, begin, end);
}

void Run::end_phase(std::size_t index, bool complete) {
  if (phase_ == index) phase_.reset();
  record({{"row", "phase_end"},
          {"name", schedule_.phases[index].name},
          {"at", world_.now(Clock::kMonotonic).count()},
          {"complete", complete}});
}

// The last phase is over; requests in flight may still end, within their own deadline.
void Run::finish_loads() {
  for (const auto& [span, attempt] : attempts_) give_up_attempt(span);
  aborts_.end();
  stage_ = Stage::kFinishLoads;
  double longest_s = 0;
  for (const LoadPlan& load : setup_.plan.loads)
    longest_s = std::max(longest_s, number_at(load.params, "deadline_s"));
  stage_timer_ = world_.after(run_seconds(longest_s) + kLoadGrace, [this] {
    if (stage_ != Stage::kFinishLoads) return;
    for (const auto& [name, task] : loads_)
      if (!task->done)
        record({{"row", "error"},
                {"what", task->load->name},
                {"node", task->node},
                {"code", "timeout"},
                {"message", name + " did not end in time"},
                {"at", world_.now(Clock::kMonotonic).count()}});
    wind_down();
  });
  for (const auto& [name, task] : loads_)
    if (!task->done) return;
  wind_down();
}

void Run::stop(const std::string& why) {
  if (stage_ == Stage::kDone) return;
  if (stopping_) {
    std::vector<std::string> held;
    for (const auto& fault : faults_)
      if (fault->in_effect()) held.push_back(fault->doing());
    return note(held.empty() ? "already stopping; no fault is in effect"
                             : "still " + join(held, ", "));
  }
  stopping_ = true;
  why_ = why;
  note(failure_ ? "stopping" : "stopping: " + why);  // an error has just been told
  if (phase_) end_phase(*phase_, false);
  if (static_cast<int>(stage_) < static_cast<int>(Stage::kStopFaults)) wind_down();
}

// The one way out. Faults first; called again until the last of them has come to an end.
void Run::wind_down() {
  if (static_cast<int>(stage_) > static_cast<int>(Stage::kStopFaults)) return;
  if (stage_ != Stage::kStopFaults) {
    stage_ = Stage::kStopFaults;
    aborts_.end();
    world_.cancel(stage_timer_);
    for (const TimerId timer : timers_) world_.cancel(timer);
    record({{"row", "stop"},
            {"at", world_.now(Clock::kMonotonic).count()},
            {"why", stopping_ ? why_ : "end"}});
    for (const auto& fault : faults_) fault->revert(stopping_ ? why_ : "end of the run");
  }
  for (const auto& fault : faults_)
    if (!fault->finished()) return;
  stop_loads();
}

void Run::stop_loads() {
  stage_ = Stage::kStopLoads;
  waiting_ = 1;
  const auto one_gone = [this](const Result<Json>&) {
    if (--waiting_ == 0) stop_services(setup_.plan.services.size());
  };
  for (const auto& [name, task] : loads_) {
    if (!task->started || task->gone) continue;
    ++waiting_;
    ask(task->node, {{"do", "stop"}, {"what", name}, {"grace_ms", kStopGrace.count() / 1'000'000}},
        kStopGrace + kAnswer, one_gone);
  }
  one_gone(Json());
}

// Last started, first stopped: a proxy goes before what stands behind it.
void Run::stop_services(std::size_t left) {
  stage_ = Stage::kStopServices;
  if (left == 0) return leave_agents();
  const ServicePlan& service = setup_.plan.services[left - 1];
  waiting_ = 1;
  const auto one_gone = [this, left](const Result<Json>&) {
    if (--waiting_ == 0) stop_services(left - 1);
  };
  for (const ServicePlan::Instance& instance : service.instances) {
    if (services_.count(instance.name) == 0) continue;
    ++waiting_;
    ask(instance.node,
        {{"do", "stop"}, {"what", instance.name}, {"grace_ms", kStopGrace.count() / 1'000'000}},
        kStopGrace + kAnswer, one_gone);
  }
  one_gone(Json());
}

void Run::leave_agents() {
  stage_ = Stage::kLeave;
  waiting_ = 1;
  const auto one_gone = [this] {
    if (--waiting_ == 0) world_.after(Time(0), [this] { finish(); });
  };
  for (const auto& [name, link] : links_) {
    ++waiting_;
    link->leave(kLeaveDeadline, one_gone);
  }
  one_gone();
}

void Run::finish() {
  record({{"row", "end"}, {"at", world_.now(Clock::kMonotonic).count()}});
  recorder_.close();
  stage_ = Stage::kDone;
}

void Run::abort(const Json& row) {
  if (stopping_ || stage_ != Stage::kTimeline) return;
  record(row);
  stop("abort " + text_at(row, "abort") + ": " + text_at(row, "detail"));
}

// A signal that ends takes its own checks along, never the run.
void Run::collector_lost(const LoadTask& task, const Error& error) {
  record({{"row", "error"},
          {"what", task.load->name},
          {"node", task.node},
          {"code", code_name(error.code)},
          {"message", error.message},
          {"at", world_.now(Clock::kMonotonic).count()}});
  note("no signals any more: " + error.message);
  if (stage_ != Stage::kFinishLoads) return;
  for (const auto& [name, other] : loads_)
    if (!other->done) return;
  wind_down();
}

void Run::fail(const Error& error, const std::string& what, const std::string& node) {
  record({{"row", "error"},
          {"what", what},
          {"node", node},
          {"code", code_name(error.code)},
          {"message", error.message},
          {"at", world_.now(Clock::kMonotonic).count()}});
  if (!failure_) failure_ = error;
  stop("error: " + error.message);
}

void Run::record(Json row) {
  recorder_.row(row);
  aborts_.row(row);
  if (observer_.row) observer_.row(row);
}

void Run::note(const std::string& text) const {
  if (observer_.note) observer_.note(text);
}

AgentLink* Run::link(const std::string& node) {
  const auto it = links_.find(node);
  return it == links_.end() || !it->second->alive() ? nullptr : it->second.get();
}

void Run::ask(const std::string& node, Json request, Time deadline, Channel::Reply then) {
  AgentLink* found = link(node);
  if (found != nullptr) return found->ask(std::move(request), deadline, std::move(then));
  world_.after(Time(0), [node, then = std::move(then)] {
    then(Error{Code::kPeerLost, node + " is lost"});
  });
}

std::map<std::string, std::vector<std::string>> Run::tasks_by_node() const {
  std::map<std::string, std::vector<std::string>> out;
  for (const auto& [name, node] : services_) out[node].push_back(name);
  for (const auto& [name, task] : loads_)
    if (task->running && !task->done && !task->gone) out[task->node].push_back(name);
  return out;
}

FaultHost Run::fault_host() {
  return {
      .link = [this](const std::string& node) { return link(node); },
      .record = [this](Json row) { record(std::move(row)); },
      .run_probe =
          [this](const std::string& node, const std::string& probe, Json params,
                 const ProbeTargets& targets, ProbeRunner::Rows then) {
            const Time length =
                run_seconds(number_at(params, "window_s") + number_at(params, "deadline_s"));
            probes_.run(node, probe, std::move(params), targets, length + kAnswer, std::move(then));
          },
      .tasks_by_node = [this] { return tasks_by_node(); },
      .new_link = [this](const std::string& node,
                         AgentLink::Events events) { return make_link(node, std::move(events)); }};
}

// "llm[0]" is a service's instance or a load's rank, "train-0" a node; the plan has checked that it
// is there.
FaultOrder Run::fault_order(const FaultPlanEntry& entry, const FaultPlanEntry::Part& part) const {
  FaultOrder order{.entry = entry,
                   .node = part.node,
                   .target = {},
                   .kin = {},
                   .from = part.from,
                   .others = {},
                   .ready_url = {},
                   .run = setup_.id,
                   .lease = run_seconds(setup_.plan.lease_s),
                   .renew_every = run_seconds(setup_.plan.renew_s)};
  for (const ServicePlan& service : setup_.plan.services)
    for (const ServicePlan::Instance& instance : service.instances)
      if (instance.name == entry.target) {
        order.target.tasks = {instance.name};
        if (service.restart == "always")
          order.ready_url = setup_.services.at(instance.name).ready_url;
        order.ready_s = service.ready_s;
      }
  const std::string phase = entry.id.substr(0, entry.id.rfind('/'));
  for (const PhaseTime& time : schedule_.phases)
    if (time.name == phase) order.latest_end = begin_ + run_seconds(time.end_s);
  for (const auto& [name, task] : loads_) {
    const std::vector<PhaseTime>& phases = schedule_.loads[task->span].phases;
    const bool there = std::any_of(phases.begin(), phases.end(),
                                   [&](const PhaseTime& p) { return p.name == phase; });
    if (there && name.substr(0, name.find('#')) == entry.target) {
      order.target.tasks = {name};
      for (const LoadTask* rank : ranks_of(task->span)) order.kin.push_back(rank->name);
    }
  }
  // Between nodes: who takes no part must stay reachable from this one.
  if (!part.from.empty())
    for (const NodePlan& node : setup_.plan.nodes)
      if (!takes_part(entry, node.name)) order.others.push_back(node.name);
  return order;
}

}  // namespace mixproof
