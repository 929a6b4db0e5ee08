#include "tests/simulation/simulation.h"

#include <algorithm>
#include <csignal>

#include "harness/base/check.h"

namespace mixproof {
namespace {

constexpr const char* kPrograms[] = {"agent", "guard", "worker"};

class SimFiles final : public Files {
 public:
  SimFiles(SimNode& node, int pid, std::function<bool(int)> lives, std::function<void(int)> kill)
      : node_(node), pid_(pid), lives_(std::move(lives)), kill_(std::move(kill)) {}
  Status make_directories(const std::string&) override { return ok(); }
  Status append(const std::string& path, std::string_view bytes) override {
    return append_synced(path, bytes);
  }
  Status append_synced(const std::string& path, std::string_view bytes) override {
    bytes = TRY(what_is_written(path, bytes));
    if (!bytes.empty()) node_.files[path].append(bytes);
    return ok();
  }
  Status replace(const std::string& path, std::string_view bytes) override {
    TRY(what_is_written(path, bytes));
    if (lives_(pid_)) node_.files[path] = bytes;  // else the new file was not yet renamed
    return ok();
  }
  Status remove(const std::string& path) override {
    node_.files.erase(path);
    return ok();
  }
  Result<std::string> read(const std::string& path) override {
    const auto it = node_.files.find(path);
    if (it == node_.files.end())
      return Error{Code::kSystem, "open " + path + ": No such file or directory"};
    return it->second;
  }
  Result<std::vector<std::string>> list(const std::string& directory) override {
    std::vector<std::string> names;
    for (const auto& [path, bytes] : node_.files)
      if (path.size() > directory.size() + 1 &&
          path.compare(0, directory.size() + 1, directory + "/") == 0 &&
          path.find('/', directory.size() + 1) == std::string::npos)
        names.push_back(path.substr(directory.size() + 1));
    return names;
  }
  Result<bool> try_lock(const std::string& path) override {
    const auto it = node_.locks.find(path);
    if (it != node_.locks.end() && it->second != pid_ && lives_(it->second)) return false;
    node_.locks[path] = pid_;
    return true;
  }

 private:
  // The code of a killed process runs on to its next return in here, but nothing that it does
  // counts.
  Result<std::string_view> what_is_written(const std::string& path, std::string_view bytes) {
    if (!lives_(pid_)) return Error{Code::kSystem, "the writer is dead"};
    if (node_.disk_full) return Error{Code::kSystem, "write " + path + ": No space left on device"};
    const std::optional<std::size_t> written =
        node_.kill_in_write ? node_.kill_in_write(path, bytes) : std::nullopt;
    if (!written) return bytes;
    kill_(pid_);
    return bytes.substr(0, *written);
  }

  SimNode& node_;
  int pid_;
  std::function<bool(int)> lives_;
  std::function<void(int)> kill_;
};

}  // namespace

class SimHost final : public HostView {
 public:
  SimHost(Simulation& simulation, SimNode& node) : simulation_(simulation), node_(node) {}
  Result<ProcessId> identify(int pid) const override {
    for (SimProcess* process : simulation_.living(node_.name))
      if (process->pid() == pid) return process->self();
    return Error{Code::kUnavailable, "no such process"};
  }
  // Whoever has no living parent on its node is a child of the node's init.
  Result<int> parent(int pid) const override {
    if (pid == 1) return 0;
    for (SimProcess* process : simulation_.living(node_.name)) {
      if (process->pid() != pid) continue;
      const SimProcess* above = process->parent_;
      return above != nullptr && above->alive_ && &above->node_ == &node_ ? above->pid() : 1;
    }
    return Error{Code::kUnavailable, "no such process"};
  }
  Result<std::vector<ThreadState>> threads(const ProcessId& id) const override {
    for (SimProcess* process : simulation_.living(node_.name))
      if (process->self() == id) {
        const bool held = simulation_.stopped(id.pid);
        // A model that moves is switched a hundred times a second.
        const auto switches = static_cast<std::uint64_t>(simulation_.now().count() / 10'000'000);
        return std::vector<ThreadState>{
            {id.pid, held ? 't' : 'S', held ? process->tracer_ : 0, switches}};
      }
    return Error{Code::kUnavailable, "no such process"};
  }
  std::vector<int> members(const std::string& cgroup) const override {
    std::vector<int> pids;
    for (SimProcess* process : simulation_.living(node_.name))
      if (process->cgroup() == cgroup) pids.push_back(process->pid());
    return pids;
  }
  Result<FileSystem> file_system(const std::string& directory) const override {
    if (directory == kSimShared)
      return FileSystem{
          .device = 2, .bytes = kSimSharedBytes, .free_bytes = simulation_.shared_free(node_)};
    return FileSystem{.device = 1, .bytes = 1 << 30, .free_bytes = 1 << 29};
  }
  Result<std::uint64_t> net_namespace() const override { return 4026531840; }
  Result<std::vector<std::string>> addresses() const override {
    return std::vector<std::string>{node_.address};
  }

