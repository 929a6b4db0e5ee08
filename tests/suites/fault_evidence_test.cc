// What the rows of a fault prove, on one node and on several, and of a fault that is over at once.
#include "suites/fault_evidence.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "suites/evidence.h"
#include "suites/recovery.h"
#include "suites/validity.h"
#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

constexpr std::int64_t kMs = 1'000'000;

std::int64_t at(double seconds) { return FakeRows::kStart + FakeRows::ns(seconds); }

Json dropped(int packets) { return {{"counted", Json::array({Json{{"packets", packets}}})}}; }

// The phase "stall" goes from 56 to 76 s; its fault is due at 60 s.
struct Scene {
  Json suite = fake_suite();
  std::vector<Json> rows = {
      {{"row", "phase"},
       {"name", "stall"},
       {"begin", at(56)},
       {"settled", at(56)},
       {"end", at(76)}},
      {{"row", "phase_end"}, {"name", "stall"}, {"at", at(76)}, {"complete", true}},
      {{"row", "end"}, {"at", at(77)}}};
  Plan plan;
  Evidence evidence;

  void fault(const Json& entry) { suite["phases"][3]["faults"] = Json::array({entry}); }
  void state(const std::string& node, const std::string& name, double at_s,
             Json evidence_of_row = Json::object(), const std::string& detail = "") {
    rows.push_back({{"row", "fault"},
                    {"fault", "stall/0"},
                    {"node", node},
                    {"state", name},
                    {"at", at(at_s)},
                    {"uncertainty_ns", kMs},
                    {"detail", detail},
                    {"evidence", std::move(evidence_of_row)}});
  }
  JudgeInput read() {
    auto made = make_plan(suite, fake_catalogue(), 7);
    CHECK(made.ok());
    plan = std::move(*made);
    evidence = read_evidence(plan, rows);
    return {plan, evidence};
  }
  FaultFacts facts() { return all_faults_of(read()).at(0); }
};

// Between train-0 and train-1 for 4 s: a part on each of them.
struct Cut : Scene {
  Cut() {
    fault({{"fault", "net_drop"},
           {"target", "train-0"},
           {"peers", Json::array({"train-1"})},
           {"at_s", 4},
           {"for_s", 4}});
  }
  void good(const std::string& node, double on_s = 60.1, double off_s = 64.1) {
    state(node, "planned", 59);
    state(node, "injected", on_s);
    state(node, "effective", on_s + 0.5);
    state(node, "reverting", off_s, dropped(12));
    state(node, "clean", off_s + 0.5, {{"undone_at", at(off_s + 0.1)}});
  }
};

TEST(FaultOnSeveralNodes, IsEffectiveAndCleanWhenItIsSoOnAll) {
  Cut cut;
  cut.good("train-0", 60.1, 64.0);
  cut.good("train-1", 60.3, 64.4);
  const FaultFacts facts = cut.facts();
  EXPECT_TRUE(facts.injected && facts.clean && facts.touched);
  EXPECT_FALSE(facts.unsafe());
  EXPECT_EQ(facts.not_effective, "");
  EXPECT_EQ(facts.on, at(60.3)) << "when the last of them had it";
  EXPECT_EQ(facts.began, at(60.1) - kMs) << "when the first may have had it";
  EXPECT_EQ(*facts.off_low, at(64.1) - kMs) << "the first that was undone";
  EXPECT_EQ(*facts.off_high, at(64.5) + kMs) << "the last";
}

TEST(FaultOnSeveralNodes, OneThatHadNoEffectSpoilsIt) {
  Cut cut;
  cut.good("train-0");
  cut.state("train-1", "injected", 60.1);
  cut.state("train-1", "not_effective", 60.5, {}, "net.reachable was 1 during the fault");
  cut.state("train-1", "reverting", 64.1, dropped(3));
  cut.state("train-1", "clean", 64.5, {{"undone_at", at(64.2)}});
  const FaultFacts facts = cut.facts();
  EXPECT_TRUE(facts.clean);
  EXPECT_EQ(facts.not_effective,
            "fault stall/0 had no effect: train-1: net.reachable was 1 during the fault");
}

