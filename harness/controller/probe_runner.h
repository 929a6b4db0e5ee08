// ProbeRunner: short probes on nodes of a run: readiness, controls of faults, `mixproof probe`.
// Each is a worker of its own, outside the workloads' cgroups; every one ends, at its deadline at
// the latest.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/base/world.h"
#include "harness/transport/channel.h"

namespace mixproof {

// What a probe is to look at, resolved to processes on the node: tasks of the run by name, or pids
// there.
struct ProbeTargets {
  std::vector<std::string> tasks;
  std::vector<int> pids;
  bool empty() const { return tasks.empty() && pids.empty(); }
};

class ProbeRunner {
 public:
  using Ask = std::function<void(const std::string& node, Json request, Time deadline,
                                 Channel::Reply then)>;
  using Rows = std::function<void(Result<std::vector<Json>>)>;

  // `on_row` sees every row at once, with "node" added.
  ProbeRunner(World& world, Ask ask, std::function<void(const Json&)> on_row);
  ~ProbeRunner();

  void run(const std::string& node, const std::string& probe, Json params,
           const ProbeTargets& targets, Time deadline, Rows then);
  bool has(const std::string& what) const { return tasks_.count(what) != 0; }
  void on_event(const std::string& what, const std::string& kind,
                const Json& event);  // for a task that it has
  void node_lost(const std::string& node);

 private:
  struct Task {
    std::string node;
    std::vector<Json> rows;
    std::optional<Error> error;
    Rows then;
    TimerId timer = 0;
  };
  void end(const std::string& what);

  World& world_;
  Ask ask_;
  std::function<void(const Json&)> on_row_;
  std::map<std::string, std::unique_ptr<Task>> tasks_;
  int count_ = 0;
};

}  // namespace mixproof
