// Aborts of a made-up run: what their checks say, and what the verdict makes of it.
#include "suites/aborts.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "suites/judge.h"
#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

std::int64_t ns(double seconds) { return FakeRows::ns(seconds); }

AbortPlan plan_of(double at_most, double for_s) {
  AbortPlan plan;
  plan.id = "busy";
  plan.signal = "queue";
  plan.at_most = at_most;
  plan.for_s = for_s;
  return plan;
}

TEST(AbortCondition, HoldsWhenNoSampleLayWithinForSoLong) {
  const AbortPlan plan = plan_of(10, 3);
  AbortCondition condition(plan);
  for (const double at_s : {1.0, 2.0, 3.0}) EXPECT_FALSE(condition.sample(ns(at_s), 11));
  EXPECT_FALSE(condition.sample(ns(3.5), 10)) << "one within: the time begins anew";
  EXPECT_FALSE(condition.sample(ns(4), 12));
  EXPECT_FALSE(condition.sample(ns(6.9), 12));
  const auto trigger = condition.sample(ns(7), 13);
  ASSERT_TRUE(trigger.has_value());
  EXPECT_EQ(trigger->at, ns(7));
  EXPECT_EQ(trigger->value, 13);
  EXPECT_EQ(condition.worst(), 13);
}

TEST(AbortCondition, WithoutATimeOneSampleIsEnough) {
  const AbortPlan plan = plan_of(10, 0);
  AbortCondition condition(plan);
  EXPECT_FALSE(condition.sample(1, 10));
  EXPECT_TRUE(condition.sample(2, 10.001).has_value());
}

TEST(AbortCondition, AResetForgets) {
  const AbortPlan plan = plan_of(10, 3);
  AbortCondition condition(plan);
  EXPECT_FALSE(condition.sample(ns(1), 11));
  condition.reset();
  EXPECT_FALSE(condition.sample(ns(5), 11));
}

TEST(AbortCondition, ALowerBoundIsWatchedToo) {
  AbortPlan plan = plan_of(10, 0);
  plan.at_most.reset();
  plan.at_least = 2;
  AbortCondition condition(plan);
  EXPECT_FALSE(condition.sample(1, 2));
  EXPECT_TRUE(condition.sample(2, 1.5).has_value());
  EXPECT_EQ(condition.worst(), 1.5);
}

TEST(AbortCondition, TheShareOfGoodRequestsRollsOn) {
  AbortPlan plan;
  plan.id = "users";
  plan.load = "users";
  plan.good_share_at_least = 0.5;
  plan.over_s = 10;
  plan.least_requests = 4;
  AbortCondition condition(plan);
  EXPECT_FALSE(condition.request(ns(1), false));
  EXPECT_FALSE(condition.request(ns(2), false)) << "too few to say";
  EXPECT_FALSE(condition.request(ns(3), false));
  EXPECT_TRUE(condition.request(ns(4), true).has_value()) << "one of four";
  condition.reset();
  for (int i = 0; i < 8; ++i) EXPECT_FALSE(condition.request(ns(20 + i), true));
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(condition.request(ns(28 + 0.1 * i), false)) << i;
  // At 31 s, those of 20 and 21 s have left: six good, five bad; at 34 s four and six.
  EXPECT_FALSE(condition.request(ns(31), false));
  EXPECT_FALSE(condition.request(ns(31.1), true));
  const auto trigger = condition.request(ns(34), false);
  ASSERT_TRUE(trigger.has_value());
  EXPECT_NE(trigger->detail.find("4 of 10 requests of users good"), std::string::npos)
      << trigger->detail;
}

struct AbortRun {
  Json abort = {{"id", "busy"}, {"signal", "queue"}, {"at_most", 10}, {"for_s", 3}, {"why", "w"}};
  std::function<Json(double at_s)> value = [](double) { return 3; };
  FakeRun run;

  Judgement judgement() {
    FakeRun made = run;
    made.suite["signals"] = {{"queue", {{"page", "front"}, {"series", "depth"}}}};
    made.suite["aborts"] = Json::array({abort});
    const double end_s = run.last_phase == "contention" ? 56 : 76;
    for (std::int64_t tick = 0; static_cast<double>(tick) < end_s; ++tick) {
      const double at_s = static_cast<double>(tick) + 0.25;
      Json row = {{"row", "signal"},
                  {"load", "signals@edge"},
                  {"node", "edge-0"},
                  {"signal", "queue"},
                  {"instance", "front[0]"},
                  {"tick", tick},
                  {"at", FakeRows::kStart + ns(at_s) - FakeRows::offset("edge-0")}};
      const Json one = value(at_s);
      row[one.is_string() ? "no_data" : "value"] = one;
      made.extra.push_back(std::move(row));
    }
    return judge(made.plan(), made.rows());
  }
  void ended_by_abort(const Json& measured, const char* detail) {
    run.last_phase = "contention";
    run.complete = false;
    run.stop_why = "abort busy: " + std::string(detail);
    run.extra = {{{"row", "abort"},
                  {"abort", "busy"},
                  {"at", FakeRows::kStart + ns(50)},
                  {"value", measured},
                  {"detail", detail}}};
  }
};

Json abort_check(const Judgement& judgement) { return judgement.checks.back(); }

void expect(const Judgement& judgement, const char* status, const char* reason) {
  const Json check = abort_check(judgement);
  EXPECT_EQ(text_at(check, "id"), "abort/busy");
  EXPECT_EQ(text_at(check, "status"), status) << check.dump(1);
  EXPECT_EQ(text_at(check, "reason"), reason) << check.dump(1);
}

