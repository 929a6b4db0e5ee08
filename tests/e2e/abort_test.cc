// A whole run that a signal of the real engines ends early.
#include <nlohmann/json.hpp>

#include "suites/services/service.h"
#include "tests/e2e/command.h"
#include "tests/fake/paths.h"

namespace mixproof {
namespace {

class AbortedRun : public LabRun {
 protected:
  void SetUp() override {
    LabRun::SetUp();
    const Status available = service_kind("llama_cpp")->available();
    if (!available.ok()) GTEST_SKIP() << available.error().message;
  }
};

TEST_F(AbortedRun, StopsAtOnceSaysWhyAndLeavesNothing) {
  const Ended ended =
      start_run({std::string(kSourceDir) + "/suites/smoke.json", "--seed", "4", "-o", "aborted",
                 "--set",
                 R"(signals={"slots": {"page": "llm", "series": "llamacpp:requests_processing"},)"
                 R"( "tokens": {"page": "llm", "series": "llamacpp:tokens_predicted_total",)"
                 R"( "as": "increase"}})",
                 "--set",
                 R"(aborts=[{"id": "idle", "signal": "slots", "at_least": 100, "for_s": 2,)"
                 R"( "why": "a bound that no engine of this size keeps"}])"})
          ->wait(Seconds(60));
  EXPECT_EQ(ended.status, 1) << ended.err;
  EXPECT_NE(ended.err.find("stopping: abort idle: slots"), std::string::npos) << ended.err;
  const Json seen = report("aborted");
  EXPECT_EQ(seen["verdict"]["deciding"], Json::array({"abort/idle"})) << seen["verdict"].dump(1);
  EXPECT_EQ(seen["safety"]["leftovers"].size(), 0u);
  bool told = false, tokens = false;
  for (const Json& event : seen["timeline"]["events"]) {
    if (text_at(event, "kind") != "abort") continue;
    told = true;
    EXPECT_GE(number_at(event, "at_s"), 1.5);
    EXPECT_LT(number_at(event, "at_s"), 8);
  }
  for (const Json& metric : seen["metrics"])
    if (text_at(metric, "id") == "signal.value" && text_at(metric["labels"], "signal") == "tokens")
      tokens = true;
  EXPECT_TRUE(told) << seen["timeline"]["events"].dump(1);
  EXPECT_TRUE(tokens);
  EXPECT_EQ(run({"rejudge", "aborted"}).status, 1);
}

}  // namespace
}  // namespace mixproof
