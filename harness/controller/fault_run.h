// FaultRun: the life of one fault on one node, as the controller sees it: controls before,
// injection, proof of effect by controls, renewals, revert, proof of clean by controls (of a
// one-shot fault: that what it hit is ready again, if it is one that comes back). Where its node is
// lost it asks a new agent what became of it. Finished only when the fault is clean, dirty,
// refused, or was never injected.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/base/world.h"
#include "harness/controller/agent_link.h"
#include "harness/controller/probe_runner.h"
#include "suites/plan.h"

namespace mixproof {

// What a fault needs from the run around it.
struct FaultHost {
  std::function<AgentLink*(const std::string& node)> link;  // null when lost
  std::function<void(Json row)> record;
  // Starts a probe worker on a node; `then` gets its rows when it has ended, or the error.
  std::function<void(const std::string& node, const std::string& probe, Json params,
                     const ProbeTargets& targets, ProbeRunner::Rows then)>
      run_probe;
  std::function<std::map<std::string, std::vector<std::string>>()>
      tasks_by_node;  // services and loads now running
  std::function<std::unique_ptr<AgentLink>(const std::string& node, AgentLink::Events events)>
      new_link;
};

struct FaultOrder {
  FaultPlanEntry entry;
  std::string node;              // where the target is
  ProbeTargets target;           // what it is there
  std::vector<std::string> kin;  // tasks that share its fate: never the others of its controls
  std::vector<std::string> from, others;  // nodes, of faults between nodes (see Target)
  std::string ready_url;  // of a target that is restarted after a one-shot fault; else empty
  double ready_s = 0;     // deadline for its first good answer
  std::string run;        // id
  Time lease, renew_every;
  Time latest_end{0};    // controller clock: however late it took hold, it ends by then
  bool by_hand = false;  // no run around it: there are no others for a negative control to look at
};

class FaultRun {
 public:
  FaultRun(World& world, FaultHost host, FaultOrder order, std::function<void()> on_finished);
  ~FaultRun();

  void look_before();  // controls before; a second or so ahead of inject()
  void inject();
  void revert(
      const std::string& why);       // early; else it reverts by itself, for_s after it took hold
  void on_event(const Json& event);  // a fault event of its node
  void node_lost();

  const std::string& id() const { return order_.entry.id; }
  const std::string& node() const { return order_.node; }
  bool in_effect() const { return begun_ && !finished_; }
  bool finished() const { return finished_; }
  bool begun() const { return begun_; }
  std::string doing() const;  // for people, once it reverts: "reverting process_pause on llm[0]"

 private:
  struct Look {
    std::map<std::string, std::vector<double>> values;  // control key -> values seen
    std::string trouble;
  };
  void ask_addresses();
  void make_plan();
  void look(const std::string& moment, std::function<void()> then);
  void judge_effect();
  void judge_clean();
  void after_one_shot();
  void wait_until_ready();
  bool one_shot() const;
  void compare_with_plan(const Json& injected);
  void renew();
  void end_at(Time when);
  void state(const std::string& state, Time at, const std::string& detail, Json evidence);
  void finish();
  void conclude(const std::string& state, const std::string& detail);
  void ask_new_agent();
  bool read_journals();
  Json evidence() const;
  Json request(const std::string& order) const;

  World& world_;
  FaultHost host_;
  FaultOrder order_;
  std::function<void()> on_finished_;
  Json plan_;
  std::string replanned_;                  // why what was injected is not what was looked at before
  std::map<std::string, Json> addresses_;  // by node, of `from` and `others`
  std::map<std::string, Look> looks_;      // by moment
  std::unique_ptr<AgentLink> probe_link_;
  TimerId renew_timer_ = 0, wait_timer_ = 0, end_timer_ = 0;
  Time give_up_at_{0}, begun_at_{0}, took_hold_at_{0}, undone_at_{0}, both_over_by_{0};
  bool begun_ = false, injected_ = false, judged_ = false, reverting_ = false, finished_ = false,
       lost_ = false, awaits_ready_ = false;
};

}  // namespace mixproof