 private:
  Simulation& simulation_;
  SimNode& node_;
};

class SimChild final : public Child {
 public:
  SimChild(SimProcess& parent, SimProcess& child) : parent_(parent), child_(child) {}
  ~SimChild() override {
    parent_.children_.erase(child_.pid());
    close_input();
  }
  Status send(std::string_view line) override {
    if (!child_.alive()) return Error{Code::kPeerLost, "the other side is gone"};
    parent_.to_child(child_, [text = std::string(line)](ParentEvents& events) {
      if (events.on_line) events.on_line(text);
    });
    return ok();
  }
  void close_input() override {
    if (std::exchange(child_.input_ended_, true)) return;
    parent_.to_child(child_, [](ParentEvents& events) {
      if (events.on_end) events.on_end();
    });
  }
  void kill(int signal) override { child_.deliver_signal(signal); }
  ProcessId id() const override { return child_.self(); }

 private:
  SimProcess& parent_;
  SimProcess& child_;
};

Simulation::Simulation(std::uint64_t seed) : random_(seed) {}
Simulation::~Simulation() {
  // Roles hold children of other processes: let them go before the processes.
  for (auto& process : processes_) process->alive_ = false;
  for (auto& process : processes_) process->role_.reset();
}

SimNode& Simulation::add_node(const std::string& name) {
  auto node = std::make_unique<SimNode>();
  node->name = name;
  node->address = "10.9.0." + std::to_string(nodes_.size() + 1);
  node->mono_offset = std::chrono::milliseconds(random_.below(10'000'000));
  node->boot_offset = std::chrono::milliseconds(random_.below(10'000'000));
  return *(nodes_[name] = std::move(node));
}

SimProcess& Simulation::start_root(const std::string& node, const std::string& program) {
  return start(node, program, nullptr);
}

SimProcess& Simulation::start(const std::string& node, const std::string& program,
                              SimProcess* parent) {
  processes_.push_back(
      std::make_unique<SimProcess>(*this, *nodes_.at(node), program, next_pid_++, parent));
  return *processes_.back();
}

void Simulation::at(Time when, std::function<void()> task) {
  events_.emplace(std::max(when, now_), Event{next_order_++, std::move(task)});
}

bool Simulation::run_until(const std::function<bool()>& done, Time limit) {
  while (!done()) {
    if (events_.empty() || events_.begin()->first > limit) {
      now_ = std::max(now_, limit);
      return false;
    }
    now_ = events_.begin()->first;
    const Event event = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    event.task();
    reap();
  }
  return true;
}

void Simulation::reap() {
  for (std::size_t i = 0; i < processes_.size(); ++i)
    if (processes_[i]->alive_ && processes_[i]->role_ && processes_[i]->role_->done())
      processes_[i]->die(0);
}

void Simulation::kill(int pid) {
  for (std::size_t i = 0; i < processes_.size(); ++i)
    if (processes_[i]->pid() == pid) processes_[i]->die(SIGKILL);
}

SimProcess* Simulation::find(const std::string& program, const std::string& node) {
  SimProcess* found = nullptr;
  for (SimProcess* process : living(node))
    if (process->program() == program) found = process;
  return found;
}

std::vector<SimProcess*> Simulation::living(const std::string& node) const {
  std::vector<SimProcess*> out;
  for (const auto& process : processes_)
    if (process->alive() && process->node().name == node) out.push_back(process.get());
  return out;
}

bool Simulation::stopped(int pid) const {
  const SimProcess* target = nullptr;
  for (const auto& process : processes_)
    if (process->pid() == pid) target = process.get();
  if (target == nullptr || target->tracer_ == 0) return false;
  if (target->node_.hold_outlives_guard) return true;
  for (const auto& process : processes_)
    if (process->pid() == target->tracer_)
      return process->alive();  // the kernel lets go when the tracer dies
  return false;
}

std::int64_t Simulation::shared_free(const SimNode& node) const {
  std::int64_t free = kSimSharedBytes - node.shared_used;
  for (const SimProcess* process : living(node.name))
    if (const auto fill = node.fills.find(process->pid()); fill != node.fills.end())
      free -= fill->second;
  return free;
}

bool Simulation::in_effect(const SimNode& node, const SimDrop& drop) const {
  bool held = !node.tables_have_owners;
  for (const auto& process : processes_)
    held = held || (process->pid() == drop.holder && process->alive());
  return held && now_ < drop.end;
}

// The share of packets from there that gets through.
double Simulation::passes(SimNode& at, const std::string& from_address) {
  double share = 1;
  for (auto& [table, one] : at.drops) {
    const auto& from = one.drop.from;
    const bool matches = std::find(from.begin(), from.end(), from_address) != from.end();
    if (!matches || at.rules_are_shadowed || !in_effect(at, one)) continue;
    one.packets += 20;
    share *= 1 - one.drop.share;
  }
  return share;
}

double Simulation::answered(const std::string& from, const std::string& to_address) {
  for (auto& [name, other] : nodes_)
    if (other->address == to_address)
      return passes(*other, nodes_.at(from)->address) * passes(*nodes_.at(from), to_address);
  return 0;
}

SimProcess::SimProcess(Simulation& simulation, SimNode& node, std::string program, int pid,
                       SimProcess* parent)
    : simulation_(simulation),
      node_(node),
      program_(std::move(program)),
      pid_(pid),
      parent_(parent),
      files_(std::make_unique<SimFiles>(
          node, pid,
          [&simulation](int holder) {
            for (const auto& process : simulation.processes_)
              if (process->pid() == holder) return process->alive();
            return false;
          },
          [&simulation](int victim) { simulation.kill(victim); })),
      host_(std::make_unique<SimHost>(simulation, node)) {}

SimProcess::~SimProcess() = default;

Time SimProcess::now(Clock clock) {
  if (clock == Clock::kUtc) return simulation_.now() + std::chrono::hours(24 * 365 * 50);
  return simulation_.now() + (clock == Clock::kBoottime ? node_.boot_offset : node_.mono_offset);
}

TimerId SimProcess::at(Clock clock, Time when, std::function<void()> task) {
  const TimerId id = next_timer_++;
  const Time offset = clock == Clock::kBoottime ? node_.boot_offset : node_.mono_offset;
  simulation_.at(when - offset, [this, id, task = std::move(task)] {
    if (alive_ && cancelled_.erase(id) == 0) task();
  });
  return id;
}

bool SimProcess::line_is_cut(const SimProcess& other) const {
  return &node_ != &other.node_ && (node_.cut || other.node_.cut);
}

void SimProcess::to_child(SimProcess& child, std::function<void(ParentEvents&)> what) {
  const Time delay = std::chrono::microseconds(20 + simulation_.random_.below(400));
  const Time when = std::max(simulation_.now() + delay, child.last_down_ + Time(1));
  child.last_down_ = when;
  simulation_.at(when, [this, &child, what = std::move(what)] {
    if (child.alive_ && !line_is_cut(child)) what(child.parent_events_);
  });
}

void SimProcess::to_parent(std::function<void(ChildEvents&)> what) {
  if (parent_ == nullptr) return;
  const Time delay = std::chrono::microseconds(20 + simulation_.random_.below(400));
  const Time when = std::max(simulation_.now() + delay, last_up_ + Time(1));
  last_up_ = when;
  simulation_.at(when, [this, what = std::move(what)] {
    if (!parent_->alive_ || line_is_cut(*parent_)) return;
    const auto it = parent_->children_.find(pid_);
    if (it == parent_->children_.end()) return;
    ChildEvents events = it->second;  // a callback may forget the child
    what(events);
  });
}

Result<std::unique_ptr<Child>> SimProcess::spawn(const ChildSpec& spec, ChildEvents events) {
  std::string program = spec.argv.front(), where = node_.name;
  for (const std::string& word : spec.argv)
    for (const char* role : kPrograms)
      if (word == role) program = role;
  // A transport's prefix in the simulation is the word "on" and the node's name.
  if (spec.argv.front() == "on") where = spec.argv.at(1);
  SimProcess& child = simulation_.start(where, program, this);
  child.cgroup_ = spec.cgroup;
  child.outlives_parent_ = spec.outlives_parent || program == "agent";
  children_[child.pid()] = std::move(events);
  // It begins after the call returns, as a real one does.
  simulation_.at(simulation_.now() + std::chrono::microseconds(100), [&child, program] {
    if (child.alive_) start_role(child, program);
  });
  child.last_down_ = simulation_.now() + std::chrono::microseconds(100);
  return std::unique_ptr<Child>(std::make_unique<SimChild>(*this, child));
}

Status SimProcess::tell_parent(std::string_view line) {
  if (!alive_ || parent_ == nullptr || !parent_->alive_)
    return Error{Code::kPeerLost, "nobody reads"};
  to_parent([text = std::string(line)](ChildEvents& events) {
    if (events.on_line) events.on_line(text);
  });
  return ok();
}

Status SimProcess::signal(const ProcessId& process, int signal) {
  for (SimProcess* other : simulation_.living(node_.name))
    if (other->self() == process) {
      other->deliver_signal(signal);
      return ok();
    }
  return Error{Code::kUnavailable, "the process is gone"};
}

void SimProcess::deliver_signal(int signal) {
  if (!alive_) return;
  if (signal == SIGKILL || (!parent_events_.on_signal && !simulation_.stopped(pid_)))
    return die(signal);
  if (parent_events_.on_signal) parent_events_.on_signal(signal);
}

Status SimProcess::clear_cgroup(const std::string& cgroup) {
  for (SimProcess* process : simulation_.living(node_.name))
    if (process->cgroup() == cgroup) process->die(SIGKILL);
  return ok();
}

void SimProcess::die(int wait_status) {
  if (!alive_) return;
  to_parent([wait_status](ChildEvents& events) {
    if (events.on_exit) events.on_exit(wait_status);
  });
  alive_ = false;
  for (const auto& process : simulation_.processes_) {
    if (process->parent_ != this || !process->alive_) continue;
    if (!process->outlives_parent_) {
      process->die(SIGKILL);
    } else if (!std::exchange(process->input_ended_, true)) {
      to_child(*process, [](ParentEvents& events) {
        if (events.on_end) events.on_end();
      });
    }
  }
}

// The operator of the simulated pause.
class SimHold final : public HostOperator {
 public:
  explicit SimHold(SimProcess& guard) : guard_(guard) {}
  Result<std::string> preimage(const HostOperation& operation) override {
    TRY(find(operation));
    return std::string("1 thread, not traced");
  }
  Status apply(const HostOperation& operation, std::chrono::nanoseconds) override {
    if (!guard_.alive()) return Error{Code::kSystem, "the guard is dead"};
    SimProcess* target = TRY(find(operation));
    target->tracer_ = guard_.pid();
    return ok();
  }
  Status undo(const HostOperation& operation, const std::string&) override {
    if (!guard_.alive()) return Error{Code::kSystem, "the guard is dead"};
    const int pid = std::get<HoldStopped>(operation).process.pid;
    if (guard_.node().undo_fails || guard_.node().undo_fails_for.count(pid) != 0)
      return Error{Code::kSystem, "let go: Operation not permitted"};
    const Result<SimProcess*> target = find(operation);
    const bool ours =
        target.ok() && ((*target)->tracer_ == guard_.pid() || guard_.node().hold_outlives_guard);
    if (ours && !guard_.node().undo_lies) (*target)->tracer_ = 0;
    return ok();
  }
  Status verify_undone(const HostOperation& operation) override {
    const Result<SimProcess*> target = find(operation);
    if (target.ok() && guard_.simulation().stopped((*target)->pid()))
      return Error{Code::kConflict, "the process is still in a tracing stop"};
    return ok();
  }

