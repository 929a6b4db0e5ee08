// What agents tell during a run.
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "harness/controller/run_tasks.h"

namespace mixproof {
namespace {

constexpr Time kAnswer = std::chrono::seconds(5);
constexpr Time kGatherDeadline = std::chrono::seconds(20);

// The exit status by which a server of ours says that its port is taken; others say it in their log.
constexpr int kExitRefused = 6;

bool says_port_taken(const Json& event) {
  const std::string log = text_at(event, "log");
  return integer_at(event, "code") == kExitRefused || log.find("cannot bind") != std::string::npos ||
         log.find("Address already in use") != std::string::npos;
}

}  // namespace

void Run::on_event(const std::string& node, const Json& event) {
  const std::string kind = text_at(event, "event"), what = text_at(event, "what");
  if (kind == "fault") {
    for (const auto& fault : faults_)
      if (fault->id() == text_at(event, "fault")) return fault->on_event(event);
    return;
  }
  if (kind == "note") return record({{"row", "note"}, {"node", node}, {"message", text_at(event, "message")}});
  if (kind == "exit" || kind == "restart") return task_exit(node, what, event);
  worker_event(node, what, kind, event);
}

void Run::worker_event(const std::string& node, const std::string& what, const std::string& kind, const Json& event) {
  if (probes_.has(what)) return probes_.on_event(what, kind, event);
  const auto load = loads_.find(what);
  if (load == loads_.end()) return;
  if (kind == "row") {
    Json row = *member(event, "row");
    row["node"] = node;
    row["load"] = load->second->load->name;
    if (load->second->stretch != 0) row["stretch"] = load->second->stretch;
    return record(std::move(row));
  }
  load_event(*load->second, kind, event);
}

void Run::load_event(LoadTask& task, const std::string& kind, const Json& event) {
  if (kind == "ready") {
    task.ready = true;
    const Json* info = member(event, "info");
    record({{"row", "ready"}, {"what", task.load->name}, {"node", task.node}, {"rank", task.rank},
            {"stretch", task.stretch}, {"info", info == nullptr ? Json::object() : *info}});
    if (stage_ == Stage::kLoads && --waiting_ == 0) loads_ready();
  } else if (kind == "failed") {
    const Json* failed = member(event, "failed");
    task.done = true;
    if (!stopping_) fail(error_from_json(*failed).in(task.name), task.load->name, task.node);
  } else if (kind == "gather") {
    gather(task, event);
  } else if (kind == "done") {
    task.done = true;
    const Json* done = member(event, "done");
    const Json* check = done == nullptr ? nullptr : member(*done, "check");
    if (check == nullptr || !flag_at(*check, "ok"))
      record({{"row", "error"}, {"what", task.load->name}, {"node", task.node},
              {"code", check == nullptr ? "internal" : text_at(*check, "code")},
              {"message", check == nullptr ? "no check" : text_at(*check, "message")},
              {"at", world_.now(Clock::kMonotonic).count()}});
    if (stage_ != Stage::kFinishLoads) return;
    for (const auto& [name, other] : loads_)
      if (!other->done) return;
    wind_down();
  }
}

// Blobs of all ranks of one stretch of a load; who is absent at the deadline is named to those who wait.
void Run::gather(LoadTask& task, const Json& event) {
  const std::string name = text_at(event, "gather");
  const std::string key = task.load->name + "#" + std::to_string(task.stretch) + " " + name;
  std::map<int, std::string>& blobs = gathers_[key];
  const bool first = blobs.empty();
  blobs[task.rank] = text_at(event, "blob");
  const auto tell_all = [this, load = task.load, stretch = task.stretch](const Json& line) {
    for (const auto& [other_name, other] : loads_)
      if (other->load == load && other->stretch == stretch && !other->gone)
        ask(other->node, {{"do", "tell"}, {"what", other_name}, {"line", line}}, kAnswer, [](const Result<Json>&) {});
  };
  const int ranks = task.ranks;
  if (static_cast<int>(blobs.size()) == ranks) {
    Json all = Json::array();
    for (const auto& [rank, blob] : blobs) all.push_back(blob);
    return tell_all({{"gather", name}, {"blobs", all}});
  }
  if (!first) return;
  world_.after(kGatherDeadline, [this, key, name, ranks, tell_all] {
    std::vector<std::string> absent;
    for (int rank = 0; rank < ranks; ++rank)
      if (gathers_[key].count(rank) == 0) absent.push_back("rank " + std::to_string(rank));
    if (!absent.empty()) tell_all({{"gather", name}, {"absent", join(absent, ", ")}});
  });
}

void Run::task_exit(const std::string& node, const std::string& what, const Json& event) {
  if (probes_.has(what)) return probes_.on_event(what, "exit", event);
  AgentLink* from = link(node);
  const Time at = from == nullptr ? world_.now(Clock::kMonotonic) : from->to_controller(integer_at(event, "at_ns"));
  const bool restart = text_at(event, "event") == "restart";
  const bool expected = flag_at(event, "expected") || stopping_ || stage_ == Stage::kStopLoads || stage_ == Stage::kStopServices;
  if (restart) return record({{"row", "note"}, {"node", node}, {"message", what + " was restarted"}, {"at", at.count()}});
  record({{"row", "exit"}, {"what", what}, {"node", node}, {"at", at.count()}, {"status", text_at(event, "status")},
          {"expected", expected}, {"log", text_at(event, "log")}});
  if (const auto load = loads_.find(what); load != loads_.end()) {
    load->second->gone = true;
    if (!load->second->done && !expected)
      fail({Code::kPeerLost, what + " ended by itself: " + text_at(event, "status")}, load->second->load->name, node);
    return;
  }
  services_.erase(what);
  if (expected || stage_ != Stage::kServices) return;   // later, the users' requests say what it means
  const Code code = says_port_taken(event) ? Code::kRefused : Code::kSystem;
  fail({code, what + " did not start (" + text_at(event, "status") + "): " + text_at(event, "log")}, what, node);
}

void Run::node_lost(const std::string& node, const Error& error) {
  if (stage_ == Stage::kDone) return;
  record({{"row", "lost"}, {"node", node}, {"at", world_.now(Clock::kMonotonic).count()}, {"why", error.message}});
  for (const auto& [name, task] : loads_)
    if (task->node == node) task->gone = task->done = true;
  std::erase_if(services_, [&](const auto& entry) { return entry.second == node; });
  probes_.node_lost(node);
  for (const auto& fault : faults_)
    if (fault->node() == node) fault->node_lost();
  fail({error.code, "node " + node + " is lost: " + error.message}, node, node);
}

}  // namespace mixproof
