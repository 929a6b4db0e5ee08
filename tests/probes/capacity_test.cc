// The probe capacity against null servers whose capacity is known.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "probes/probe.h"
#include "tests/fake/row_list.h"
#include "tests/probes/inference/running_null_server.h"

namespace mixproof {

extern const ProbeSpec capacity_probe;

namespace {

using inference::RunningNullServer;

struct Found {
  Status status = ok();
  Status checked = ok();
  std::vector<Json> rows;

  const Json* rate() const {
    for (const Json& row : rows)
      if (row["metric"] == "capacity.rate") return &row;
    return nullptr;
  }
};

Found find(const std::string& url, const Json& changes) {
  Json params = {{"url", url},      {"answer_tokens", 2}, {"ttft_s", 0.4},  {"deadline_s", 2},
                 {"settle_s", 0.2}, {"trial_s", 1},       {"pause_s", 0},   {"confidence", 0.9},
                 {"max_trials", 6}, {"looks", 2},         {"resolution", 2}};
  params.update(changes);
  const auto probe = capacity_probe.create();
  Found out;
  out.status = read_params(params, probe->params());
  if (!out.status.ok()) return out;
  fake::RowList rows;
  ProbeContext context{.rows = rows};
  context.seed = 3;
  context.name = "capacity";
  context.info = Json::object();
  out.status = probe->prepare(context);
  if (out.status.ok()) out.status = probe->run(context);
  out.checked = probe->check(context);
  out.rows = rows.rows();
  return out;
}

// Four at once, 20 ms each: 200 a second, and no more.
TEST(Capacity, FindsTheRateThatSlotsAndAnswerTimeAllow) {
  const RunningNullServer server(10, 10, 4);
  const Found found = find(server.url(), {{"rate_low_per_s", 80}, {"rate_high_per_s", 800}});
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
  const Found found = find(server.url(), {{"rate_low_per_s", 250},
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
  const Found found = find(server.url(), {{"rate_low_per_s", 100}, {"rate_high_per_s", 200}});
  ASSERT_FALSE(found.status.ok());
  EXPECT_NE(found.status.error().message.find("below 0.9 already at rate_low_per_s = 100"),
            std::string::npos)
      << found.status.error().message;
  EXPECT_EQ(found.rate(), nullptr);
  EXPECT_FALSE(found.checked.ok());
}

TEST(Capacity, AServerThatIsGoneIsAnErrorAndNoCapacity) {
  std::string url;
  {
    const RunningNullServer server;
    url = server.url();
  }
  const Found found = find(url, {{"rate_low_per_s", 10}, {"rate_high_per_s", 20}});
  ASSERT_FALSE(found.status.ok());
  EXPECT_EQ(found.status.error().code, Code::kPeerLost);
  EXPECT_EQ(found.rate(), nullptr);
}

TEST(Capacity, AServerThatAnswersWithErrorsIsAnErrorAndNoCapacity) {
  const RunningNullServer server;
  const Found found =
      find(server.url(), {{"rate_low_per_s", 10}, {"rate_high_per_s", 20}, {"model", "http503"}});
  ASSERT_FALSE(found.status.ok());
  EXPECT_NE(found.status.error().message.find("HTTP_ERROR"), std::string::npos)
      << found.status.error().message;
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

TEST(Capacity, TheHighestRateMustLieAboveTheLowest) {
  const Found found = find("http://127.0.0.1:1", {{"rate_low_per_s", 10}, {"rate_high_per_s", 10}});
  ASSERT_FALSE(found.status.ok());
  EXPECT_EQ(found.status.error().code, Code::kInvalid);
}

}  // namespace
}  // namespace mixproof
