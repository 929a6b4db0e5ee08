// Run: one run of a plan, as an event machine over World: connect to every node, start services,
// prepare loads, go through the phases, inject and revert faults, stop everything in order. It
// records; it does not judge.
//
// Every wait has a deadline and every run ends. All ways out (the end of the timeline, a signal, a
// lost node, a full disk) share one path: faults first, then loads, services, agents.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/world.h"
#include "harness/controller/abort_watch.h"
#include "harness/controller/agent_link.h"
#include "harness/controller/fault_run.h"
#include "harness/controller/probe_runner.h"
#include "harness/controller/recorder.h"
#include "harness/controller/run_setup.h"
#include "suites/schedule.h"

namespace mixproof {

// What a run tells while it goes on. All optional.
struct RunObserver {
  std::function<void(const std::string& text)> note;                          // a line for people
  std::function<void(const std::string& phase, Time begin, Time end)> phase;  // begins now
  std::function<void(const Json& row)> row;                                   // everything recorded
};

class Run {
 public:
  Run(World& world, RunSetup setup, RunObserver observer);
  ~Run();

  void start();
  void stop(const std::string&
                why);  // early; reverts faults first. A second call says what is still going on
  bool done() const { return stage_ == Stage::kDone; }

  // After done(): why it failed before its timeline began or left it early; empty when the timeline
  // was completed.
  const std::optional<Error>& failure() const { return failure_; }
  bool began() const { return timeline_began_; }  // whether the first phase was reached
  const std::string& recording_path() const { return recording_; }

 private:
  enum class Stage {
    kConnect,
    kServices,
    kLoads,
    kTimeline,
    kFinishLoads,
    kStopFaults,
    kStopLoads,
    kStopServices,
    kLeave,
    kDone
  };
  struct LoadTask;  // one worker of a load

  // Of one stretch of a load with on_loss "resume": which start of its ranks is going on.
  struct Attempt {
    enum State { kRunning, kStopping, kPreparing };
    int number = 0;  // 0: the first
    State state = kRunning;
    TimerId deadline = 0;    // for the next one to be prepared
    std::int64_t steps = 0;  // that any of its ranks has behind it, as their rows say
  };

  // run_start.cc
  void connect();
  void start_services(std::size_t index);
  void wait_until_ready(std::size_t index);
  void prepare_loads();
  void loads_ready();
  void start_worker(LoadTask& task);
  std::vector<std::string> target_urls(const LoadPlan& load) const;
  Json worker_spec(const LoadTask& task) const;
  // run.cc
  void begin_timeline();
  void tell_go(LoadTask& task);
  void begin_phase(std::size_t index);
  void end_phase(std::size_t index, bool complete);
  void finish_loads();
  void wind_down();
  void stop_loads();
  void stop_services(std::size_t left);
  void leave_agents();
  void finish();
  // run_events.cc
  void on_event(const std::string& node, const Json& event);
  void worker_event(const std::string& node, const std::string& what, const std::string& kind,
                    const Json& event);
  void load_event(LoadTask& task, const std::string& kind, const Json& event);
  void count_steps(const LoadTask& task, const Json& row);
  void load_failed(LoadTask& task, const Error& error);
  void load_done(LoadTask& task, const Json* check);
  void gather(LoadTask& task, const Json& event);
  void task_exit(const std::string& node, const std::string& what, const Json& event);
  void node_lost(const std::string& node, const Error& error);

  // run_resume.cc
  static bool is_loss(const Error& error);
  std::vector<LoadTask*> ranks_of(std::size_t span) const;
  bool lost_rank(LoadTask& task, const std::string& why);
  void attempt_late(std::size_t span);
  void begin_attempt_when_all_are_gone(std::size_t span);
  void attempt_ready(std::size_t span);
  void give_up_attempt(std::size_t span);

  void abort(const Json& row);
  void collector_lost(const LoadTask& task, const Error& error);
  void fail(const Error& error, const std::string& what, const std::string& node);
  void record(Json row);
  void note(const std::string& text) const;
  AgentLink* link(const std::string& node);
  std::unique_ptr<AgentLink> make_link(const std::string& node, AgentLink::Events events);
  void ask(const std::string& node, Json request, Time deadline, Channel::Reply then);
  std::map<std::string, std::vector<std::string>> tasks_by_node() const;
  FaultHost fault_host();
  FaultOrder fault_order(const FaultPlanEntry& entry, const FaultPlanEntry::Part& part) const;

  World& world_;
  RunSetup setup_;
  RunObserver observer_;
  Schedule schedule_;
  std::string recording_;
  Recorder recorder_;
  AbortWatch aborts_;
  Stage stage_ = Stage::kConnect;
  std::map<std::string, std::unique_ptr<AgentLink>> links_;
  std::map<std::string, std::unique_ptr<LoadTask>> loads_;  // by task name
  ProbeRunner probes_;
  std::map<std::string, std::string> services_;  // running instances: name -> node
  std::map<std::size_t, Attempt> attempts_;      // by span
  std::map<std::string, std::map<int, std::string>>
      gathers_;  // "load stretch attempt name" -> blobs by rank
  std::vector<std::unique_ptr<FaultRun>> faults_;
  std::vector<TimerId> timers_;  // of the timeline; cancelled when it is left
  TimerId stage_timer_ = 0;
  std::optional<std::size_t> phase_;
  Time begin_{0};
  int waiting_ = 0;
  std::string why_;
  std::optional<Error> failure_;
  bool timeline_began_ = false, stopping_ = false;
};

}  // namespace mixproof