// The controller was killed right after it had told train-0 to inject: what train-1 says last does
// not speak for train-0.
TEST(FaultOnSeveralNodes, OneWhoseEndNobodySawIsUnsafeThoughTheOtherWasRefused) {
  Cut cut;
  cut.state("train-0", "planned", 59);
  cut.state("train-1", "refused", 60.1);
  EXPECT_TRUE(cut.facts().unsafe());
  cut.state("train-0", "not_injected", 61);
  EXPECT_FALSE(cut.facts().unsafe()) << "now it is known";
}

TEST(FaultOnSeveralNodes, OneThatWasNotProvedSpoilsIt) {
  Cut cut;
  cut.good("train-0");
  cut.state("train-1", "injected", 60.1);
  cut.state("train-1", "reverting", 64.1, dropped(3));
  cut.state("train-1", "clean", 64.5, {{"undone_at", at(64.2)}});
  EXPECT_EQ(cut.facts().not_effective, "fault stall/0 was injected but not proved effective");
}

TEST(FaultOnSeveralNodes, OneThatWasRefusedNeedsNoProofOfClean) {
  Cut cut;
  cut.good("train-0");
  cut.state("train-1", "planned", 59);
  cut.state("train-1", "refused", 60, {}, "another fault is on this node");
  const FaultFacts facts = cut.facts();
  EXPECT_FALSE(facts.injected);
  EXPECT_FALSE(facts.unsafe()) << "what was touched is clean";
  EXPECT_EQ(facts.not_effective, "fault stall/0 was never injected");
}

TEST(FaultOnSeveralNodes, RefusedOnAllIsNothing) {
  Cut cut;
  for (const char* node : {"train-0", "train-1"}) cut.state(node, "refused", 60);
  const FaultFacts facts = cut.facts();
  EXPECT_FALSE(facts.touched);
  EXPECT_FALSE(facts.unsafe());
  EXPECT_NE(facts.not_effective, "");
}

TEST(FaultOnSeveralNodes, OneThatIsDirtyIsUnsafeWhicheverCameLast) {
  for (const bool dirty_last : {true, false}) {
    Cut cut;
    if (dirty_last) cut.good("train-0");
    cut.state("train-1", "injected", 60.1);
    cut.state("train-1", "effective", 60.5);
    cut.state("train-1", "reverting", 64.1);
    cut.state("train-1", "dirty", 64.5, {}, "the table is still there");
    if (!dirty_last) cut.good("train-0");
    const FaultFacts facts = cut.facts();
    EXPECT_TRUE(facts.unsafe()) << dirty_last;
    EXPECT_EQ(facts.state, "dirty") << dirty_last;
    EXPECT_FALSE(facts.off_high.has_value()) << "nobody knows when it ended";
  }
}

TEST(FaultOnSeveralNodes, OneWithoutAnyRowWhenItsTimeHadComeIsUnsafe) {
  Cut cut;
  cut.good("train-0");
  const FaultFacts facts = cut.facts();
  EXPECT_FALSE(facts.injected);
  EXPECT_TRUE(facts.unsafe()) << "it may have been injected there; no row denies it";
}

TEST(FaultOnSeveralNodes, OneThatWasLostAfterItsInjectionIsUnsafe) {
  Cut cut;
  cut.state("train-1", "planned", 59);
  cut.state("train-1", "injected", 60.1);
  cut.good("train-0");
  const FaultFacts facts = cut.facts();
  EXPECT_TRUE(facts.unsafe());
  EXPECT_EQ(facts.state, "injected") << "what still has it decides, not the newest row";
}

