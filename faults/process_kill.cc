// Kills the target's processes at once. Over as soon as they are gone: what is tested is what
// others make of their absence, and whether the service comes back where it says that it does.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "faults/fault.h"

namespace mixproof {
namespace {

constexpr const char* kResidualLife =
    "irreversible: what was killed stays gone, unless its agent lives and starts it anew; nothing of "
    "ours is left";

class ProcessKill final : public Fault {
 public:
  Params params() override { return {}; }

  Result<FaultPlan> plan(const HostView& host, const Target& target) override {
    if (target.processes.empty())
      return Error{Code::kInvalid, "no process to kill in " + target.words};
    KillProcess kill{target.processes};
    // A parent is older than its children: it dies before it could replace one of them.
    std::sort(kill.processes.begin(), kill.processes.end(),
              [](const ProcessId& a, const ProcessId& b) {
                return std::tie(a.start_ticks, a.pid) < std::tie(b.start_ticks, b.pid);
              });
    FaultPlan plan;
    plan.effect = Effect::kOneShot;
    Json looked_at = Json::array();
    for (const ProcessId& process : kill.processes) {
      const std::vector<ThreadState> threads = TRY(host.threads(process));
      plan.touches.push_back("process " + std::to_string(process.pid) + " (" +
                             std::to_string(threads.size()) + " threads) of " + target.words);
      Json one = process_to_json(process);
      one["name"] = target.words;
      looked_at.push_back(std::move(one));
    }
    plan.steps.push_back({When::kInject, std::move(kill), Lease::kNone});
    // By number and not by name: under the name there may be a new instance by then, or none.
    plan.controls.push_back({.positive = true,
                             .probe = "process_progress",
                             .metric = "process.gone_share",
                             .of = "target",
                             .low = 1,
                             .high = 1,
                             .params = {{"processes", looked_at}}});
    plan.controls.push_back({.positive = false,
                             .probe = "process_progress",
                             .metric = "process.gone_share",
                             .of = "others",
                             .low = 0,
                             .high = 0});
    plan.residual_life = kResidualLife;
    return plan;
  }
};

}  // namespace

extern const FaultSpec process_kill_fault;
const FaultSpec process_kill_fault = {
    .name = "process_kill",
    .summary =
        "Kills the target's processes (SIGKILL), once; irreversible, but a service may restart.",
    .residual_life = kResidualLife,
    .hits = Hits::kProcesses,
    .effect = Effect::kOneShot,
    .tier = 2,
    .create = []() -> std::unique_ptr<Fault> { return std::make_unique<ProcessKill>(); },
};

}  // namespace mixproof
