#include "reports/verdict.h"

#include <gtest/gtest.h>

namespace mixproof {
namespace {

using enum VerdictStatus;

RunOutcome run_of(std::vector<VerdictStatus> statuses) {
  RunOutcome run;
  for (const VerdictStatus status : statuses)
    run.checks.push_back({"p/" + std::string(status_name(status)), status, true});
  return run;
}

TEST(Verdict, TheGraverStatusWins) {
  EXPECT_EQ(decide(run_of({kPass, kPass})).exit_code, 0);
  EXPECT_EQ(decide(run_of({kPass, kInconclusive})).exit_code, 2);
  EXPECT_EQ(decide(run_of({kInconclusive, kError, kPass})).exit_code, 3);
  EXPECT_EQ(decide(run_of({kError, kInconclusive, kFail})).exit_code, 1);
  RunOutcome unsafe = run_of({kPass, kFail});
  unsafe.unsafe = true;
  EXPECT_EQ(decide(unsafe).exit_code, 5);
}

TEST(Verdict, NothingJudgedIsAnError) {
  EXPECT_EQ(decide({}).status, kError);
  EXPECT_EQ(decide(run_of({kSkipped})).status, kError);
  RunOutcome not_required = run_of({kPass});
  not_required.checks[0].required = false;
  EXPECT_EQ(decide(not_required).status, kError);
}

TEST(Verdict, ChecksThatAreNotRequiredDecideNothing) {
  RunOutcome run = run_of({kPass, kFail});
  run.checks[1].required = false;
  EXPECT_EQ(decide(run).status, kPass);
}

TEST(Verdict, AnIncompleteRunNeverPasses) {
  RunOutcome run = run_of({kPass});
  run.incomplete = true;
  EXPECT_EQ(decide(run).exit_code, 3);
  run.checks[0].status = kFail;
  EXPECT_EQ(decide(run).exit_code, 1);
}

TEST(Verdict, ASignalSetsTheExitCodeUnlessUnsafe) {
  RunOutcome run = run_of({kPass, kError});
  for (const auto& [signal, code] : {std::pair{"SIGINT", 130}, {"SIGTERM", 143}, {"SIGHUP", 129}}) {
    run.signal = signal;
    EXPECT_EQ(decide(run).exit_code, code);
  }
  run.unsafe = true;
  EXPECT_EQ(decide(run).exit_code, 5);
  RunOutcome all_passed = run_of({kPass});
  all_passed.signal = "SIGINT";
  EXPECT_EQ(decide(all_passed).status, kInconclusive);
}

TEST(Verdict, NamesTheChecksThatDecided) {
  const Verdict verdict = decide(run_of({kPass, kFail, kInconclusive, kFail}));
  EXPECT_EQ(verdict.deciding, (std::vector<std::string>{"p/fail", "p/fail"}));
  EXPECT_EQ(verdict.decided, 2);
  EXPECT_EQ(verdict.judged, 4);
  EXPECT_EQ(decide(run_of(std::vector<VerdictStatus>(15, kFail))).deciding.size(), 10u);
}

TEST(Verdict, OnlyWrongDataIsAMeasuredFailure) {
  EXPECT_EQ(check_status(Code::kCorrupt), kFail);
  for (const Code code :
       {Code::kTimeout, Code::kPeerLost, Code::kDevice, Code::kSystem, Code::kUnavailable})
    EXPECT_EQ(check_status(code), kError);
  EXPECT_EQ(exit_code(Code::kInvalid), 4);
  EXPECT_EQ(exit_code(Code::kRefused), 6);
  EXPECT_EQ(exit_code(Code::kCorrupt), 3);
}

}  // namespace
}  // namespace mixproof