TEST(FaultOnSeveralNodes, OneThatWasUndoneEarlySpoilsIt) {
  Cut cut;
  cut.good("train-0");
  cut.good("train-1", 60.1, 62);
  const FaultFacts facts = cut.facts();
  EXPECT_TRUE(facts.clean);
  EXPECT_NE(facts.not_effective.find("was undone early"), std::string::npos) << facts.not_effective;
}

TEST(FaultOnSeveralNodes, ARuleThatDroppedNothingHadNoEffectWhateverTheControlsSaw) {
  Cut cut;
  cut.good("train-0");
  cut.state("train-1", "injected", 60.1);
  cut.state("train-1", "effective", 60.5);
  cut.state("train-1", "reverting", 64.1, dropped(0));
  cut.state("train-1", "clean", 64.5, {{"undone_at", at(64.2)}});
  EXPECT_EQ(cut.facts().not_effective,
            "fault stall/0 had no effect: train-1: its rule dropped no packet");
}

TEST(FaultOnSeveralNodes, ANodeThatThePlanDoesNotNameMustBeCleanToo) {
  Cut cut;
  cut.good("train-0");
  cut.good("train-1");
  cut.state("serve-0", "injected", 61);
  EXPECT_TRUE(cut.facts().unsafe());
}

// Killed at some moment between 60.08 and 60.12 s; a new instance is ready at 65 s.
struct Kill : Scene {
  Kill() { fault({{"fault", "process_kill"}, {"target", "llm[0]"}, {"at_s", 4}}); }
  void good() {
    state("serve-0", "planned", 59);
    state("serve-0", "injected", 60.12, {{"began_at", at(60.08)}});
    state("serve-0", "effective", 60.4);
    state("serve-0", "reverting", 60.5);
    state("serve-0", "clean", 65, {{"undone_at", at(60.51)}});
  }
  void exit(const std::string& what, double at_s) {
    rows.push_back({{"row", "exit"},
                    {"what", what},
                    {"node", "serve-0"},
                    {"status", "signal 9"},
                    {"expected", false},
                    {"at", at(at_s)}});
  }
  bool explained() {
    for (const Problem& problem : phase_problems(read(), "stall"))
      if (problem.reason == "process_exit") return false;
    return true;
  }
  // Ten requests a second from 56 s on; bad from 60 s until the given time.
  void requests(double bad_until_s) {
    for (int i = 0; i < 199; ++i) {
      const double sched_s = 56 + 0.1 * i;
      const bool bad = sched_s >= 60.1 && sched_s < bad_until_s;
      rows.push_back({{"row", "request"},
                      {"load", "users"},
                      {"i", i},
                      {"sched", at(sched_s)},
                      {"send", at(sched_s)},
                      {"sent", at(sched_s)},
                      {"first", bad ? 0 : at(sched_s + 0.01)},
                      {"last", bad ? 0 : at(sched_s + 0.02)},
                      {"end", at(sched_s + 0.02)},
                      {"tokens", bad ? 0 : 2},
                      {"events", bad ? 0 : 2},
                      {"max_gap", 0},
                      {"outcome", bad ? "CONNECT_ERROR" : "OK"},
                      {"lag", 0}});
    }
  }
};

TEST(OneShotFault, HappenedBetweenItsBeginningAndItsAcknowledgement) {
  Kill kill;
  kill.good();
  const FaultFacts facts = kill.facts();
  EXPECT_EQ(facts.not_effective, "");
  EXPECT_TRUE(facts.clean);
  EXPECT_EQ(facts.began, at(60.08) - kMs);
  EXPECT_EQ(*facts.off_low, at(60.08) - kMs);
  EXPECT_EQ(*facts.off_high, at(60.12) + kMs) << "not when its guard had gone";
}

TEST(OneShotFault, HasAnEffectDelayAndNoRevertDelay) {
  Kill kill;
  kill.good();
  const FaultFacts facts = kill.facts();
  EXPECT_NEAR(*fault_delay(facts, "fault.effect_delay").value, 0.12, 1e-9);
  EXPECT_EQ(fault_delay(facts, "fault.revert_delay").missing, "one_shot");
}

