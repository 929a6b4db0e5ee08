// One controller over a simulated cluster of five nodes, and what it recorded.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/controller/run.h"
#include "tests/simulation/simulation.h"

namespace mixproof {

inline constexpr const char* kNodes[] = {"edge-0", "serve-0", "serve-1", "train-0", "train-1"};
inline constexpr const char* kFault = "stall/0";

inline Plan stall_plan() {
  Plan plan;
  plan.schema_version = kSuiteSchemaVersion;
  plan.name = "simulated";
  plan.seed = 7;
  for (const char* name : kNodes)
    plan.nodes.push_back({name, std::string(name).substr(0, std::string(name).find('-'))});
  ServicePlan llm;
  llm.name = "llm";
  llm.start = "llama_cpp";
  llm.on = "serve";
  llm.replicas = 2;
  llm.instances = {{"llm[0]", "serve-0", 8080}, {"llm[1]", "serve-1", 8080}};
  plan.services.push_back(llm);
  LoadPlan users;
  users.name = "users";
  users.probe = "inference";
  users.on = "edge";
  users.params = {{"deadline_s", 10}};
  users.nodes = {"edge-0"};
  LoadPlan trainer;
  trainer.name = "trainer";
  trainer.probe = "training";
  trainer.on = "train";
  trainer.params = Json::object();
  trainer.nodes = {"train-0", "train-1"};
  plan.loads = {users, trainer};
  PhasePlan baseline{.name = "baseline", .run = {"users"}, .settle_s = 1, .measure_s = 5};
  PhasePlan stall{.name = "stall", .run = {"users", "trainer"}, .settle_s = 1, .measure_s = 29};
  stall.begin_s = 6;
  FaultPlanEntry pause;
  pause.id = kFault;
  pause.fault = "process_pause";
  pause.target = "llm[0]";
  pause.at_s = 3;
  pause.for_s = 4;
  pause.params = Json::object();
  pause.parts = {{"serve-0", {}}};
  stall.faults = {pause};
  plan.phases = {baseline, stall};
  return plan;
}

class SimulatedRun {
 public:
  explicit SimulatedRun(std::uint64_t seed, Plan plan = stall_plan()) : simulation(seed) {
    simulation.add_node("controller");
    for (const char* name : kNodes) simulation.add_node(name);
    controller = &simulation.start_root("controller", "controller");
    RunSetup setup;
    setup.id = "run-1";
    setup.directory = "/run";
    setup.build = "sim";
    setup.plan = std::move(plan);
    for (const char* name : kNodes)
      setup.nodes.push_back({.name = name,
                             .role = "",
                             .address = "",
                             .prefix = {"on", name},
                             .agent = "mixproof",
                             .cgroup = std::string("mixproof/sim/") + name});
    for (const char* name : {"llm[0]", "llm[1]"})
      setup.services[name] = {.argv = {"llm"}, .ready_url = "sim:llm"};
    run = std::make_unique<Run>(
        *controller, std::move(setup),
        RunObserver{
            .note = {}, .phase = {}, .row = [this](const Json& row) { rows.push_back(row); }});
    run->start();
  }

  // Within a simulated five minutes, or the test fails: every run ends.
  void to_the_end() {
    ASSERT_TRUE(simulation.run_until([this] { return run->done(); }, std::chrono::seconds(300)))
        << "the run did not end";
  }

  std::vector<Json> of(const std::string& kind) const {
    std::vector<Json> out;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(out),
                 [&](const Json& row) { return text_at(row, "row") == kind; });
    return out;
  }
  std::vector<std::string> fault_states() const {
    std::vector<std::string> out;
    for (const Json& row : of("fault")) out.push_back(text_at(row, "state"));
    return out;
  }
  std::string last_fault_state() const {
    return fault_states().empty() ? "" : fault_states().back();
  }
  bool paused() {
    SimProcess* engine = simulation.find("llm", "serve-0");
    return engine != nullptr && simulation.stopped(engine->pid());
  }
  void until_paused() {
    ASSERT_TRUE(simulation.run_until([this] { return last_fault_state() == "effective"; },
                                     std::chrono::seconds(60)));
    ASSERT_TRUE(paused());
  }
  void until_free(Time limit) {
    const Time begin = simulation.now();
    ASSERT_TRUE(simulation.run_until([this] { return !paused(); }, begin + limit))
        << "still paused";
  }
  // Nothing of ours is left but the processes of a node whose agent nobody can reach.
  int left_behind() {
    int left = 0;
    for (const char* name : kNodes) left += static_cast<int>(simulation.living(name).size());
    return left;
  }

  std::string names_left() {
    std::string out;
    for (const char* name : kNodes)
      for (const SimProcess* process : simulation.living(name))
        out += process->program() + " on " + name + "; ";
    return out;
  }

  Simulation simulation;
  SimProcess* controller = nullptr;
  std::unique_ptr<Run> run;
  std::vector<Json> rows;
};

}  // namespace mixproof
