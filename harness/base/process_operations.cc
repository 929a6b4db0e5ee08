#include "harness/base/process_operations.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"

namespace mixproof {

Json process_to_json(const ProcessId& process) {
  return {{"pid", process.pid}, {"start_ticks", process.start_ticks}};
}

ProcessId process_from_json(const Json& json) {
  return {static_cast<int>(integer_at(json, "pid")), unsigned_at(json, "start_ticks")};
}

Json fields_of(const HoldStopped& hold) { return {{"process", process_to_json(hold.process)}}; }

Status read_fields(const Json& json, HoldStopped& hold) {
  const Json* process = member(json, "process");
  if (process != nullptr) hold.process = process_from_json(*process);
  if (hold.process.pid <= 1) return Error{Code::kCorrupt, "an operation without its process"};
  return ok();
}

std::string describe(const HoldStopped& hold) {
  return "stop every thread of process " + std::to_string(hold.process.pid) + " by tracing it";
}

Json fields_of(const KillProcess& kill) {
  Json processes = Json::array();
  for (const ProcessId& process : kill.processes) processes.push_back(process_to_json(process));
  return {{"processes", processes}};
}

Status read_fields(const Json& json, KillProcess& kill) {
  if (const Json* all = member(json, "processes"); all != nullptr && all->is_array())
    for (const Json& one : *all) kill.processes.push_back(process_from_json(one));
  if (kill.processes.empty() ||
      std::any_of(kill.processes.begin(), kill.processes.end(),
                  [](const ProcessId& process) { return process.pid <= 1; }))
    return Error{Code::kCorrupt, "a kill_process operation without its processes"};
  return ok();
}

std::string describe(const KillProcess& kill) {
  std::vector<std::string> pids;
  for (const ProcessId& process : kill.processes) pids.push_back(std::to_string(process.pid));
  return (pids.size() == 1 ? "kill process " : "kill processes ") + join(pids, ", ") + " (SIGKILL)";
}

}  // namespace mixproof
