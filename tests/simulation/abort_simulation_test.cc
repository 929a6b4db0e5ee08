// Runs with signals and aborts over the simulated World, judged from what they recorded.
#include <map>

#include "suites/judge.h"
#include "suites/signal_check.h"
#include "tests/simulation/simulated_run.h"

namespace mixproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The phase "stall" lasts 30 s, its fault from 3 to 7 s.
Plan watched_plan(double for_s = 2, double no_data_s = 0) {
  Plan plan = stall_plan();
  SignalPlan queue;
  queue.name = "queue";
  queue.on = "edge";
  queue.page = "llm";
  queue.series = "depth";
  queue.combine = "max";
  queue.instances = {"llm[0]", "llm[1]"};
  plan.signals = {queue};
  AbortPlan busy;
  busy.id = "busy";
  busy.signal = "queue";
  busy.at_most = 50;
  busy.for_s = for_s;
  busy.no_data_s = no_data_s;
  busy.why = "w";
  plan.aborts = {busy};
  plan.collectors = collectors_of(plan);
  return plan;
}

// A run whose collector reads `value` from so long after the fault has become effective.
class WatchedRun : public SimulatedRun {
 public:
  WatchedRun(std::uint64_t seed, const Plan& plan) : SimulatedRun(seed, plan), plan_(plan) {
    simulation.node("edge-0").signal = [this](Time now) -> std::optional<double> {
      const std::optional<Time> since = effective();
      if (!since || now - *since < after || now - *since >= until) return 3.0;
      return value;
    };
  }

  std::optional<double> value = 60;
  Time after{0}, until = seconds(1000);

  Judgement judgement() const { return judge(plan_, rows); }
  Json abort_check() const { return judgement().checks.back(); }
  Time ran_for() const {  // from the first phase to the stop
    return Time(integer_at(of("stop")[0], "at") - integer_at(of("phase")[0], "begin"));
  }

 private:
  std::optional<Time> effective() {
    if (!effective_ && last_fault_state() == "effective") effective_ = simulation.now();
    return effective_;
  }

  Plan plan_;
  std::optional<Time> effective_;
};

TEST(AbortSimulation, AValueOutsideForSoLongEndsTheRunAndRevertsFirst) {
  WatchedRun world(400, watched_plan());
  world.to_the_end();
  ASSERT_EQ(world.of("abort").size(), 1u);
  EXPECT_EQ(text_at(world.of("abort")[0], "abort"), "busy");
  EXPECT_EQ(number_at(world.of("abort")[0], "value"), 60);
  EXPECT_EQ(text_at(world.of("stop")[0], "why").find("abort busy: queue 60"), 0u)
      << text_at(world.of("stop")[0], "why");
  EXPECT_LT(world.ran_for(), seconds(14)) << "of 36";
  EXPECT_FALSE(world.run->failure().has_value());
  EXPECT_EQ(world.last_fault_state(), "clean");
  EXPECT_FALSE(world.paused());
  EXPECT_EQ(world.left_behind(), 0);
  EXPECT_FALSE(flag_at(world.of("phase_end").back(), "complete"));
  EXPECT_EQ(text_at(world.abort_check(), "status"), "fail") << world.abort_check();
  EXPECT_EQ(integer_at(world.judgement().verdict, "exit_code"), 1);
}

TEST(AbortSimulation, ASpikeShorterThanThatDoesNot) {
  WatchedRun world(401, watched_plan());
  world.until = milliseconds(1900);
  world.to_the_end();
  EXPECT_TRUE(world.of("abort").empty());
  EXPECT_EQ(text_at(world.of("stop")[0], "why"), "end");
  EXPECT_EQ(text_at(world.abort_check(), "status"), "pass") << world.abort_check();
  EXPECT_EQ(number_at(world.abort_check()["observed"], "value"), 60) << "it did look";
}

TEST(AbortSimulation, AnAbortThatIsNotWatchedInThisPhaseDoesNothing) {
  Plan plan = watched_plan();
  plan.aborts[0].phases = {"baseline"};
  WatchedRun world(402, plan);
  world.to_the_end();
  EXPECT_TRUE(world.of("abort").empty());
  EXPECT_EQ(text_at(world.abort_check(), "status"), "pass") << world.abort_check();
}

