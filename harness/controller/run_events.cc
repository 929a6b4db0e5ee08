// What agents tell during a run.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "harness/controller/run_tasks.h"

namespace mixproof {
namespace {

constexpr Time kAnswer = std::chrono::seconds(5);
constexpr Time kGatherDeadline = std::chrono::seconds(20);

// The exit status by which a server of ours says that its port is taken; others say it in their
// log.
constexpr int kExitRefused = 6;

bool says_port_taken(const Json& event) {
  const std::string log = text_at(event, "log");
  return integer_at(event, "code") == kExitRefused ||
         log.find("cannot bind") != std::string::npos ||
         log.find("Address already in use") != std::string::npos;
}

}  // namespace

void Run::on_event(const std::string& node, const Json& event) {
  const std::string kind = text_at(event, "event"), what = text_at(event, "what");
  if (kind == "fault") {
    for (const auto& fault : faults_)
      if (fault->id() == text_at(event, "fault") && fault->node() == node)
        return fault->on_event(event);
    return;
  }
  if (kind == "note")
    return record({{"row", "note"}, {"node", node}, {"message", text_at(event, "message")}});
  if (kind == "exit" || kind == "restart") return task_exit(node, what, event);
  worker_event(node, what, kind, event);
}

void Run::worker_event(const std::string& node, const std::string& what, const std::string& kind,
                       const Json& event) {
  if (probes_.has(what)) return probes_.on_event(what, kind, event);
  const auto load = loads_.find(what);
  if (load == loads_.end()) return;
  if (kind == "row") {
    Json row = *member(event, "row");
    const LoadTask& task = *load->second;
    row["node"] = node;
    row["load"] = task.load->name;
    if (task.stretch != 0) row["stretch"] = task.stretch;
    if (task.attempt != 0) row["attempt"] = task.attempt;
    if (task.load->on_loss == "resume") count_steps(task, row);
    return record(std::move(row));
  }
  load_event(*load->second, kind, event);
}

// What the next attempt is told that this one has done.
void Run::count_steps(const LoadTask& task, const Json& row) {
  std::int64_t& steps = attempts_[task.span].steps;
  if (text_at(row, "row") == "resume") steps = integer_at(row, "from_step");
  if (text_at(row, "row") == "step") steps = std::max(steps, integer_at(row, "step") + 1);
}

void Run::load_event(LoadTask& task, const std::string& kind, const Json& event) {
  if (kind == "ready") {
    task.ready = true;
    const Json* info = member(event, "info");
    Json row = {{"row", "ready"},          {"what", task.load->name},
                {"node", task.node},       {"rank", task.rank},
                {"stretch", task.stretch}, {"info", info == nullptr ? Json::object() : *info}};
    if (task.attempt != 0) row["attempt"] = task.attempt;
    record(std::move(row));
    if (task.attempt != 0) return attempt_ready(task.span);
    if (stage_ == Stage::kLoads && --waiting_ == 0) loads_ready();
  } else if (kind == "failed") {
    load_failed(task, error_from_json(*member(event, "failed")));
  } else if (kind == "gather") {
    gather(task, event);
  } else if (kind == "done") {
    const Json* done = member(event, "done");
    load_done(task, done == nullptr ? nullptr : member(*done, "check"));
  }
}

void Run::load_failed(LoadTask& task, const Error& error) {
  if (task.done) return;  // given up already
  task.done = true;
  if (stopping_) return;
  const auto attempt = attempts_.find(task.span);
  const bool told_to_stop =
      attempt != attempts_.end() && attempt->second.state == Attempt::kStopping;
  if (told_to_stop && error.code == Code::kRefused)
    return;  // stopped in the middle of its preparation
  if (is_loss(error) && lost_rank(task, task.name + ": " + error.message)) return;
  if (task.collects && timeline_began_) return collector_lost(task, Error(error).in(task.name));
  fail(Error(error).in(task.name), task.load->name, task.node);
}

void Run::load_done(LoadTask& task, const Json* check) {
  const auto attempt = attempts_.find(task.span);
  const bool told_to_stop =
      attempt != attempts_.end() && attempt->second.state == Attempt::kStopping;
  task.done = true;
  const bool good = check != nullptr && flag_at(*check, "ok");
  // Of an attempt that was cut short, only wrong data matters.
  const bool matters = !told_to_stop || check == nullptr || !is_loss(error_from_json(*check));
  if (!good && matters)
    record({{"row", "error"},
            {"what", task.load->name},
            {"node", task.node},
            {"code", check == nullptr ? "internal" : text_at(*check, "code")},
            {"message", check == nullptr ? "no check" : text_at(*check, "message")},
            {"at", world_.now(Clock::kMonotonic).count()}});
  if (stage_ != Stage::kFinishLoads) return;
  for (const auto& [name, other] : loads_)
    if (!other->done) return;
  wind_down();
}

// Blobs of all ranks of one attempt at a stretch of a load; who is absent at the deadline is named
// to those who wait.
void Run::gather(LoadTask& task, const Json& event) {
  const std::string name = text_at(event, "gather");
  const std::string key = task.load->name + "#" + std::to_string(task.stretch) + "#" +
                          std::to_string(task.attempt) + " " + name;
  std::map<int, std::string>& blobs = gathers_[key];
  const bool first = blobs.empty();
  blobs[task.rank] = text_at(event, "blob");
  const auto tell_all = [this, span = task.span, attempt = task.attempt](const Json& line) {
    for (const LoadTask* other : ranks_of(span))
      if (other->attempt == attempt && !other->gone)
        ask(other->node, {{"do", "tell"}, {"what", other->name}, {"line", line}}, kAnswer,
            [](const Result<Json>&) {});
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
  const Time at = from == nullptr ? world_.now(Clock::kMonotonic)
                                  : from->to_controller(integer_at(event, "at_ns"));
  const bool restart = text_at(event, "event") == "restart";
  const bool expected = flag_at(event, "expected") || stopping_ || stage_ == Stage::kStopLoads ||
                        stage_ == Stage::kStopServices;
  if (restart) services_[what] = node;  // only services are restarted
  if (restart)
    return record({{"row", "note"},
                   {"node", node},
                   {"message", what + " was restarted"},
                   {"at", at.count()}});
  const auto load = loads_.find(what);
  Json row = {{"row", "exit"},
              {"what", what},
              {"node", node},
              {"at", at.count()},
              {"status", text_at(event, "status")},
              {"expected", expected},
              {"log", text_at(event, "log")}};
  if (load != loads_.end() && load->second->attempt != 0) row["attempt"] = load->second->attempt;
  record(std::move(row));
  if (load != loads_.end()) {
    LoadTask& task = *load->second;
    task.gone = true;
    const std::string why = what + " ended by itself: " + text_at(event, "status");
    if (!task.done && !expected && task.collects && timeline_began_) {
      task.done = true;
      collector_lost(task, {Code::kPeerLost, why});
    } else if (!task.done && !expected && !lost_rank(task, why)) {
      fail({Code::kPeerLost, why}, task.load->name, node);
    }
    return begin_attempt_when_all_are_gone(task.span);
  }
  services_.erase(what);
  if (expected || stage_ != Stage::kServices)
    return;  // later, the users' requests say what it means
  const Code code = says_port_taken(event) ? Code::kRefused : Code::kSystem;
  fail({code, what + " did not start (" + text_at(event, "status") + "): " + text_at(event, "log")},
       what, node);
}

void Run::node_lost(const std::string& node, const Error& error) {
  if (stage_ == Stage::kDone) return;
  record({{"row", "lost"},
          {"node", node},
          {"at", world_.now(Clock::kMonotonic).count()},
          {"why", error.message}});
  for (const auto& [name, task] : loads_)
    if (task->node == node) task->gone = task->done = true;
  std::erase_if(services_, [&](const auto& entry) { return entry.second == node; });
  probes_.node_lost(node);
  for (const auto& fault : faults_)
    if (fault->node() == node) fault->node_lost();
  fail({error.code, "node " + node + " is lost: " + error.message}, node, node);
}

}  // namespace mixproof
