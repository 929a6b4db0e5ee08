#include "harness/base/host_operation.h"

#include <nlohmann/json.hpp>

namespace mixproof {

Json process_to_json(const ProcessId& process) {
  return {{"pid", process.pid}, {"start_ticks", process.start_ticks}};
}

ProcessId process_from_json(const Json& json) {
  return {static_cast<int>(integer_at(json, "pid")),
          static_cast<std::uint64_t>(integer_at(json, "start_ticks"))};
}

Json operation_to_json(const HostOperation& operation) {
  const auto& hold = std::get<HoldStopped>(operation);
  return {{"type", "hold_stopped"}, {"process", process_to_json(hold.process)}};
}

Result<HostOperation> operation_from_json(const Json& json) {
  const std::string type = text_at(json, "type");
  const Json* process = member(json, "process");
  if (type != "hold_stopped" || process == nullptr)
    return Error{Code::kCorrupt, "unknown operation '" + type + "'"};
  const ProcessId id = process_from_json(*process);
  if (id.pid <= 1) return Error{Code::kCorrupt, "operation on pid " + std::to_string(id.pid)};
  return HostOperation{HoldStopped{id}};
}

std::string describe(const HostOperation& operation) {
  const auto& hold = std::get<HoldStopped>(operation);
  return "stop every thread of process " + std::to_string(hold.process.pid) + " by tracing it";
}

}  // namespace mixproof