TEST(AbortSimulation, SilenceEndsTheRunWhereTheAbortSaysSo) {
  WatchedRun world(403, watched_plan(2, 4));
  world.value.reset();
  world.to_the_end();
  ASSERT_EQ(world.of("abort").size(), 1u);
  EXPECT_TRUE(world.of("abort")[0]["value"].is_null());
  EXPECT_EQ(world.last_fault_state(), "clean");
  EXPECT_EQ(world.left_behind(), 0);
  EXPECT_EQ(text_at(world.abort_check(), "status"), "inconclusive") << world.abort_check();
  EXPECT_EQ(integer_at(world.judgement().verdict, "exit_code"), 2);
}

TEST(AbortSimulation, WithoutThatSilenceOnlyLeavesItUndecided) {
  WatchedRun world(404, watched_plan());
  world.value.reset();
  world.to_the_end();
  EXPECT_TRUE(world.of("abort").empty());
  EXPECT_EQ(text_at(world.abort_check(), "status"), "inconclusive") << world.abort_check();
}

TEST(AbortSimulation, ADeadCollectorIsSilenceAndNoErrorOfTheRun) {
  WatchedRun world(405, watched_plan(2, 4));
  world.value = 3;
  ASSERT_TRUE(
      world.simulation.run_until([&] { return world.of("phase").size() == 2; }, seconds(60)));
  // Two workers run there: the users' load, and the collector, which is the older one by name.
  SimProcess* collector = nullptr;
  for (SimProcess* process : world.simulation.living("edge-0"))
    if (process->program() == "worker" &&
        (collector == nullptr || process->pid() < collector->pid()))
      collector = process;
  ASSERT_NE(collector, nullptr);
  world.simulation.kill(collector->pid());
  world.to_the_end();
  EXPECT_FALSE(world.run->failure().has_value());
  ASSERT_EQ(world.of("abort").size(), 1u);
  EXPECT_EQ(integer_at(world.judgement().verdict, "exit_code"), 2);
  EXPECT_EQ(world.left_behind(), 0);
}

TEST(AbortSimulation, UsersWhoGetNoGoodAnswersEndTheRun) {
  Plan plan = stall_plan();
  plan.loads[0].slo = Slo{0.5, 1, 1, 10};
  AbortPlan users;
  users.id = "users";
  users.load = "users";
  users.good_share_at_least = 0.7;
  users.over_s = 3;
  users.least_requests = 10;
  users.why = "w";
  plan.aborts = {users};
  WatchedRun world(406, plan);
  world.to_the_end();
  ASSERT_EQ(world.of("abort").size(), 1u) << "half of the requests wait for the stall to end";
  EXPECT_EQ(world.last_fault_state(), "clean");
  EXPECT_EQ(text_at(world.abort_check(), "status"), "fail") << world.abort_check();
  plan.phases[1].faults.clear();
  WatchedRun calm(406, plan);
  calm.to_the_end();
  EXPECT_TRUE(calm.of("abort").empty());
  EXPECT_EQ(text_at(calm.abort_check(), "status"), "pass") << calm.abort_check();
}

// An abort may come at any moment of a fault's life; whatever dies beside it, the run ends, nothing
// stays paused, and what is not proved clean never reads so.
TEST(AbortSimulation, AnAbortAtAnyMomentTakesTheWayOut) {
  for (std::uint64_t seed = 420; seed < 460; ++seed) {
    WatchedRun world(seed, watched_plan(0));
    Random random(seed, "abort");
    const Time when = milliseconds(random.below(20'000));
    world.simulation.node("edge-0").signal = [when](Time now) {
      return std::optional<double>(now > when ? 60 : 3);
    };
    if (random.below(3) == 0)
      world.simulation.at(when + milliseconds(random.below(1500)), [&world] {
        if (SimProcess* guard = world.simulation.find("guard", "serve-0"))
          world.simulation.kill(guard->pid());
      });
    world.to_the_end();
    EXPECT_EQ(world.of("abort").size(), 1u) << seed;
    EXPECT_FALSE(world.paused()) << seed;
    EXPECT_EQ(world.left_behind(), 0) << seed << ": " << world.names_left();
    const std::string last = world.last_fault_state();
    const auto code = integer_at(world.judgement().verdict, "exit_code");
    EXPECT_EQ(code, last == "dirty" ? 5 : 1) << seed << " " << last;
  }
}

}  // namespace
}  // namespace mixproof
