// Simulation: a whole cluster in one thread, from one seed, without a clock. Controller, agents and
// guards run their real code over simulated Worlds; services, workers and the node's processes are
// small models. Time jumps from event to event, so a run of a minute takes milliseconds.
//
// What can go wrong, on order: processes die at any moment, lines are cut (nothing arrives any
// more, silently), disks fill up, undoing fails. What always differs: message delays, and the
// clocks of the nodes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/agent/guard.h"
#include "harness/base/random.h"
#include "harness/base/world.h"

namespace mixproof {

class SimProcess;

inline constexpr const char* kSimShared = "/run/mixproof/shared";
inline constexpr std::int64_t kSimSharedBytes = std::int64_t{1} << 28;

// A table of packets that a node drops, in effect until its lease ends or its holder dies.
struct SimDrop {
  DropPackets drop;
  int holder = 0;
  Time end{0};  // simulation time
  std::int64_t packets = 0;
};

struct SimNode {
  std::string name, address;
  Time mono_offset{0}, boot_offset{0};  // node clock = simulation time + offset
  std::map<std::string, std::string> files;
  std::map<std::string, int> locks;  // path -> pid of the holder
  bool cut = false;                  // its line to the controller carries nothing
  bool disk_full = false;
  bool undo_fails = false;
  std::set<int> undo_fails_for;      // processes
  bool undo_lies = false;            // says ok and does nothing
  bool hold_outlives_guard = false;  // as a fault does whose lease only its guard keeps
  // Asked before each write: how many of its bytes reach the disk before its writer is killed;
  // nothing: it lives.
  std::function<std::optional<std::size_t>(const std::string& path, std::string_view bytes)>
      kill_in_write;
  // Of the shared storage: taken by nobody's fault, and by fills, by the process that holds them.
  std::int64_t shared_used = std::int64_t{1} << 20;
  std::map<int, std::int64_t> fills;
  bool broken_services = false;          // they end as soon as they begin
  std::map<std::string, SimDrop> drops;  // by table
  bool tables_have_owners = true;        // if not, they outlive their guard, empty after the lease
  bool marks_unreadable = false;         // nobody can tell what tables there are
  bool rules_are_shadowed = false;       // packets come from addresses that nobody knows
  bool silent_workers = false;           // those of a later attempt are never ready
  // What its collector reads at a time of the simulation: nothing is no data.
  std::function<std::optional<double>(Time)> signal;
};

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed);
  ~Simulation();

  SimNode& add_node(const std::string& name);
  // A process started from outside (the controller): its World. It lives until killed.
  SimProcess& start_root(const std::string& node, const std::string& program);

  void at(Time when, std::function<void()> task);  // simulation time
  Time now() const { return now_; }
  // Runs events until `done` or the time limit; false when the limit came first.
  bool run_until(const std::function<bool()>& done, Time limit);

  void kill(int pid);
  SimProcess* find(const std::string& program, const std::string& node);  // newest living one; null
  std::vector<SimProcess*> living(const std::string& node) const;
  SimNode& node(const std::string& name) { return *nodes_.at(name); }
  bool stopped(int pid) const;  // held by a living tracer
  // Of the shared storage of a node: the kernel frees what a dead process held.
  std::int64_t shared_free(const SimNode& node) const;
  // Whether an echo from one node to another is answered; counts what is dropped meanwhile.
  double answered(const std::string& from, const std::string& to_address);
  bool in_effect(const SimNode& node, const SimDrop& drop) const;
  std::uint64_t random() { return random_.next(); }

 private:
  friend class SimProcess;
  friend class SimHost;
  friend class SimHold;
  friend class SimKill;
  friend class SimDropper;
  double passes(SimNode& at, const std::string& from_address);
  SimProcess& start(const std::string& node, const std::string& program, SimProcess* parent);
  void reap();  // lets roles that are done exit

  struct Event {
    std::uint64_t order;
    std::function<void()> task;
  };
  Random random_;
  Time now_{0};
  std::uint64_t next_order_ = 0;
  std::multimap<Time, Event> events_;
  std::map<std::string, std::unique_ptr<SimNode>> nodes_;
  std::vector<std::unique_ptr<SimProcess>> processes_;
  int next_pid_ = 100;
};

// What runs in a process beside its World. Roles end by saying done.
class SimRole {
 public:
  virtual ~SimRole() = default;
  virtual bool done() const = 0;
};

class SimProcess final : public World {
 public:
  SimProcess(Simulation& simulation, SimNode& node, std::string program, int pid,
             SimProcess* parent);
  ~SimProcess() override;

  Time now(Clock clock) override;
  std::string boot_id() override { return "boot-" + node_.name; }
  std::uint64_t random() override { return simulation_.random(); }
  ProcessId self() override { return {pid_, static_cast<std::uint64_t>(pid_) * 10}; }
  TimerId at(Clock clock, Time when, std::function<void()> task) override;
  void cancel(TimerId timer) override { cancelled_.insert(timer); }
  Result<std::unique_ptr<Child>> spawn(const ChildSpec& spec, ChildEvents events) override;
  void listen(ParentEvents events) override { parent_events_ = std::move(events); }
  Status tell_parent(std::string_view line) override;
  Status signal(const ProcessId& process, int signal) override;
  Status clear_cgroup(const std::string& cgroup) override;
  Files& files() override { return *files_; }
  const HostView& host() override { return *host_; }

  int pid() const { return pid_; }
  bool alive() const { return alive_; }
  const std::string& program() const { return program_; }
  const std::string& cgroup() const { return cgroup_; }
  SimNode& node() { return node_; }
  Simulation& simulation() { return simulation_; }
  void deliver_signal(int signal);
  void run(std::unique_ptr<SimRole> role) { role_ = std::move(role); }

 private:
  friend class Simulation;
  friend class SimChild;
  friend class SimHost;
  friend class SimHold;
  friend class SimKill;
  void die(int wait_status);
  void to_parent(std::function<void(ChildEvents&)> what);
  void to_child(SimProcess& child, std::function<void(ParentEvents&)> what);
  bool line_is_cut(const SimProcess& other) const;

  Simulation& simulation_;
  SimNode& node_;
  std::string program_, cgroup_;
  int pid_;
  SimProcess* parent_;
  bool alive_ = true, outlives_parent_ = false, input_ended_ = false;
  int tracer_ = 0;
  Time last_up_{0}, last_down_{0};  // lines keep their order
  TimerId next_timer_ = 1;
  std::set<TimerId> cancelled_;
  ParentEvents parent_events_;
  std::map<int, ChildEvents> children_;
  std::unique_ptr<Files> files_;
  std::unique_ptr<HostView> host_;
  std::unique_ptr<SimRole> role_;
};

// Makes the role for a program: agent, guard, worker, or a service (anything else).
void start_role(SimProcess& process, const std::string& program);
Operators sim_operators(SimProcess& process);
std::shared_ptr<HostOperator> make_sim_fill(SimProcess& process);

}  // namespace mixproof