TEST(OneShotFault, RecoveryCountsFromTheKillAndNotFromTheNewInstance) {
  Kill kill;
  kill.good();
  kill.requests(62);
  const JudgeInput input = kill.read();
  const Figure back = time_to_recover(input, "users", all_faults_of(input).at(0), 20);
  ASSERT_TRUE(back.value);
  // The last violation is scheduled at 61.9 s, the good run begins at 62.0 s.
  EXPECT_NEAR(back.interval->low, 61.9 - 60.121, 1e-6);
  EXPECT_NEAR(back.interval->high, 62.0 - 60.079, 1e-6);
}

TEST(OneShotFault, RecoveryThatIsNotSeenIsCensored) {
  Kill kill;
  kill.good();
  kill.requests(76);
  const JudgeInput input = kill.read();
  const Figure back = time_to_recover(input, "users", all_faults_of(input).at(0), 20);
  EXPECT_TRUE(back.censored);
}

TEST(OneShotFault, UsersWhoFeltNothingRecoveredAtOnce) {
  Kill kill;
  kill.good();
  kill.requests(0);
  const JudgeInput input = kill.read();
  const Figure back = time_to_recover(input, "users", all_faults_of(input).at(0), 20);
  ASSERT_TRUE(back.value);
  EXPECT_LE(*back.value, 0.2) << "the next request may have come that late";
}

TEST(OneShotFault, ThatDidNotComeBackIsUnsafe) {
  Kill kill;
  kill.state("serve-0", "injected", 60.12);
  kill.state("serve-0", "effective", 60.4);
  kill.state("serve-0", "reverting", 60.5);
  kill.state("serve-0", "dirty", 65, {}, "llm[0] did not come back");
  EXPECT_TRUE(kill.facts().unsafe());
}

// The agent sees the death before the guard has said that it is done.
TEST(OneShotFault, ExplainsTheDeathOfItsTarget) {
  Kill kill;
  kill.good();
  kill.exit("llm[0]", 60.09);
  EXPECT_TRUE(kill.explained());
}

TEST(OneShotFault, ExplainsNoOtherDeath) {
  for (const auto& [what, at_s] :
       {std::pair{"llm[1]", 60.1}, {"front[0]", 60.1}, {"llm[0]", 60.0}, {"llm[0]", 58.0}}) {
    Kill kill;
    kill.good();
    kill.exit(what, at_s);
    EXPECT_FALSE(kill.explained()) << what << " at " << at_s;
  }
}

TEST(OneShotFault, DoesNotExplainTheDeathOfTheNewInstance) {
  Kill kill;
  kill.good();
  kill.exit("llm[0]", 60.09);
  kill.exit("llm[0]", 70);
  EXPECT_FALSE(kill.explained());
}

TEST(OneShotFault, ThatWasNeverInjectedExplainsNothing) {
  Kill kill;
  kill.state("serve-0", "planned", 59);
  kill.state("serve-0", "refused", 60);
  kill.exit("llm[0]", 60.2);
  EXPECT_FALSE(kill.explained());
}

TEST(OneShotFault, ALoadThatPromisesToResumeMustHaveResumed) {
  Kill kill;
  kill.fault({{"fault", "process_kill"}, {"target", "trainer[1]"}, {"at_s", 4}});
  kill.state("train-1", "injected", 60.12, {{"began_at", at(60.08)}});
  kill.state("train-1", "effective", 60.4);
  kill.state("train-1", "clean", 60.6);
  kill.exit("trainer[1]", 60.1);
  EXPECT_TRUE(kill.explained()) << "this load makes no promise; its run is an error anyway";
  kill.suite["loads"]["trainer"]["on_loss"] = "resume";
  EXPECT_FALSE(kill.explained());
}

}  // namespace
}  // namespace mixproof
