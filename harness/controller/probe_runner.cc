#include "harness/controller/probe_runner.h"

#include <nlohmann/json.hpp>

namespace mixproof {
namespace {

constexpr Time kAnswer = std::chrono::seconds(5);

}  // namespace

ProbeRunner::ProbeRunner(World& world, Ask ask, std::function<void(const Json&)> on_row)
    : world_(world), ask_(std::move(ask)), on_row_(std::move(on_row)) {}

ProbeRunner::~ProbeRunner() {
  for (const auto& [name, task] : tasks_) world_.cancel(task->timer);
}

void ProbeRunner::run(const std::string& node, const std::string& probe, Json params,
                      const ProbeTargets& targets, Time deadline, Rows then) {
  const std::string name = "probe." + std::to_string(count_++);
  auto task = std::make_unique<Task>();
  task->node = node;
  task->then = std::move(then);
  task->timer = world_.after(deadline, [this, name] {
    const auto it = tasks_.find(name);
    if (it == tasks_.end()) return;
    it->second->error = Error{Code::kTimeout, "the probe did not end in time"};
    ask_(it->second->node, {{"do", "stop"}, {"what", name}, {"grace_ms", 500}}, kAnswer,
         [](const Result<Json>&) {});
    end(name);
  });
  tasks_[name] = std::move(task);
  Json request = {
      {"do", "start"},
      {"what", name},
      {"kind", "worker"},
      {"grouped", false},
      {"spec", {{"probe", probe}, {"params", std::move(params)}, {"name", name}, {"node", node}}}};
  if (!targets.empty()) request["resolve"] = {{"tasks", targets.tasks}, {"pids", targets.pids}};
  ask_(node, std::move(request), kAnswer, [this, name](const Result<Json>& reply) {
    const auto it = tasks_.find(name);
    if (reply.ok() || it == tasks_.end()) return;
    it->second->error = reply.error();
    end(name);
  });
}

void ProbeRunner::on_event(const std::string& what, const std::string& kind, const Json& event) {
  Task& task = *tasks_.at(what);
  if (kind == "row") {
    Json row = *member(event, "row");
    row["node"] = task.node;
    on_row_(row);
    task.rows.push_back(std::move(row));
  } else if (kind == "failed") {
    task.error = error_from_json(*member(event, "failed"));  // its exit follows
  } else if (kind == "done") {
    const Json* done = member(event, "done");
    const Json* check = done == nullptr ? nullptr : member(*done, "check");
    if (check == nullptr || !flag_at(*check, "ok"))
      task.error = check == nullptr ? Error{Code::kInternal, "no check"} : error_from_json(*check);
  } else if (kind == "exit") {
    if (!task.error && !flag_at(event, "expected"))
      task.error = Error{Code::kPeerLost, "the probe ended by itself: " + text_at(event, "status")};
    end(what);
  }
}

void ProbeRunner::node_lost(const std::string& node) {
  std::vector<std::string> here;
  for (const auto& [name, task] : tasks_)
    if (task->node == node) here.push_back(name);
  for (const std::string& name : here) {
    const auto it = tasks_.find(name);
    if (it == tasks_.end()) continue;
    it->second->error = Error{Code::kPeerLost, node + " is lost"};
    end(name);
  }
}

void ProbeRunner::end(const std::string& what) {
  const std::unique_ptr<Task> task = std::move(tasks_.extract(what).mapped());
  world_.cancel(task->timer);
  task->then(task->error ? Result<std::vector<Json>>(*task->error)
                         : Result<std::vector<Json>>(std::move(task->rows)));
}

}  // namespace mixproof
