// Agent: what a run has on a node. Starts workers, services and guards (each in a cgroup of its
// own), relays what they say, resolves targets, plans faults, and ends everything when its
// controller goes, which shows as the end of its input, or as silence: a controller pings every
// second, and over a line that was cut no end ever comes. It never executes a fault.
//
// Requests (see Channel): hello, ping, start, tell, stop, addresses, plan_fault, inject, renew,
// revert, faults, recover, bye. Events: row, ready, failed, gather, done (from workers), exit,
// restart, fault. Members are listed in agent.cc.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "faults/fault.h"
#include "harness/agent/guard.h"
#include "harness/agent/recover.h"
#include "harness/base/world.h"

namespace mixproof {

struct AgentOptions {
  std::string program;    // our own executable, for workers and guards
  std::string build;      // digest; a controller of another build refuses us
  std::string state_dir;  // journals, work directories, logs
  Operators operators;    // for recover at start
  // From where we are reached over the network, and our port of that connection: no fault may cut
  // it. Empty and 0 when it is not known (or there is none: the controller is on this machine).
  std::string controller_address = {};
  int controller_port = 0;
};

class Agent {
 public:
  Agent(World& world, AgentOptions options);
  ~Agent();
  void start();
  bool done() const { return done_; }

 private:
  struct Task;     // a worker or service
  struct Guarded;  // a guard of this run

  void on_line(std::string_view line);
  Result<Json> handle(const std::string& order, const Json& request);
  Result<Json> hello(const Json& request);
  Result<Json> start_task(const Json& request);
  Status resolve_processes(const Json& request, Json& spec) const;
  Result<Json> tell_task(const Json& request);
  void stop_task(const Json& request);
  Result<FaultPlan> plan_fault(const Json& request);
  Status check_steps(const FaultPlan& plan);
  Status find_processes(const Json& request, Target& target) const;
  Result<std::set<int>> lifeline() const;
  Result<Json> inject(const Json& request);
  std::string guard_cgroup(const std::string& fault) const;
  Result<Json> order_guard(const Json& request, const std::string& order);
  Result<Json> recover(bool end_guarded);
  Result<std::vector<FaultOnNode>> recover_all();

  Status spawn_task(Task& task);
  void task_line(const std::string& what, std::string_view line);
  void task_exit(const std::string& what, int wait_status);
  void begin_stop(Task& task, Time grace);
  void forget_task(const std::string& what);
  void guard_line(const std::string& fault, std::string_view line);
  void guard_exit(const std::string& fault);
  void leave(const std::string& why);
  void check_left();
  void check_heard();

  void reply(std::int64_t id, const Result<Json>& result);
  void event(Json event);
  std::vector<ProcessId> processes_of(const Task& task) const;
  std::string log_tail(const Task& task);

  World& world_;
  AgentOptions options_;
  std::string node_, run_, cgroup_, directory_;
  std::map<std::string, std::unique_ptr<Task>> tasks_;
  std::map<std::string, std::unique_ptr<Guarded>> guards_;
  Json recovered_;
  Time heard_{0};                              // when the controller last said something
  std::map<std::string, FaultOnNode> strays_;  // found without a journal by this agent; told again
  bool leaving_ = false, done_ = false;
};

}  // namespace mixproof
