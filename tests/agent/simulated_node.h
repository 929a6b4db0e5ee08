// One simulated node with two processes to pause, and whoever starts guards and agents there.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "faults/fault.h"
#include "harness/agent/recover.h"
#include "tests/simulation/simulation.h"

namespace mixproof {

class SimulatedNode {
 public:
  static constexpr const char* kState = "/state";

  explicit SimulatedNode(std::uint64_t seed = 1)
      : simulation(seed),
        node(simulation.add_node("n0")),
        boss(&simulation.start_root("n0", "boss")),
        one(&simulation.start_root("n0", "one")),
        two(&simulation.start_root("n0", "two")) {}

  FaultPlan pause_both() const {
    FaultPlan plan;
    for (SimProcess* victim : {one, two})
      plan.steps.push_back({When::kInject, HoldStopped{victim->self()}, Lease::kKernel});
    return plan;
  }

  Json order(const std::string& fault = "p/0", int lease_ms = 15000) const {
    return {{"guard",
             {{"run", "r"},
              {"fault", fault},
              {"node", "n0"},
              {"state_dir", kState},
              {"plan", fault_plan_to_json(pause_both())},
              {"lease_ms", lease_ms},
              {"cgroup", "mixproof/n0/guard." + fault}}}};
  }

  // A guard with its first line; what it says goes to `said`.
  Child& start_guard(const Json& first) {
    auto child = boss->spawn(
        {.argv = {"mixproof", "guard"}, .outlives_parent = true},
        {.on_line = [this](std::string_view line) { said.push_back(*parse_json(line, "guard")); },
         .on_exit = {}});
    guards_.push_back(std::move(child.value()));
    EXPECT_TRUE(guards_.back()->send(line_of(first)).ok());
    return *guards_.back();
  }
  void forget_guards() { guards_.clear(); }  // closes their input

  std::vector<std::string> states() const {
    std::vector<std::string> out;
    for (const Json& line : said) out.push_back(text_at(line, "state"));
    return out;
  }
  std::string last_state() const { return said.empty() ? "" : text_at(said.back(), "state"); }
  bool until_state(const std::string& state, Time limit = std::chrono::seconds(60)) {
    return simulation.run_until([&] { return last_state() == state; }, simulation.now() + limit);
  }
  void pass(Time time) {
    simulation.run_until([] { return false; }, simulation.now() + time);
  }
  bool guard_lives() { return simulation.find("guard", "n0") != nullptr; }
  int paused() const {
    return (simulation.stopped(one->pid()) ? 1 : 0) + (simulation.stopped(two->pid()) ? 1 : 0);
  }

  std::string journal_file(const std::string& fault = "p/0") const {
    return journal_path(kState, "r", fault);
  }
  JournalState journal(const std::string& fault = "p/0") {
    const auto records = decode_journal(node.files[journal_file(fault)], "journal");
    EXPECT_TRUE(records.ok()) << records.error().message;
    return records.ok() ? journal_state(*records) : JournalState();
  }
  std::vector<std::string> record_types() {
    std::vector<std::string> out;
    const auto records = decode_journal(node.files[journal_file()], "journal");
    if (records.ok())
      for (const Json& record : records->records) out.push_back(text_at(record, "type"));
    return out;
  }

  // `recover`, by a process that has just been started for it.
  std::vector<FaultOnNode> recover() {
    SimProcess& process = simulation.start_root("n0", "recover");
    const auto faults = recover_faults(process, kState, sim_operators(process));
    EXPECT_TRUE(faults.ok()) << faults.error().message;
    simulation.kill(process.pid());
    return faults.ok() ? *faults : std::vector<FaultOnNode>();
  }
  std::vector<FaultOnNode> survey() { return survey_faults(*boss, kState).value(); }

  Simulation simulation;
  SimNode& node;
  SimProcess* boss;
  SimProcess* one;
  SimProcess* two;
  std::vector<Json> said;

 private:
  std::vector<std::unique_ptr<Child>> guards_;
};

}  // namespace mixproof
