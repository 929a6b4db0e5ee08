// Stops every thread of the target's processes by tracing them. The kernel lets go when the tracer
// dies, so the fault cannot outlive its guard.
#include "faults/fault.h"

namespace mixproof {
namespace {

constexpr const char* kResidualLife = "none: the kernel lets the process go when the guard dies";

class ProcessPause final : public Fault {
 public:
  Params params() override { return {}; }

  Result<FaultPlan> plan(const HostView& host, const Target& target) override {
    if (target.processes.empty())
      return Error{Code::kInvalid, "no process to pause in " + target.words};
    FaultPlan plan;
    for (const ProcessId& process : target.processes) {
      const std::vector<ThreadState> threads = TRY(host.threads(process));
      for (const ThreadState& thread : threads)
        if (thread.tracer != 0)
          return Error{Code::kUnavailable, "process " + std::to_string(process.pid) +
                                               " is already traced by process " +
                                               std::to_string(thread.tracer)};
      plan.steps.push_back({When::kInject, HoldStopped{process}, Lease::kKernel});
      plan.touches.push_back("process " + std::to_string(process.pid) + " (" +
                             std::to_string(threads.size()) + " threads) of " + target.words);
    }
    plan.controls.push_back({.positive = true,
                             .probe = "process_progress",
                             .metric = "process.stopped_share",
                             .of = "target",
                             .low = 1,
                             .high = 1});
    plan.controls.push_back({.positive = false,
                             .probe = "process_progress",
                             .metric = "process.stopped_share",
                             .of = "others",
                             .low = 0,
                             .high = 0});
    plan.residual_life = kResidualLife;
    return plan;
  }
};

}  // namespace

extern const FaultSpec process_pause_fault;
const FaultSpec process_pause_fault = {
    .name = "process_pause",
    .summary =
        "Stops every thread of the target's processes; they run again when the guard lets go or dies.",
    .residual_life = kResidualLife,
    .hits = Hits::kProcesses,
    .effect = Effect::kSustained,
    .tier = 2,
    .create = []() -> std::unique_ptr<Fault> { return std::make_unique<ProcessPause>(); },
};

}  // namespace mixproof
