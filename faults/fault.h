// Fault: one way to break a node, planned before anything is touched. A fault is a planner, not an
// actor: a guard does the doing from the steps, journals the way back first, and anyone can undo
// after a crash without the fault's code.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/host_operation.h"
#include "harness/base/params.h"

namespace mixproof {

// Who ends a step when nobody orders it: the kernel (holder's death, timed set, deadline), the
// guard, or nobody, because it is over at once.
enum class Lease { kKernel, kGuard, kNone };

// Arm steps run before the baseline and are inert; inject steps make the fault.
enum class When { kArm, kInject };

struct Step {
  Step(When when, HostOperation operation, Lease lease);
  When when;
  HostOperation operation;
  Lease lease;
};

// A probe that shows whether the fault works. The controller runs it before, during and after (a
// one-shot fault has no after). Positive: the metric must be outside the range before, inside
// during, outside after. Negative: it must be inside the range all the time, on something that the
// fault must not touch.
struct Control {
  bool positive;
  std::string probe, metric;
  std::string of;    // "target", or "others": what the fault must leave alone
  double low, high;  // the range, both ends included
  // Of the probe, which then runs once, on the node of the fault or `at` another one. Null: it
  // looks at processes: the target's, or those of every other service and load of the run on each
  // node.
  Json params = nullptr;
  std::string at = {};
};

struct Peer {
  std::string node;
  std::vector<std::string> addresses;  // as HostView::addresses() of that node
};

// What the suite's words ("llm[0]") became on this node, just before injection.
struct Target {
  std::string words;
  std::vector<ProcessId> processes;   // of faults that hit processes
  std::vector<Peer> from, others;     // of faults between nodes: whose packets; who must not be cut
  std::string mark;                   // of what the fault makes here; unlike any other fault's
  std::vector<std::string> kept_out;  // directories on file systems that no fault may touch
  std::string controller_address;     // from where this agent is reached over the network, and
  int controller_port = 0;            // our port of that connection; empty and 0: not known
};

enum class Hits { kProcesses, kNode, kPeers };  // kPeers: a node, cut off from others

enum class Effect { kSustained, kOneShot };

struct FaultPlan {
  Effect effect = Effect::kSustained;
  std::vector<Step> steps;        // undone last to first
  std::vector<Control> controls;  // at least one positive
  std::vector<std::string>
      touches;                // what a person would want to know: "process 4711 (12 threads)"
  std::string residual_life;  // that of the spec; travels with the plan
  double undo_budget_s = 5;
};

class Fault {
 public:
  virtual ~Fault() = default;
  virtual Params params() = 0;

  // Reads the node and says what would be done. Changes nothing: a dry run stops here. kUnavailable
  // with a reason when this node cannot do it; kInvalid when the target makes no sense for it.
  virtual Result<FaultPlan> plan(const HostView& host, const Target& target) = 0;
};

struct FaultSpec {
  std::string_view name;  // the file's name
  std::string_view summary;
  std::string_view
      residual_life;  // how long it may last after SIGKILL of everything of ours, in words
  Hits hits;
  Effect effect;
  int tier;  // 1 process-local, 2 node-local with a kernel lease, 3 needs its guard, 4 may need
             // hands
  std::unique_ptr<Fault> (*create)();
  // Parameters that a drill in a lab needs, "KEY=VALUE KEY=VALUE"; empty: the defaults do.
  std::string_view drill = {};
};

std::span<const FaultSpec* const> all_faults();  // written by CMake from the files in faults/

Json fault_plan_to_json(const FaultPlan& plan);
Result<FaultPlan> fault_plan_from_json(const Json& json);  // kCorrupt when it is not one

}  // namespace mixproof
