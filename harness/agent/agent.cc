#include "harness/agent/agent.h"

#include <sys/wait.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "harness/agent/recover.h"
#include "harness/base/text.h"

namespace mixproof {
namespace {

constexpr Time kLeaveDeadline = std::chrono::seconds(10);
// Four times as long as a controller waits for us before it gives us up.
constexpr Time kSilenceMax = std::chrono::seconds(20);
constexpr Time kListenEvery = std::chrono::seconds(2);
constexpr Time kRestartDelay = std::chrono::milliseconds(500);
constexpr std::size_t kLogTailBytes = 600;

std::string exit_text(int wait_status) {
  if (WIFSIGNALED(wait_status)) return "signal " + std::to_string(WTERMSIG(wait_status));
  return "exit status " + std::to_string(WEXITSTATUS(wait_status));
}

std::map<std::string, std::string> texts_of(const Json& json, std::string_view key) {
  std::map<std::string, std::string> out;
  if (const Json* object = member(json, key); object != nullptr && object->is_object())
    for (auto it = object->begin(); it != object->end(); ++it)
      if (it.value().is_string()) out[it.key()] = it.value().get<std::string>();
  return out;
}

// "llm[0]" -> "llm.0": a name for files and cgroups.
std::string plain_name(const std::string& what) {
  std::string out;
  for (const char c : what) {
    if (c == '[')
      out += '.';
    else if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.')
      out += c;
    else if (c != ']')
      out += '_';
  }
  return out;
}

std::vector<std::string> words_in(const Json& json, std::string_view key) {
  std::vector<std::string> out;
  if (const Json* words = member(json, key); words != nullptr && words->is_array())
    for (const Json& word : *words)
      if (word.is_string()) out.push_back(word.get<std::string>());
  return out;
}

std::vector<Peer> peers_in(const Json& request, std::string_view key) {
  std::vector<Peer> out;
  if (const Json* peers = member(request, key); peers != nullptr && peers->is_array())
    for (const Json& peer : *peers)
      out.push_back({text_at(peer, "node"), words_in(peer, "addresses")});
  return out;
}

const FaultSpec* fault_named(const std::string& name) {
  for (const FaultSpec* spec : all_faults())
    if (spec->name == name) return spec;
  return nullptr;
}

}  // namespace

struct Agent::Task {
  std::string what;
  bool worker = false, restart = false, stopping = false, said_done = false;
  bool to_be_restarted = false;  // it has ended, and its next start is near
  ChildSpec spec;
  std::string first_line;  // of a worker: its spec
  std::unique_ptr<Child> child;
  std::vector<std::int64_t> waiting;  // stop requests to answer when it is gone
};

struct Agent::Guarded {
  std::unique_ptr<Child> child;
  std::string state;
};

Agent::Agent(World& world, AgentOptions options) : world_(world), options_(std::move(options)) {}
Agent::~Agent() = default;

void Agent::start() {
  world_.listen({.on_line = [this](std::string_view line) { on_line(line); },
                 .on_end = [this] { leave("the controller is gone"); },
                 .on_signal = [this](int signal) { leave("signal " + std::to_string(signal)); }});
  const Result<Json> recovered = recover(false);
  recovered_ = recovered.ok() ? *recovered : Json{{"error", recovered.error().message}};
  const Json handshake = {{"mixproof", "agent"},
                          {"build", options_.build},
                          {"boot_id", world_.boot_id()},
                          {"faults", recovered_}};
  if (!world_.tell_parent(line_of(handshake)).ok()) leave("nobody reads");
  heard_ = world_.now(Clock::kMonotonic);
  check_heard();
}

void Agent::check_heard() {
  if (leaving_) return;
  if (world_.now(Clock::kMonotonic) - heard_ > kSilenceMax)
    return leave("the controller says nothing");
  world_.after(kListenEvery, [this] { check_heard(); });
}

void Agent::on_line(std::string_view line) {
  heard_ = world_.now(Clock::kMonotonic);
  const Result<Json> request = parse_json(line, "request");
  if (!request.ok()) return event({{"event", "note"}, {"message", request.error().message}});
  const std::int64_t id = integer_at(*request, "id");
  const std::string order = text_at(*request, "do");
  if (order == "stop") return stop_task(*request);  // answered when the task is gone
  reply(id, handle(order, *request));
  if (order == "bye") leave("bye");
}

Result<Json> Agent::handle(const std::string& order, const Json& request) {
  if (order == "hello") return hello(request);
  if (order == "ping") return Json{{"mono_ns", world_.now(Clock::kMonotonic).count()}};
  if (leaving_) return Error{Code::kPeerLost, "the agent is leaving"};
  if (order == "start") return start_task(request);
  if (order == "tell") return tell_task(request);
  if (order == "addresses") {
    const std::vector<std::string> addresses = TRY(world_.host().addresses());
    return Json{{"addresses", addresses}};
  }
  if (order == "plan_fault") {
    const FaultPlan plan = TRY(plan_fault(request));
    TRY(check_steps(plan));
    return fault_plan_to_json(plan);
  }
  if (order == "inject") return inject(request);
  if (order == "renew" || order == "revert") return order_guard(request, order);
  if (order == "faults") return recover(false);
  if (order == "recover") return recover(true);
  if (order == "bye") return Json::object();
  return Error{Code::kInvalid, "unknown request '" + order + "'"};
}

// {run, node, cgroup} -> {faults: [...]}: cgroup is where this run's groups go.
Result<Json> Agent::hello(const Json& request) {
  run_ = text_at(request, "run");
  node_ = text_at(request, "node");
  cgroup_ = text_at(request, "cgroup");
  directory_ = options_.state_dir + "/runs/" + plain_name(run_);
  TRY(world_.files().make_directories(directory_ + "/logs"));
  return Json{{"faults", recovered_}};
}

// "resolve": {tasks, pids} whose processes a probe is to look at; they become its parameter
// "processes".
Status Agent::resolve_processes(const Json& request, Json& spec) const {
  const Json* resolve = member(request, "resolve");
  if (resolve == nullptr) return ok();
  Json processes = Json::array();
  const auto add = [&processes](const std::string& name, const ProcessId& process) {
    Json one = process_to_json(process);
    one["name"] = name;
    processes.push_back(std::move(one));
  };
  if (const Json* names = member(*resolve, "tasks"))
    for (const Json& entry : *names) {
      const std::string name = entry.is_string() ? entry.get<std::string>() : "";
      const auto it = tasks_.find(name);
      if (it == tasks_.end())
        return Error{Code::kUnavailable, name + " is not running on " + node_};
      for (const ProcessId& process : processes_of(*it->second)) add(name, process);
    }
  if (const Json* pids = member(*resolve, "pids"))
    for (const Json& entry : *pids) {
      const int pid = entry.is_number_integer() ? entry.get<int>() : 0;
      const ProcessId process = TRY(world_.host().identify(pid));
      add("process " + std::to_string(pid), process);
    }
  spec["params"]["processes"] = std::move(processes);
  return ok();
}

// {what, kind: worker | service, argv, env{}, files{name: text}, cpus, restart, grouped, spec{},
// resolve{}} -> {pid}
Result<Json> Agent::start_task(const Json& request) {
  const std::string what = text_at(request, "what");
  if (what.empty() || directory_.empty())
    return Error{Code::kInvalid, "start without name or hello"};
  if (tasks_.count(what) != 0) return Error{Code::kInvalid, what + " is already running"};
  auto task = std::make_unique<Task>();
  task->what = what;
  task->worker = text_at(request, "kind") == "worker";
  task->restart = flag_at(request, "restart");
  ChildSpec& spec = task->spec;
  spec.environment = texts_of(request, "env");
  spec.cpus = text_at(request, "cpus");
  if (flag_at(request, "grouped", true) && !cgroup_.empty())
    spec.cgroup = cgroup_ + "/" + plain_name(what);
  spec.log = directory_ + "/logs/" + plain_name(what) + ".log";
  spec.lines = task->worker;
  const std::string work = directory_ + "/" + plain_name(what);
  if (task->worker) {
    spec.argv = {options_.program, "worker"};
    const Json* worker_spec = member(request, "spec");
    if (worker_spec == nullptr) return Error{Code::kInvalid, "worker without spec"};
    Json resolved = *worker_spec;
    TRY(resolve_processes(request, resolved));
    task->first_line = line_of({{"worker", resolved}});
  } else {
    TRY(world_.files().make_directories(work));
    for (const auto& [name, content] : texts_of(request, "files"))
      TRY(world_.files().replace(work + "/" + plain_name(name), content));
    const Json* argv = member(request, "argv");
    if (argv == nullptr || !argv->is_array() || argv->empty())
      return Error{Code::kInvalid, "service without argv"};
    for (const Json& word : *argv)
      spec.argv.push_back(word.is_string() ? word.get<std::string>() : "");
    for (std::string& word : spec.argv) word = replace_all(word, "{dir}", work);
    for (auto& [name, value] : spec.environment) value = replace_all(value, "{dir}", work);
  }
  TRY(spawn_task(*task));
  const int pid = task->child->id().pid;
  tasks_[what] = std::move(task);
  return Json{{"pid", pid}};
}

Status Agent::spawn_task(Task& task) {
  const std::string what = task.what;
  task.child = TRY(world_.spawn(
      task.spec, {.on_line = [this, what](std::string_view line) { task_line(what, line); },
                  .on_exit = [this, what](int status) { task_exit(what, status); }}));
  task.to_be_restarted = false;
  if (task.worker) return task.child->send(task.first_line);
  return ok();
}

// {what, line{}}: a line for a worker.
Result<Json> Agent::tell_task(const Json& request) {
  const auto it = tasks_.find(text_at(request, "what"));
  const Json* line = member(request, "line");
  if (it == tasks_.end() || line == nullptr)
    return Error{Code::kUnavailable, text_at(request, "what") + " is not running"};
  TRY(it->second->child->send(line_of(*line)));
  return Json::object();
}

// {what, grace_ms}: answered when it has ended; a task that is not there has ended.
void Agent::stop_task(const Json& request) {
  const std::int64_t id = integer_at(request, "id");
  const auto it = tasks_.find(text_at(request, "what"));
  if (it == tasks_.end()) return reply(id, Json::object());
  it->second->waiting.push_back(id);
  begin_stop(*it->second, std::chrono::milliseconds(integer_at(request, "grace_ms", 2000)));
}

void Agent::begin_stop(Task& task, Time grace) {
  if (task.stopping) return;
  task.stopping = true;
  if (task.to_be_restarted) return forget_task(task.what);
  if (task.worker && task.child->send(line_of({{"do", "stop"}})).ok())
    task.child->close_input();
  else
    task.child->kill(SIGTERM);
  const std::string what = task.what;
  world_.after(grace, [this, what] {
    const auto it = tasks_.find(what);
    if (it != tasks_.end() && it->second->stopping) it->second->child->kill(SIGKILL);
  });
}

// A worker's line: {"row"}, {"ready", "info"}, {"failed"}, {"gather", "blob"}, {"done", "check"}.
void Agent::task_line(const std::string& what, std::string_view line) {
  Result<Json> message = parse_json(line, what);
  const auto it = tasks_.find(what);
  if (!message.ok() || !message->is_object() || it == tasks_.end())
    return event({{"event", "note"}, {"message", what + " wrote a line that is not ours"}});
  for (const char* kind : {"row", "ready", "failed", "gather", "done"})
    if (message->contains(kind)) {
      if (std::string_view(kind) == "done" || std::string_view(kind) == "failed")
        it->second->said_done = true;
      (*message)["event"] = kind;
      (*message)["what"] = what;
      return event(std::move(*message));
    }
}

void Agent::task_exit(const std::string& what, int wait_status) {
  const auto it = tasks_.find(what);
  if (it == tasks_.end()) return;
  Task& task = *it->second;
  if (!task.spec.cgroup.empty()) {
    // Whatever it left running goes with it.
    const Status cleared = world_.clear_cgroup(task.spec.cgroup);
    if (!cleared.ok())
      event({{"event", "note"}, {"message", what + ": " + cleared.error().message}});
  }
  const bool expected = task.stopping || (task.worker && task.said_done);
  event({{"event", "exit"},
         {"what", what},
         {"at_ns", world_.now(Clock::kMonotonic).count()},
         {"status", exit_text(wait_status)},
         {"code", WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1},
         {"expected", expected},
         {"log", expected ? "" : log_tail(task)}});
  if (!task.restart || task.stopping || leaving_) return forget_task(what);
  task.to_be_restarted = true;
  world_.after(kRestartDelay, [this, what] {
    const auto again = tasks_.find(what);
    if (again == tasks_.end() || !again->second->to_be_restarted) return;
    const Status spawned = spawn_task(*again->second);
    if (!spawned.ok()) {
      event({{"event", "note"},
             {"message", what + " cannot be restarted: " + spawned.error().message}});
      tasks_.erase(again);
      return;
    }
    event({{"event", "restart"}, {"what", what}, {"at_ns", world_.now(Clock::kMonotonic).count()}});
  });
}

// It has ended for good.
void Agent::forget_task(const std::string& what) {
  const std::unique_ptr<Task> task = std::move(tasks_.extract(what).mapped());
  for (const std::int64_t id : task->waiting) reply(id, Json::object());
  check_left();
}

std::string Agent::log_tail(const Task& task) {
  const Result<std::string> text = world_.files().read(task.spec.log);
  if (!text.ok()) return "";
  return text->size() > kLogTailBytes ? text->substr(text->size() - kLogTailBytes) : *text;
}

std::vector<ProcessId> Agent::processes_of(const Task& task) const {
  std::vector<ProcessId> out;
  if (!task.spec.cgroup.empty())
    for (const int pid : world_.host().members(task.spec.cgroup)) {
      const Result<ProcessId> id = world_.host().identify(pid);
      if (id.ok()) out.push_back(*id);
    }
  if (out.empty() && task.child && task.child->id().start_ticks != 0)
    out.push_back(task.child->id());
  return out;
}

// {fault_id, fault, params{}, target: words, what: [names], pids: [..], from: [{node, addresses}],
// others: [{node, addresses}]} -> the plan; also what `inject` takes.
Result<FaultPlan> Agent::plan_fault(const Json& request) {
  const FaultSpec* spec = fault_named(text_at(request, "fault"));
  if (spec == nullptr)
    return Error{Code::kInvalid, "unknown fault '" + text_at(request, "fault") + "'"};
  const std::unique_ptr<Fault> fault = spec->create();
  const Json* params = member(request, "params");
  TRY(read_params(params == nullptr ? Json::object() : *params, fault->params()));
  Target target;
  target.words = text_at(request, "target");
  if (spec->hits == Hits::kProcesses) TRY(find_processes(request, target));
  target.from = peers_in(request, "from");
  target.others = peers_in(request, "others");
  // Names of what a fault makes are short and of plain letters, whatever runs and faults are
  // called.
  target.mark = std::string(kMarkPrefix) +
                sha256_hex(run_ + "/" + node_ + "/" + text_at(request, "fault_id")).substr(0, 16);
  target.kept_out = {"/", options_.state_dir};
  target.controller_address = options_.controller_address;
  target.controller_port = options_.controller_port;
  return fault->plan(world_.host(), target);
}

// Whether this node can do it, asked of those who would: a dry run says so. The guard asks again.
Status Agent::check_steps(const FaultPlan& plan) {
  for (const Step& step : plan.steps)
    TRY(options_.operators(step.operation).preimage(step.operation));
  return ok();
}

Status Agent::find_processes(const Json& request, Target& target) const {
  if (const Json* names = member(request, "what"); names != nullptr)
    for (const Json& name : *names) {
      const auto it = tasks_.find(name.is_string() ? name.get<std::string>() : "");
      if (it == tasks_.end())
        return Error{Code::kUnavailable, target.words + " is not running on " + node_};
      const std::vector<ProcessId> processes = processes_of(*it->second);
      target.processes.insert(target.processes.end(), processes.begin(), processes.end());
    }
  if (const Json* pids = member(request, "pids"); pids != nullptr)
    for (const Json& pid : *pids) {
      const ProcessId id =
          TRY(world_.host().identify(pid.is_number_integer() ? pid.get<int>() : 0));
      target.processes.push_back(id);
    }
  const std::set<int> kept = TRY(lifeline());
  for (const ProcessId& process : target.processes)
    if (process.pid <= 1 || kept.count(process.pid) != 0)
      return Error{Code::kInvalid, "process " + std::to_string(process.pid) +
                                       " is protected: it is the node's first, this agent, or one "
                                       "that this agent lives through"};
  if (target.processes.empty())
    return Error{Code::kInvalid, target.words + " resolves to no process"};
  return ok();
}

// We and all that we live through: shells, the sshd of our connection, the one that listens. No
// fault may hit them. When it cannot be told who they are, nothing is hit.
Result<std::set<int>> Agent::lifeline() const {
  std::set<int> out;
  for (int pid = world_.self().pid; pid > 0 && out.insert(pid).second;)
    pid = TRY(world_.host().parent(pid));
  return out;
}

// {id: fault id, ..., lease_ms} -> {plan}; its states follow as events.
Result<Json> Agent::inject(const Json& request) {
  const std::string id = text_at(request, "fault_id");
  if (id.empty() || guards_.count(id) != 0)
    return Error{Code::kInvalid, "fault id is empty or in use"};
  const std::vector<FaultOnNode> faults = TRY(survey_faults(world_, options_.state_dir));
  for (const FaultOnNode& other : faults)
    if (!other.resolved())
      return Error{Code::kRefused, "fault " + other.journal.fault + " of run " + other.journal.run +
                                       " on this node is not "
                                       "resolved (" +
                                       (other.guarded ? "in effect" : "dirty") +
                                       "); see `mixproof fault recover`"};
  for (const auto& [mark, stray] : strays_)
    if (!stray.resolved())
      return Error{Code::kRefused,
                   "something of ours is left on this node: " + stray.journal.reason +
                       stray.unreadable + "; see `mixproof fault recover`"};
  const FaultPlan plan = TRY(plan_fault(request));
  const Json plan_json = fault_plan_to_json(plan);
  auto guarded = std::make_unique<Guarded>();
  ChildSpec spec;
  spec.argv = {options_.program, "guard"};
  spec.log = directory_ + "/logs/guard.log";
  spec.outlives_parent = true;
  spec.cgroup = guard_cgroup(id);
  guarded->child = TRY(
      world_.spawn(spec, {.on_line = [this, id](std::string_view line) { guard_line(id, line); },
                          .on_exit = [this, id](int) { guard_exit(id); }}));
  const Json order = {{"run", run_},          {"fault", id},
                      {"node", node_},        {"state_dir", options_.state_dir},
                      {"plan", plan_json},    {"lease_ms", integer_at(request, "lease_ms")},
                      {"cgroup", spec.cgroup}};
  Child& child = *guarded->child;
  guards_[id] = std::move(guarded);
  TRY(child.send(line_of({{"guard", order}})));
  return Json{{"plan", plan_json}};
}

// Unlike any other, now and later: whoever recovers the fault clears it.
std::string Agent::guard_cgroup(const std::string& fault) const {
  return cgroup_.empty() ? "" : cgroup_ + "/guard." + plain_name(run_ + "." + fault);
}

Result<Json> Agent::order_guard(const Json& request, const std::string& order) {
  const auto it = guards_.find(text_at(request, "fault_id"));
  if (it == guards_.end() || !it->second->child)
    return Error{Code::kUnavailable, "no such fault in effect"};
  TRY(it->second->child->send(line_of({{"do", order},
                                       {"lease_ms", integer_at(request, "lease_ms")},
                                       {"why", text_at(request, "why", "ordered")}})));
  return Json::object();
}

void Agent::guard_line(const std::string& fault, std::string_view line) {
  Result<Json> message = parse_json(line, "guard of " + fault);
  if (!message.ok() || !message->is_object()) return;
  const auto it = guards_.find(fault);
  if (it != guards_.end()) it->second->state = text_at(*message, "state");
  (*message)["event"] = "fault";
  event(std::move(*message));
}

void Agent::guard_exit(const std::string& fault) {
  const auto it = guards_.find(fault);
  if (it == guards_.end()) return;
  const std::string state = it->second->state;
  it->second->child.reset();
  if (!cgroup_.empty()) static_cast<void>(world_.clear_cgroup(guard_cgroup(fault)));
  if (state != "clean" && state != "dirty" && state != "refused") {
    // The guard died with its fault on: its journal says what to undo.
    event({{"event", "fault"},
           {"fault", fault},
           {"state", "guard_lost"},
           {"at_ns", world_.now(Clock::kMonotonic).count()},
           {"detail", "after '" + state + "'"}});
    const Result<std::vector<FaultOnNode>> faults = recover_all();
    // Without a journal nothing was done: it comes before every effect.
    std::string outcome = faults.ok() ? "refused" : "dirty";
    std::string detail = faults.ok() ? "its guard ended before it began" : faults.error().message;
    if (faults.ok())
      for (const FaultOnNode& one : *faults)
        if (one.path == journal_path(options_.state_dir, run_, fault)) {
          outcome = one.resolved() ? "clean" : "dirty";
          detail =
              one.resolved() ? "proved after the guard died" : one.journal.reason + one.unreadable;
        }
    event({{"event", "fault"},
           {"fault", fault},
           {"state", outcome},
           {"at_ns", world_.now(Clock::kMonotonic).count()},
           {"detail", detail}});
  }
  check_left();
}

Result<Json> Agent::recover(bool end_guarded) {
  const std::vector<FaultOnNode> faults = TRY(recover_all());
  if (end_guarded) end_guarded_faults(world_, faults);
  Json out = Json::array();
  for (const FaultOnNode& fault : faults) out.push_back(fault_on_node_to_json(fault));
  return Json{{"faults", out}};
}

// What was found without a journal is gone at the next look, when it could be undone; whoever asks
// later hears of it all the same.
Result<std::vector<FaultOnNode>> Agent::recover_all() {
  std::vector<FaultOnNode> faults =
      TRY(recover_faults(world_, options_.state_dir, options_.operators));
  std::map<std::string, FaultOnNode> now;
  for (const FaultOnNode& fault : faults)
    if (fault.path.empty()) now[fault.journal.fault] = fault;
  for (auto& [mark, stray] : strays_) {
    if (now.count(mark) != 0) continue;
    if (stray.resolved()) faults.push_back(stray);
    if (stray.resolved()) now[mark] = stray;
  }
  strays_ = std::move(now);
  return faults;
}

// Faults first, then the rest; gone when all have ended or the deadline is over (guards go on by
// themselves).
void Agent::leave(const std::string& why) {
  if (leaving_) return;
  leaving_ = true;
  for (auto& [id, guarded] : guards_)
    if (guarded->child)
      static_cast<void>(guarded->child->send(line_of({{"do", "revert"}, {"why", why}})));
  std::vector<Task*> tasks;  // stopping may forget one
  for (auto& [what, task] : tasks_) tasks.push_back(task.get());
  for (Task* task : tasks) begin_stop(*task, std::chrono::seconds(2));
  world_.after(kLeaveDeadline, [this] { done_ = true; });
  check_left();
}

void Agent::check_left() {
  if (!leaving_) return;
  bool guarded = false;
  for (const auto& [id, guard] : guards_) guarded = guarded || guard->child != nullptr;
  if (!tasks_.empty() || guarded) return;
  done_ = true;
  // A group that carries the run's name is the run's alone and goes with it.
  if (("/" + cgroup_ + "/").find("/" + run_ + "/") != std::string::npos)
    world_.drop_cgroup(cgroup_);
}

void Agent::reply(std::int64_t id, const Result<Json>& result) {
  Json message = {{"re", id}};
  if (result.ok())
    message["ok"] = *result;
  else
    message["error"] = error_to_json(result.error());
  // A controller that is gone shows as end of input; what it would have heard is in journals and
  // logs.
  static_cast<void>(world_.tell_parent(line_of(message)));
}

void Agent::event(Json message) { static_cast<void>(world_.tell_parent(line_of(message))); }

}  // namespace mixproof
