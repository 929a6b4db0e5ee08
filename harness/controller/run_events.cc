// What agents tell during a run, and short probes.
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
  if (const auto probe = probes_.find(what); probe != probes_.end()) {
    if (kind == "row") {
      Json row = *member(event, "row");
      row["node"] = node;
      record(row);
      probe->second->rows.push_back(std::move(row));
      return;
    }
    return probe_event(what, kind, event);
  }
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
  if (probes_.count(what) != 0) return probe_event(what, "exit", event);
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
  for (auto it = probes_.begin(); it != probes_.end();) {
    const std::string name = it->first;
    const bool here = it->second->node == node;
    ++it;
    if (here) probe_event(name, "lost", Json::object());
  }
  for (const auto& fault : faults_)
    if (fault->node() == node) fault->node_lost();
  fail({error.code, "node " + node + " is lost: " + error.message}, node, node);
}

void Run::run_probe(const std::string& node, const std::string& probe, Json params, std::vector<std::string> resolve,
                    Time deadline, std::function<void(Result<std::vector<Json>>)> then) {
  const std::string name = "probe." + std::to_string(probe_count_++);
  auto task = std::make_unique<ProbeTask>();
  task->node = node;
  task->then = std::move(then);
  task->timer = world_.after(deadline, [this, name] { probe_event(name, "late", Json::object()); });
  probes_[name] = std::move(task);
  Json request = {{"do", "start"}, {"what", name}, {"kind", "worker"}, {"grouped", false},
                  {"spec", {{"probe", probe}, {"params", std::move(params)}, {"name", name}, {"node", node}}}};
  if (!resolve.empty()) request["resolve"] = resolve;
  ask(node, std::move(request), kAnswer, [this, name](const Result<Json>& reply) {
    if (reply.ok()) return;
    const auto it = probes_.find(name);
    if (it == probes_.end()) return;
    it->second->error = reply.error();
    probe_event(name, "exit", Json::object());
  });
}

void Run::probe_event(const std::string& what, const std::string& kind, const Json& event) {
  const auto it = probes_.find(what);
  if (it == probes_.end()) return;
  ProbeTask& task = *it->second;
  if (kind == "ready" || kind == "gather") return;
  if (kind == "failed") {
    task.error = error_from_json(*member(event, "failed"));
    return;   // its exit follows
  }
  if (kind == "done") {
    const Json* done = member(event, "done");
    const Json* check = done == nullptr ? nullptr : member(*done, "check");
    if (check == nullptr || !flag_at(*check, "ok"))
      task.error = check == nullptr ? Error{Code::kInternal, "no check"} : error_from_json(*check);
    return;
  }
  if (kind == "late") {
    task.error = Error{Code::kTimeout, "the probe did not end in time"};
    ask(task.node, {{"do", "stop"}, {"what", what}, {"grace_ms", 500}}, kAnswer, [](const Result<Json>&) {});
  }
  if (kind == "lost") task.error = Error{Code::kPeerLost, task.node + " is lost"};
  world_.cancel(task.timer);
  const auto then = std::move(task.then);
  const Result<std::vector<Json>> result =
      task.error ? Result<std::vector<Json>>(*task.error) : Result<std::vector<Json>>(std::move(task.rows));
  probes_.erase(it);
  then(result);
}

}  // namespace mixproof
