#include "harness/cli/plan_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

// The line of the plan that tells of its fault.
std::string fault_line(const Json& fault) {
  FakeRun run;
  run.suite["phases"][3]["faults"] = Json::array({fault});
  const std::string text = plan_text(run.plan());
  const std::size_t begin = text.find("fault ");
  return begin == std::string::npos ? text : text.substr(begin, text.find('\n', begin) - begin);
}

TEST(PlanText, AFaultThatIsOverAtOnceHasNoLength) {
  EXPECT_EQ(fault_line({{"fault", "process_kill"}, {"target", "llm[0]"}, {"at_s", 3}}),
            "fault process_kill on llm[0] at 3 s, over at once");
}

TEST(PlanText, AFaultThatLastsHasLengthAndLease) {
  EXPECT_EQ(
      fault_line({{"fault", "process_pause"}, {"target", "llm[0]"}, {"at_s", 3}, {"for_s", 4}}),
      "fault process_pause on llm[0] from 3 s for 4 s; lease 15 s, renewed every 5 s");
}

TEST(PlanText, AFaultBetweenNodesNamesBothSides) {
  EXPECT_EQ(
      fault_line({{"fault", "net_drop"},
                  {"target", "train-0"},
                  {"peers", Json::array({"train-1"})},
                  {"at_s", 3},
                  {"for_s", 4}}),
      "fault net_drop between train-0 and train-1 from 3 s for 4 s; lease 15 s, renewed every "
      "5 s");
}

TEST(PlanText, SignalsAndAbortsSayWhatIsReadAndWhatEndsTheRun) {
  FakeRun run;
  EXPECT_EQ(plan_text(run.plan()).find("signals"), std::string::npos);
  run.suite["signals"] = {
      {"queue", {{"page", "llm"}, {"series", "depth"}, {"labels", {{"q", "a"}}}, {"every_s", 2}}},
      {"errors", {{"prometheus", "http://10.0.0.9:9090"}, {"query", "rate(x[1m])"}}}};
  run.suite["aborts"] = Json::array({{{"id", "busy"},
                                      {"signal", "queue"},
                                      {"at_most", 50},
                                      {"for_s", 3},
                                      {"no_data_s", 10},
                                      {"phases", {"stall"}},
                                      {"why", "drains"}}});
  const std::string text = plan_text(run.plan());
  for (const char* line :
       {"  queue: depth q=a, sum over llm[0], llm[1], every 2 s from the first edge node\n",
        "  errors: rate(x[1m]), sum over 10.0.0.9:9090, every 1 s from the first edge node\n",
        "  abort/busy: unless queue <= 50, or beyond for less than 3 s, data at least every 10 s (in "
        "stall)\n    why: drains\n"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
}

}  // namespace
}  // namespace mixproof