TEST(Aborts, OneThatWasWatchedToTheEndPasses) {
  AbortRun run;
  const Judgement judgement = run.judgement();
  expect(judgement, "pass", "abort_quiet");
  EXPECT_EQ(text_at(abort_check(judgement), "rule"), "queue <= 10, or beyond for less than 3 s");
  EXPECT_EQ(text_at(judgement.verdict, "status"), "pass");
}

TEST(Aborts, ShortSpikesAreNone) {
  AbortRun run;
  run.value = [](double at_s) { return static_cast<int>(at_s) % 4 == 0 ? 3 : 50; };
  expect(run.judgement(), "pass", "abort_quiet");  // outside at three samples, over 2 s
}

TEST(Aborts, ATriggeredOneFailsTheRunAndIsWhatDecidedIt) {
  AbortRun run;
  run.ended_by_abort(37, "queue 37");
  const Judgement judgement = run.judgement();
  expect(judgement, "fail", "abort_held");
  EXPECT_NE(text_at(abort_check(judgement), "detail").find("ended the run at 50.0 s: queue 37"),
            std::string::npos);
  EXPECT_EQ(text_at(judgement.verdict, "status"), "fail");
  EXPECT_EQ(integer_at(judgement.verdict, "exit_code"), 1);
  EXPECT_EQ(judgement.verdict["deciding"], Json::array({"abort/busy"}));
  EXPECT_EQ(integer_at(judgement.verdict["counts"], "error"), 4) << "what was not measured says so";
}

TEST(Aborts, OneForWantOfDataIsInconclusive) {
  AbortRun run;
  run.abort["no_data_s"] = 5;
  run.ended_by_abort(nullptr, "signal queue without data for 5.0 s");
  const Judgement judgement = run.judgement();
  expect(judgement, "inconclusive", "abort_no_data");
  EXPECT_EQ(integer_at(judgement.verdict, "exit_code"), 2);
}

TEST(Aborts, AFaultThatIsNotCleanIsStillUnsafe) {
  AbortRun run;
  run.ended_by_abort(37, "queue 37");
  run.run.last_phase = "stall";
  run.run.clean = false;
  EXPECT_EQ(integer_at(run.judgement().verdict, "exit_code"), 5);
}

TEST(Aborts, ARunThatEndedOtherwiseLeavesThemUnwatched) {
  AbortRun run;
  run.run.last_phase = "contention";
  run.run.stop_why = "signal SIGTERM";
  expect(run.judgement(), "error", "not_run");
  run.abort["phases"] = {"baseline"};
  expect(run.judgement(), "pass", "abort_quiet");
}

TEST(Aborts, AnAbortThatThePlanDoesNotKnowExplainsNothing) {
  AbortRun run;
  run.ended_by_abort(37, "queue 37");
  run.run.extra[0]["abort"] = "other";
  EXPECT_EQ(text_at(run.judgement().verdict, "status"), "error");
}

TEST(Aborts, OneThatTheRecordingShowsButNobodyActedOnFails) {
  AbortRun run;
  run.value = [](double at_s) { return at_s > 40 && at_s < 45 ? 50 : 3; };
  expect(run.judgement(), "fail", "abort_missed");
  run.abort["phases"] = {"baseline", "stall"};
  expect(run.judgement(), "pass", "abort_quiet");
}

TEST(Aborts, WatchedByTooLittleIsNoPass) {
  AbortRun run;
  run.value = [](double at_s) { return at_s > 3 && at_s < 9 ? Json("away") : Json(3); };
  expect(run.judgement(), "inconclusive", "signal_gaps");
  run.value = [](double at_s) { return at_s > 3 && at_s < 7 ? Json("away") : Json(3); };
  expect(run.judgement(), "pass", "abort_quiet");
  run.abort["no_data_s"] = 4;
  expect(run.judgement(), "inconclusive", "signal_gaps");
  run.abort.erase("no_data_s");
  run.value = [](double) { return "away"; };
  expect(run.judgement(), "inconclusive", "signal_gaps");
}

TEST(Aborts, AnotherWatchesAUsersOwnShare) {
  AbortRun run;
  run.abort = {{"id", "busy"}, {"load", "users"}, {"good_share_at_least", 0.5},
               {"over_s", 5},  {"why", "w"},      {"phases", {"contention"}}};
  expect(run.judgement(), "pass", "abort_quiet");
  EXPECT_EQ(text_at(abort_check(run.judgement()), "rule"), "good share of users >= 0.5 over 5 s");
  run.run.violations = 60;
  expect(run.judgement(), "fail", "abort_missed");
  run.run.violations = 0;
  run.abort["least_requests"] = 100'000;
  expect(run.judgement(), "inconclusive", "signal_gaps");
}

// A client that stands still makes its users look bad; that says nothing about the server.
TEST(Aborts, WhatTheClientItselfDidNeitherFailsNorPasses) {
  AbortRun run;
  run.abort = {{"id", "busy"}, {"load", "users"}, {"good_share_at_least", 0.5},
               {"over_s", 5},  {"why", "w"},      {"phases", {"contention"}}};
  run.run.client_delay_s = 0.05;
  expect(run.judgement(), "inconclusive", "measurement_invalid");
  run.run.violations = 60;
  expect(run.judgement(), "inconclusive", "measurement_invalid");
  run.ended_by_abort(0.4, "4 of 10 requests of users good");
  expect(run.judgement(), "inconclusive", "measurement_invalid");
  run.run.client_delay_s = FakeRun{}.client_delay_s;
  expect(run.judgement(), "fail", "abort_held");
}

}  // namespace
}  // namespace mixproof
