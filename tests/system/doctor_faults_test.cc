// `mixproof doctor faults` as a whole: every fault of the build, with its keepers killed.
#include <nlohmann/json.hpp>

#include "faults/fault.h"
#include "tests/system/lab_fixture.h"

namespace mixproof {
namespace {

class DoctorFaults : public LabSystem {};

TEST_F(DoctorFaults, EveryFaultWorksHereAndIsGoneOrSaysWhyItCannotBeHere) {
  const Outcome outcome = shell(format("%s doctor faults --json 2>/dev/null", kMixproofBinary));
  const Result<Json> json = parse_json(outcome.text, "doctor");
  ASSERT_TRUE(json.ok()) << outcome.text;
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(integer_at(*json, "exit_code", -1), 0);
  std::size_t passed = 0;
  ASSERT_EQ(json->at("faults").size(), all_faults().size());
  for (const Json& fault : json->at("faults")) {
    const std::string status = text_at(fault, "status");
    EXPECT_TRUE(status == "pass" || status == "not here") << fault;
    EXPECT_EQ(text_at(fault, "reason").empty(), status == "pass") << fault;
    if (status != "pass") {
      std::printf("%s\n", fault.dump().c_str());
      continue;
    }
    ++passed;
    EXPECT_GT(number_at(fault, "effective_s"), 0) << fault;
    EXPECT_GT(number_at(fault, "clean_s"), 0) << fault;
  }
  EXPECT_GE(passed, 4u) << "process_pause, process_kill, net_drop and disk_fill work in any lab";
}

// A shell lets its background commands ignore Ctrl-C.
TEST_F(DoctorFaults, InterruptedItIsNoPassAndLeavesNoLab) {
  const Outcome outcome =
      shell(format("sh -c '%s doctor faults --json & pid=$!; sleep 2; kill -INT $pid; wait $pid'",
                   kMixproofBinary));
  EXPECT_EQ(outcome.status, 3) << outcome.text;
  EXPECT_NE(outcome.text.find("interrupted after "), std::string::npos) << outcome.text;
  EXPECT_EQ(shell(lab_command("status")).text.find("doctor-"), std::string::npos);
}

TEST_F(DoctorFaults, OnlyKnowsTheFaultsOfTheBuild) {
  const Outcome outcome = shell(format("%s doctor faults --only net_dorp", kMixproofBinary));
  EXPECT_EQ(outcome.status, 4) << outcome.text;
  EXPECT_NE(outcome.text.find("did you mean net_drop?"), std::string::npos) << outcome.text;
}

}  // namespace
}  // namespace mixproof
