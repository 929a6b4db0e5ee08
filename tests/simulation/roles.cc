// What runs in simulated processes: the real agent and guard, and models of workers and services.
#include <nlohmann/json.hpp>

#include "harness/agent/agent.h"
#include "tests/simulation/simulation.h"

namespace mixproof {
namespace {

constexpr Time kAnswerTime = std::chrono::milliseconds(20);  // of the model engine
constexpr Time kStepTime = std::chrono::milliseconds(50);    // of the model training

class AgentRole final : public SimRole {
 public:
  explicit AgentRole(SimProcess& process)
      : agent_(process, {.program = "mixproof",
                         .build = "sim",
                         .state_dir = "/state",
                         .operators = sim_operators(process)}) {
    agent_.start();
  }
  bool done() const override { return agent_.done(); }

 private:
  Agent agent_;
};

class GuardRole final : public SimRole {
 public:
  explicit GuardRole(SimProcess& process) : guard_(process, sim_operators(process)) {
    guard_.start();
  }
  bool done() const override { return guard_.done(); }

 private:
  Guard guard_;
};

class ServiceRole final : public SimRole {
 public:
  explicit ServiceRole(SimProcess& process) : broken_(process.node().broken_services) {}
  bool done() const override { return broken_; }

 private:
  bool broken_;
};

// A worker that models its probe from what the simulated node shows.
class WorkerRole final : public SimRole {
 public:
  explicit WorkerRole(SimProcess& process) : process_(process) {
    process_.listen({.on_line = [this](std::string_view line) { on_line(line); },
                     .on_end = [this] { done_ = true; },
                     .on_signal = {}});
  }
  bool done() const override { return done_; }

 private:
  void on_line(std::string_view line) {
    const Json message = *parse_json(line, "worker");
    if (const Json* spec = member(message, "worker")) return begin(*spec);
    if (text_at(message, "do") == "stop") {
      tell_arrivals();
      done_ = true;
    }
    if (text_at(message, "do") == "go") go(message.at("phases"));
  }

  void begin(const Json& spec) {
    spec_ = spec;
    const std::string probe = text_at(spec, "probe");
    if (integer_at(spec, "attempt") > 0) {
      if (process_.node().silent_workers) return;
      say({{"row",
            {{"row", "resume"}, {"rank", integer_at(spec, "rank")}, {"from_step", first_step()}}}});
    }
    say({{"ready", Json::object()}, {"info", {{"schedule_hash", "sim"}}}});
    if (probe == "http_ready") {
      const double deadline_s = number_at(spec.at("params"), "deadline_s");
      ask(process_.now(Clock::kMonotonic) + Time(static_cast<std::int64_t>(deadline_s * 1e9)));
    }
    if (probe == "process_progress") look();
    if (probe == "free_space") test_writes();
    if (probe == "reachability") ask();
  }

  // What was seen when it had waited for the last answers.
  void ask() {
    const Json params = spec_.at("params");
    const double length_s = number_at(params, "window_s") + 0.3;
    process_.after(Time(static_cast<std::int64_t>(length_s * 1e9)), [this, params] {
      std::map<std::string, double> best;
      for (const Json& target : params.at("targets")) {
        double& share = best[text_at(target, "name")];
        share = std::max(share, process_.simulation().answered(process_.node().name,
                                                               text_at(target, "address")));
      }
      for (const auto& [name, share] : best)
        say({{"row", {{"row", "reachability"}, {"of", name}, {"reachable", share}}}});
      finish();
    });
  }

  // A service answers at "sim:PROGRAM"; without an address it is taken to.
  void ask(Time deadline) {
    process_.after(std::chrono::milliseconds(300), [this, deadline] {
      const std::string url = text_at(spec_.at("params"), "url");
      if (url.empty() || process_.simulation().find(url.substr(4), process_.node().name) != nullptr)
        return finish();
      if (process_.now(Clock::kMonotonic) > deadline) return finish("did not answer in time");
      ask(deadline);
    });
  }

  void look() {
    const Json params = spec_.at("params");
    process_.after(Time(static_cast<std::int64_t>(number_at(params, "window_s") * 1e9)),
                   [this, params] {
                     bool seen = text_at(params, "control") == "positive";
                     for (const Json& one : params.at("processes")) {
                       const auto threads = process_.host().threads(process_from_json(one));
                       seen = seen || threads.ok();
                       const bool stopped = threads.ok() && threads->front().stopped();
                       say({{"row",
                             {{"row", "progress"},
                              {"of", text_at(one, "name")},
                              {"stopped_share", stopped ? 1.0 : 0.0},
                              {"gone_share", threads.ok() ? 0.0 : 1.0}}}});
                     }
                     finish(seen ? "" : "none of the processes was there");
                   });
  }

  void test_writes() {
    const Json params = spec_.at("params");
    process_.after(
        Time(static_cast<std::int64_t>(number_at(params, "window_s") * 1e9)), [this, params] {
          const auto space = process_.host().file_system(text_at(params, "path"));
          const bool refused = space.ok() && space->free_bytes < integer_at(params, "write_bytes");
          say({{"row", {{"row", "space"}, {"refused_share", refused ? 1.0 : 0.0}}}});
          finish();
        });
  }