 private:
  Result<SimProcess*> find(const HostOperation& operation) const {
    for (SimProcess* process : guard_.simulation().living(guard_.node().name))
      if (process->self() == std::get<HoldStopped>(operation).process) return process;
    return Error{Code::kUnavailable, "the process is gone"};
  }
  SimProcess& guard_;
};

// The operator of the simulated kill.
class SimKill final : public HostOperator {
 public:
  explicit SimKill(SimProcess& guard) : guard_(guard) {}
  Result<std::string> preimage(const HostOperation& operation) override {
    TRY(find(operation));
    return std::string("1 process");
  }
  Status apply(const HostOperation& operation, std::chrono::nanoseconds) override {
    if (!guard_.alive()) return Error{Code::kSystem, "the guard is dead"};
    const std::vector<SimProcess*> targets = TRY(find(operation));
    for (SimProcess* target : targets) target->die(SIGKILL);
    return ok();
  }
  Status undo(const HostOperation&, const std::string&) override {
    if (!guard_.alive()) return Error{Code::kSystem, "the guard is dead"};
    return ok();
  }
  Status verify_undone(const HostOperation&) override { return ok(); }

 private:
  Result<std::vector<SimProcess*>> find(const HostOperation& operation) const {
    std::vector<SimProcess*> out;
    for (const ProcessId& wanted : std::get<KillProcess>(operation).processes)
      for (SimProcess* process : guard_.simulation().living(guard_.node().name))
        if (process->self() == wanted) out.push_back(process);
    if (out.size() == std::get<KillProcess>(operation).processes.size()) return out;
    return Error{Code::kUnavailable, "the process is gone"};
  }
  SimProcess& guard_;
};

// The operator of the simulated packet filter.
class SimDropper final : public HostOperator {
 public:
  explicit SimDropper(SimProcess& holder) : holder_(holder) {}
  Result<std::string> preimage(const HostOperation& operation) override {
    if (drops().count(mark_of(operation)) != 0)
      return Error{Code::kConflict, "the table is there already"};
    return std::string("no table");
  }
  Status apply(const HostOperation& operation, std::chrono::nanoseconds lease) override {
    if (!holder_.alive()) return Error{Code::kSystem, "the guard is dead"};
    drops()[mark_of(operation)] = {std::get<DropPackets>(operation), holder_.pid(),
                                   holder_.simulation().now() + lease};
    return ok();
  }
  Status renew(const HostOperation& operation, std::chrono::nanoseconds lease) override {
    const auto it = drops().find(mark_of(operation));
    if (it == drops().end() || !holder_.simulation().in_effect(holder_.node(), it->second))
      return Error{Code::kUnavailable, "its addresses have expired"};
    it->second.end = holder_.simulation().now() + lease;
    return ok();
  }
  Result<Json> counted(const HostOperation& operation) override {
    const auto it = drops().find(mark_of(operation));
    if (it == drops().end()) return Error{Code::kUnavailable, "there is no such table"};
    return Json{{"packets", it->second.packets}};
  }
  Status undo(const HostOperation& operation, const std::string&) override {
    if (!holder_.alive()) return Error{Code::kSystem, "the guard is dead"};
    if (holder_.node().undo_fails) return Error{Code::kSystem, "Operation not permitted"};
    if (!holder_.node().undo_lies) drops().erase(mark_of(operation));
    return ok();
  }
  Status verify_undone(const HostOperation& operation) override {
    const auto it = drops().find(mark_of(operation));
    if (it == drops().end() || gone(it->second)) return ok();
    return Error{Code::kConflict, "the table is still there"};
  }
  Result<std::vector<HostOperation>> strays() override {
    std::vector<HostOperation> out;
    if (holder_.node().marks_unreadable) return Error{Code::kSystem, "list tables: I/O error"};
    if (!holder_.node().tables_have_owners)  // else whatever is there has a living one
      for (const auto& [table, one] : drops()) out.push_back(one.drop);
    return out;
  }

 private:
  std::map<std::string, SimDrop>& drops() { return holder_.node().drops; }
  bool gone(const SimDrop& drop) const {
    return holder_.node().tables_have_owners &&
           !holder_.simulation().in_effect(holder_.node(), drop);
  }
  SimProcess& holder_;
};

Operators sim_operators(SimProcess& process) {
  const std::shared_ptr<HostOperator> hold = std::make_shared<SimHold>(process);
  const std::shared_ptr<HostOperator> kill = std::make_shared<SimKill>(process);
  const std::shared_ptr<HostOperator> fill = make_sim_fill(process);
  const std::shared_ptr<HostOperator> drop = std::make_shared<SimDropper>(process);
  return [hold, kill, fill, drop](const HostOperation& operation) -> HostOperator& {
    if (std::holds_alternative<KillProcess>(operation)) return *kill;
    if (std::holds_alternative<FillDisk>(operation)) return *fill;
    return std::holds_alternative<DropPackets>(operation) ? *drop : *hold;
  };
}

}  // namespace mixproof
