#include "suites/services/run_program.h"

#include <gtest/gtest.h>

namespace mixproof {
namespace {

using std::chrono::milliseconds;

TEST(RunProgram, GivesOutputAndExitCode) {
  const Result<ProgramOutput> done =
      run_program({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, milliseconds(5000));
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->out, "out\nerr\n");
  EXPECT_EQ(done->exit_code, 3);
}

TEST(RunProgram, EndsAProgramThatRunsPastTheDeadline) {
  for (const char* script : {"exec sleep 30", "exec >/dev/null 2>&1; exec sleep 30"}) {
    const auto begin = std::chrono::steady_clock::now();
    const Result<ProgramOutput> done = run_program({"/bin/sh", "-c", script}, milliseconds(100));
    ASSERT_FALSE(done.ok()) << script;
    EXPECT_EQ(done.error().code, Code::kTimeout) << script;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(5000)) << script;
  }
}

TEST(RunProgram, SaysWhenThereIsNone) {
  const Result<ProgramOutput> done = run_program({"/nonexistent"}, milliseconds(100));
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, Code::kSystem);
  EXPECT_EQ(find_program("mixproof-no-such-program"), "");
  EXPECT_NE(find_program("sh"), "");
}

}  // namespace
}  // namespace mixproof
