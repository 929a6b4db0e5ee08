// The probe capacity where nothing is measured: its parameters, and servers that give no answers.
// What it finds of servers that do: tests/system/capacity_test.cc.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/probes/capacity_runs.h"
#include "tests/probes/inference/running_null_server.h"

namespace mixproof {
namespace {

using capacity_runs::find, capacity_runs::Found;
using inference::RunningNullServer;

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

TEST(Capacity, TheHighestRateMustLieAboveTheLowest) {
  const Found found = find("http://127.0.0.1:1", {{"rate_low_per_s", 10}, {"rate_high_per_s", 10}});
  ASSERT_FALSE(found.status.ok());
  EXPECT_EQ(found.status.error().code, Code::kInvalid);
}

}  // namespace
}  // namespace mixproof
