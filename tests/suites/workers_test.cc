// Several workers share one schedule of a load: the judge sees one schedule, and looks at each
// worker by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "suites/evidence.h"
#include "suites/request_metrics.h"
#include "suites/validity.h"
#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

// A run of two workers on two nodes, each with the requests that are its own.
struct Scene {
  Scene() {
    FakeRun run;
    run.suite["nodes"]["edge"] = 2;
    run.suite["loads"]["users"]["params"]["workers"] = 2;
    plan = run.plan();
    for (Json& row : run.rows()) {
      const std::string kind = text_at(row, "row");
      if (kind == "request" && integer_at(row, "i") % 2 == 1) give_to_second(row);
      if (kind == "request") row["worker"] = integer_at(row, "i") % 2;
      if (kind == "client" || kind == "arrivals") {
        row["worker"] = 0;
        Json second = row;
        give_to_second(second);
        second["worker"] = 1;
        rows.push_back(second);
      }
      rows.push_back(row);
    }
  }

  // The same moments on the clock of the second node.
  static void give_to_second(Json& row) {
    for (const char* key : {"sched", "send", "sent", "head", "first", "last", "end", "at"})
      if (integer_at(row, key) != 0)
        row[key] = integer_at(row, key) + FakeRows::offset("edge-0") - FakeRows::offset("edge-1");
    row["node"] = "edge-1";
  }

  void announce(std::int64_t worker, std::int64_t in_baseline) {
    rows.push_back({{"row", "ready"},
                    {"what", "users"},
                    {"node", "edge-" + std::to_string(worker)},
                    {"info", {{"arrivals", {{"by_phase", {{"baseline", in_baseline}}}}}}}});
  }
  void erase(const std::function<bool(const Json&)>& which) { std::erase_if(rows, which); }

  std::int64_t requests_in_baseline() {
    std::int64_t count = 0;
    for (const Request& request : read().evidence.loads.at("users").requests)
      if (evidence.seconds(request.sched) < 22) ++count;
    return count;
  }

  JudgeInput read() {
    evidence = read_evidence(plan, rows);
    return {plan, evidence};
  }
  std::string problems() {
    std::string out;
    for (const Problem& problem : phase_problems(read(), "baseline")) out += problem.reason + " ";
    return out;
  }
  std::string trouble() {
    const JudgeInput input = read();
    const PhaseWindow& window = evidence.phases.at("baseline");
    return measurement_trouble(input, "users", window.settled, window.end);
  }

  Plan plan;
  std::vector<Json> rows;
  Evidence evidence;
};

bool is_of(const Json& row, const char* kind, std::int64_t worker) {
  return text_at(row, "row") == kind && integer_at(row, "worker") == worker;
}

TEST(Workers, TheirRowsMakeOneSchedule) {
  Scene scene;
  EXPECT_EQ(scene.problems(), "");
  EXPECT_EQ(scene.trouble(), "");
  const auto requests = measured_requests(scene.evidence, "users", "baseline");
  ASSERT_GT(requests.size(), 50u);
  for (std::size_t k = 1; k < requests.size(); ++k)
    EXPECT_EQ(requests[k]->index, requests[k - 1]->index + 1);
}

TEST(Workers, ThePartOfALostOneIsMissing) {
  Scene scene;
  scene.erase([](const Json& row) { return is_of(row, "request", 1); });
  EXPECT_NE(scene.problems().find("missing_rows"), std::string::npos);
}

TEST(Workers, WhatTheyAnnouncedTogetherMustHaveRows) {
  Scene scene;
  const std::int64_t all = scene.requests_in_baseline();
  scene.announce(0, (all + 1) / 2);
  scene.announce(1, all / 2);
  EXPECT_EQ(scene.problems(), "");
  Scene more;
  more.announce(0, (all + 1) / 2 + 400);
  more.announce(1, all / 2 + 400);
  EXPECT_NE(more.problems().find("missing_rows"), std::string::npos);
}

TEST(Workers, AnIdleOneDoesNotHideABusyOne) {
  Scene scene;
  for (Json& row : scene.rows)
    if (is_of(row, "client", 1)) row["cpu"] = 0.97;
  EXPECT_EQ(scene.trouble(), "the load generator used 97 % of its core");
}

TEST(Workers, EachMustSayHowBusyItWas) {
  Scene scene;
  scene.erase([](const Json& row) { return is_of(row, "client", 1); });
  EXPECT_EQ(scene.trouble(), "client rows of 1 of 2 workers tell how busy the load generator was");
}

TEST(Workers, EachMustTestItsArrivals) {
  Scene scene;
  scene.erase([](const Json& row) {
    return is_of(row, "arrivals", 1) && text_at(row, "phase") == "baseline";
  });
  EXPECT_EQ(scene.trouble(),
            "arrivals rows of 1 of 2 workers tell whether the requests of baseline arrived as "
            "declared");
  scene.erase([](const Json& row) { return is_of(row, "arrivals", 0); });
  EXPECT_EQ(scene.trouble(),
            "no arrivals row tells whether the requests of baseline arrived as declared");
}

// Two workers on one node are two: neither row stands for both.
TEST(Workers, ThoseOfOneNodeEachTestTheirArrivals) {
  Scene scene;
  for (Json& row : scene.rows)
    if (is_of(row, "arrivals", 1)) row["node"] = "edge-0";
  EXPECT_EQ(scene.trouble(), "");
  for (Json& row : scene.rows)
    if (is_of(row, "arrivals", 1)) row["worker"] = 0;
  EXPECT_NE(scene.trouble().find("arrivals rows of 1 of 2 workers"), std::string::npos);
}

// Two clocks may disagree by a little about which requests lie inside the window.
TEST(Workers, NeighboursThatSwapAtTheEdgeOfAWindowAreNotMissing) {
  Scene scene;
  const JudgeInput input = scene.read();
  const auto requests = measured_requests(input.evidence, "users", "baseline");
  const std::int64_t second = requests[1]->index,
                     settled = scene.evidence.phases.at("baseline").settled;
  const std::string node = requests[1]->node;
  for (Json& row : scene.rows)
    if (text_at(row, "row") == "request" && integer_at(row, "i") == second) {
      const std::int64_t shift =
          settled - 1000 - (integer_at(row, "sched") + FakeRows::offset(node));
      for (const char* key : {"sched", "send", "sent", "head", "first", "last", "end"})
        row[key] = integer_at(row, key) + shift;
    }
  EXPECT_EQ(scene.problems(), "");
}

TEST(ShortIsOk, CountsShortAnswersLikeCompleteOnesOnlyWhenTheLoadSaysSo) {
  for (const bool ok : {true, false}) {
    FakeRun run;
    run.suite["loads"]["users"]["params"]["short_is_ok"] = ok;
    const Plan plan = run.plan();
    std::vector<Json> rows = run.rows();
    for (Json& row : rows)
      if (text_at(row, "row") == "request" && integer_at(row, "i") == 3) row["outcome"] = "SHORT";
    const Evidence evidence = read_evidence(plan, rows);
    const auto& requests = evidence.loads.at("users").requests;
    const auto third = std::find_if(requests.begin(), requests.end(),
                                    [](const Request& request) { return request.index == 3; });
    EXPECT_EQ(third->is_ok, ok);
    EXPECT_EQ(third->outcome, "SHORT");
    EXPECT_EQ(is_good(*third, *plan.load("users")->slo), ok);
  }
}

}  // namespace
}  // namespace mixproof
