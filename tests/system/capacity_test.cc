// The probe capacity against null servers whose capacity is known. It measures, so nothing else may
// run at its side.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/probes/capacity_runs.h"
#include "tests/probes/inference/running_null_server.h"

namespace mixproof {
namespace {

using capacity_runs::find, capacity_runs::find_undisturbed, capacity_runs::Found;
using inference::RunningNullServer;

// Four at once, 20 ms each: 200 a second, and no more.
TEST(Capacity, FindsTheRateThatSlotsAndAnswerTimeAllow) {
  const RunningNullServer server(10, 10, 4);
  const Found found =
      find_undisturbed(server.url(), {{"rate_low_per_s", 80}, {"rate_high_per_s", 800}});
  ASSERT_TRUE(found.status.ok()) << found.status.error().message;
  EXPECT_TRUE(found.checked.ok());
  ASSERT_NE(found.rate(), nullptr);
  const double rate = (*found.rate())["value"];
  EXPECT_GE(rate, 80);
  EXPECT_LE(rate, 200);
  const double not_proved = (*found.rate())["labels"]["not_proved_per_s"];
  EXPECT_GT(not_proved, rate);
  EXPECT_LE(not_proved, 2 * rate);
  bool refuted = false;
  for (const Json& row : found.rows)
    if (row["metric"] == "capacity.attainment" && row["labels"]["verdict"] == "refuted")
      refuted = refuted || row["labels"]["rate_per_s"] > 200;
  EXPECT_TRUE(refuted);
}

// 250 a second are too many for it, but the queue would only break the limit of 2 s much later.
TEST(Capacity, AGrowingQueueProvesNothingHoweverGoodTheAnswersAre) {
  const RunningNullServer server(10, 10, 4);
  const Found found = find_undisturbed(server.url(), {{"rate_low_per_s", 250},
                                                      {"rate_high_per_s", 400},
                                                      {"ttft_s", 2},
                                                      {"deadline_s", 5},
                                                      {"resolution", 1.2}});
  ASSERT_FALSE(found.status.ok());
  EXPECT_NE(found.status.error().message.find("the queue grows"), std::string::npos)
      << found.status.error().message;
  ASSERT_FALSE(found.rows.empty());
  EXPECT_TRUE(found.rows[0]["labels"]["queue_grows"]) << found.rows[0];
  EXPECT_EQ(found.rows[0]["value"], 1.0);
  EXPECT_EQ(found.rate(), nullptr);
}

TEST(Capacity, SaysThatTheTargetIsNotReachedAtTheLowestRate) {
  const RunningNullServer server(50, 10, 1);  // about 16 a second
  const Found found =
      find_undisturbed(server.url(), {{"rate_low_per_s", 100}, {"rate_high_per_s", 200}});
  ASSERT_FALSE(found.status.ok());
  EXPECT_NE(found.status.error().message.find("below 0.9 already at rate_low_per_s = 100"),
            std::string::npos)
      << found.status.error().message;
  EXPECT_EQ(found.rate(), nullptr);
  EXPECT_FALSE(found.checked.ok());
}

// Three in flight at most, and a hundred are needed: the client drops, the server is not to blame.
TEST(Capacity, ATrialThatTheClientSpoiledEndsTheSearch) {
  const RunningNullServer server(100, 10);
  const Found found =
      find(server.url(), {{"rate_low_per_s", 100}, {"rate_high_per_s", 800}, {"max_in_flight", 3}});
  ASSERT_FALSE(found.status.ok());
  EXPECT_NE(found.status.error().message.find("not a limit of the server: the client dropped"),
            std::string::npos)
      << found.status.error().message;
  EXPECT_EQ(found.rate(), nullptr);
}

}  // namespace
}  // namespace mixproof
