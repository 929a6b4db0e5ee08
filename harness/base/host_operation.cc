#include "harness/base/host_operation.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"

namespace mixproof {
namespace {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

Result<ProcessId> process_in(const Json& json) {
  const Json* process = member(json, "process");
  const ProcessId id = process == nullptr ? ProcessId{} : process_from_json(*process);
  if (id.pid <= 1) return Error{Code::kCorrupt, "an operation without its process"};
  return id;
}

std::uint64_t unsigned_at(const Json& json, const std::string& key) {
  return static_cast<std::uint64_t>(integer_at(json, key));
}

}  // namespace

Json process_to_json(const ProcessId& process) {
  return {{"pid", process.pid}, {"start_ticks", process.start_ticks}};
}

ProcessId process_from_json(const Json& json) {
  return {static_cast<int>(integer_at(json, "pid")), unsigned_at(json, "start_ticks")};
}

Json operation_to_json(const HostOperation& operation) {
  return std::visit(
      Overloaded{
          [](const HoldStopped& hold) {
            return Json{{"type", "hold_stopped"}, {"process", process_to_json(hold.process)}};
          },
          [](const KillProcess& kill) {
            Json processes = Json::array();
            for (const ProcessId& process : kill.processes)
              processes.push_back(process_to_json(process));
            return Json{{"type", "kill_process"}, {"processes", processes}};
          },
          [](const DropPackets& drop) {
            return Json{{"type", "drop_packets"},
                        {"net_namespace", drop.net_namespace},
                        {"table", drop.table},
                        {"from", drop.from},
                        {"share", drop.share},
                        {"spared_address", drop.spared_address},
                        {"spared_port", drop.spared_port}};
          },
          [](const FillDisk& fill) {
            return Json{
                {"type", "fill_disk"}, {"directory", fill.directory}, {"device", fill.device}};
          }},
      operation);
}

Result<HostOperation> operation_from_json(const Json& json) {
  const std::string type = text_at(json, "type");
  if (type == "hold_stopped") {
    const ProcessId process = TRY(process_in(json));
    return HostOperation{HoldStopped{process}};
  }
  if (type == "kill_process") {
    KillProcess kill;
    if (const Json* all = member(json, "processes"); all != nullptr && all->is_array())
      for (const Json& one : *all) kill.processes.push_back(process_from_json(one));
    if (kill.processes.empty() ||
        std::any_of(kill.processes.begin(), kill.processes.end(),
                    [](const ProcessId& process) { return process.pid <= 1; }))
      return Error{Code::kCorrupt, "a kill_process operation without its processes"};
    return HostOperation{std::move(kill)};
  }
  if (type == "drop_packets") {
    DropPackets drop{.net_namespace = unsigned_at(json, "net_namespace"),
                     .table = text_at(json, "table"),
                     .from = {},
                     .share = number_at(json, "share"),
                     .spared_address = text_at(json, "spared_address"),
                     .spared_port = static_cast<int>(integer_at(json, "spared_port"))};
    if (const Json* from = member(json, "from"); from != nullptr && from->is_array())
      for (const Json& address : *from)
        if (address.is_string()) drop.from.push_back(address.get<std::string>());
    if (drop.table.empty() || drop.from.empty() || !(drop.share > 0 && drop.share <= 1))
      return Error{Code::kCorrupt, "a drop_packets operation without table, addresses or share"};
    return HostOperation{std::move(drop)};
  }
  if (type == "fill_disk") {
    FillDisk fill{.directory = text_at(json, "directory"), .device = unsigned_at(json, "device")};
    if (fill.directory.empty()) return Error{Code::kCorrupt, "a fill_disk operation without place"};
    return HostOperation{std::move(fill)};
  }
  return Error{Code::kCorrupt, "unknown operation '" + type + "'"};
}

std::string describe(const HostOperation& operation) {
  return std::visit(
      Overloaded{[](const HoldStopped& hold) {
                   return "stop every thread of process " + std::to_string(hold.process.pid) +
                          " by tracing it";
                 },
                 [](const KillProcess& kill) {
                   std::vector<std::string> pids;
                   for (const ProcessId& process : kill.processes)
                     pids.push_back(std::to_string(process.pid));
                   return (pids.size() == 1 ? "kill process " : "kill processes ") +
                          join(pids, ", ") + " (SIGKILL)";
                 },
                 [](const DropPackets& drop) {
                   return format("drop %g %% of the packets that come in from ", drop.share * 100) +
                          join(drop.from, ", ") + " (nft table inet " + drop.table + ")";
                 },
                 [](const FillDisk& fill) {
                   return "take every free block of the file system at " + fill.directory;
                 }},
      operation);
}

std::string mark_of(const HostOperation& operation) {
  const auto* drop = std::get_if<DropPackets>(&operation);
  return drop == nullptr ? "" : drop->table;
}

Result<Json> HostOperator::counted(const HostOperation&) { return Json::object(); }

}  // namespace mixproof