  void go(const Json& phases) {
    phases_ = phases;
    const Time begin(integer_at(phases.front(), "begin_ns"));
    if (text_at(spec_, "probe") == "signals")
      sample(begin, 0);
    else if (text_at(spec_, "probe") == "inference")
      schedule(begin, 0);
    else
      step(std::max(begin, process_.now(Clock::kMonotonic)), first_step());
  }

  // A checkpoint every ten steps.
  int first_step() const { return static_cast<int>(integer_at(spec_, "steps_before") / 10 * 10); }

  Time end() const { return Time(integer_at(phases_.back(), "end_ns")); }

  // Every signal of the spec, once a second, to the end of the last phase.
  void sample(Time begin, int tick) {
    const Time when = begin + tick * std::chrono::seconds(1);
    if (when > end()) return finish();
    process_.at(Clock::kMonotonic, when, [this, begin, tick] {
      const auto& source = process_.node().signal;
      const auto value = source ? source(process_.simulation().now()) : std::nullopt;
      for (const Json& signal : spec_.at("params").at("signals"))
        for (const Json& from : signal.at("sources")) {
          Json row = {{"row", "signal"},
                      {"signal", text_at(signal, "name")},
                      {"instance", text_at(from, "instance")},
                      {"tick", tick},
                      {"at", process_.now(Clock::kMonotonic).count()}};
          if (value)
            row["value"] = *value;
          else
            row["no_data"] = "away";
          say({{"row", row}});
        }
      sample(begin, tick + 1);
    });
  }

  // Ten requests a second, over the engines of the other nodes in turn.
  void schedule(Time at, int index) {
    if (at >= end()) {
      process_.after(std::chrono::milliseconds(500), [this] {
        tell_arrivals();
        finish();
      });
      return;
    }
    process_.at(Clock::kMonotonic, at, [this, at, index] {
      answer(at, index);
      if (index % 10 == 9) client_row(at);  // once a second
      schedule(at + std::chrono::milliseconds(100), index + 1);
    });
  }

  void answer(Time scheduled, int index) {
    const std::string node = index % 2 == 0 ? "serve-0" : "serve-1";
    SimProcess* engine = process_.simulation().find("llm", node);
    if (engine == nullptr) return row(scheduled, index, "CONNECT_ERROR");
    if (process_.simulation().stopped(engine->pid())) {
      process_.after(kAnswerTime, [this, scheduled, index] { answer(scheduled, index); });
      return;
    }
    process_.after(kAnswerTime, [this, scheduled, index] { row(scheduled, index, "OK"); });
  }

  void client_row(Time at) {
    say({{"row",
          {{"row", "client"}, {"at", at.count()}, {"cpu", 0.2}, {"steal", 0}, {"dropped", 0}}}});
  }

  // Of the phases that were run to their end, as the real load does when it ends.
  void tell_arrivals() {
    if (text_at(spec_, "probe") != "inference" || !phases_.is_array()) return;
    for (const Json& phase : phases_)
      if (Time(integer_at(phase, "end_ns")) <= process_.now(Clock::kMonotonic))
        say({{"row",
              {{"row", "arrivals"},
               {"phase", text_at(phase, "name")},
               {"process", "constant"},
               {"deterministic", true},
               {"every", 1},
               {"n", (integer_at(phase, "end_ns") - integer_at(phase, "begin_ns")) / 100'000'000},
               {"unsent", 0},
               {"moved", 0},
               {"tolerance_s", 0.001},
               {"gap_distance", 0}}}});
  }

  void row(Time scheduled, int index, const std::string& outcome) {
    const std::int64_t now = process_.now(Clock::kMonotonic).count();
    say({{"row",
          {{"row", "request"},
           {"i", index},
           {"sched", scheduled.count()},
           {"send", scheduled.count()},
           {"first", now},
           {"last", now},
           {"end", now},
           {"tokens", 1},
           {"events", 1},
           {"outcome", outcome}}}});
  }

  void step(Time at, int index) {
    if (at >= end()) return finish();
    process_.at(Clock::kMonotonic, at + kStepTime, [this, at, index] {
      say({{"row",
            {{"row", "step"},
             {"rank", integer_at(spec_, "rank")},
             {"step", index},
             {"begin", at.count()},
             {"end", (at + kStepTime).count()}}}});
      step(at + kStepTime, index + 1);
    });
  }

  void finish(const std::string& trouble = "") {
    Json check = {{"ok", trouble.empty()}};
    if (!trouble.empty()) check.update({{"code", "unavailable"}, {"message", trouble}});
    say({{"done", {{"check", check}}}});
    done_ = true;
  }
  void say(const Json& message) { static_cast<void>(process_.tell_parent(line_of(message))); }

  SimProcess& process_;
  Json spec_, phases_;
  bool done_ = false;
};

}  // namespace

void start_role(SimProcess& process, const std::string& program) {
  if (program == "agent")
    process.run(std::make_unique<AgentRole>(process));
  else if (program == "guard")
    process.run(std::make_unique<GuardRole>(process));
  else if (program == "worker")
    process.run(std::make_unique<WorkerRole>(process));
  else
    process.run(std::make_unique<ServiceRole>(process));
}

}  // namespace mixproof
