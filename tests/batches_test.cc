// tests/batches.py must never lose a test, whatever its processes do: here they are a script that
// speaks like a GoogleTest executable.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/fake/paths.h"

namespace mixproof {
namespace {

namespace fs = std::filesystem;

// Each test does what its name says; a leak shows in the exit status only.
constexpr const char* kProgram = R"PY(#!/usr/bin/python3
import os, signal, sys
tests = TESTS
if "--gtest_list_tests" in sys.argv:
    print("Suite.\n" + "\n".join("  " + test + "  # GetParam() = 1" for test in tests))
    sys.exit(0)
names = [word[15:] for word in sys.argv if word.startswith("--gtest_filter=")][0].split(":")
status = 0
for name in names:
    print("[ RUN      ] " + name, flush=True)
    if "crash" in name:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "exit" in name:
        os._exit(0)
    if "leak" in name or ("together" in name and len(names) > 1):
        status = 23
    print("unfinished line", end="")
    word = "FAILED  ]" if "fail" in name else "     OK ]"
    print("[  " + word + " " + name + " (0 ms)", flush=True)
    status = 1 if "fail" in name else status
sys.exit(status)
)PY";

struct Ran {
  int status = -1;
  std::string log, results;
  bool failed(const std::string& test) const {
    return log.find("\nFAILED: Suite." + test + "\n") != std::string::npos;
  }
  int cases() const {
    int count = 0;
    for (std::size_t at = 0; (at = results.find("<testcase ", at)) != std::string::npos; ++at)
      ++count;
    return count;
  }
};

std::string content(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

Ran run_batches(const std::string& tests) {
  std::string folder = testing::TempDir() + "batches-XXXXXX";
  EXPECT_NE(::mkdtemp(folder.data()), nullptr);
  std::string program = kProgram;
  program.replace(program.find("TESTS"), 5, tests);
  std::ofstream(folder + "/program") << program;
  fs::permissions(folder + "/program", fs::perms::owner_all);
  const std::string command = "/usr/bin/python3 " + std::string(kSourceDir) + "/tests/batches.py " +
                              folder + "/program " + folder + "/out.xml >" + folder + "/log 2>&1";
  const Ran ran{std::system(command.c_str()), content(folder + "/log"),
                content(folder + "/out.xml")};
  fs::remove_all(folder);
  return ran;
}

TEST(Batches, PassWhenEveryTestPasses) {
  const Ran ran = run_batches("['one', 'two', 'three']");
  EXPECT_EQ(ran.status, 0) << ran.log;
  EXPECT_EQ(ran.cases(), 3) << ran.results;
  EXPECT_NE(ran.log.find("0 tests failed out of 3, in 1 processes"), std::string::npos) << ran.log;
}

TEST(Batches, NameWhatFailsCrashesOrExitsAndRunTheOthers) {
  const Ran ran = run_batches("['one', 'crash', 'two', 'fail', 'three', 'exit', 'four']");
  EXPECT_NE(ran.status, 0);
  EXPECT_EQ(ran.cases(), 7) << ran.results;
  for (const char* test : {"crash", "fail", "exit"}) EXPECT_TRUE(ran.failed(test)) << ran.log;
  for (const char* test : {"one", "two", "three", "four"})
    EXPECT_FALSE(ran.failed(test)) << ran.log;
  EXPECT_NE(ran.log.find("killed by signal 11"), std::string::npos) << ran.log;
}

TEST(Batches, NameTheTestWhoseProcessFails) {
  const Ran ran = run_batches("['one', 'leak', 'two']");
  EXPECT_NE(ran.status, 0);
  EXPECT_EQ(ran.cases(), 3) << ran.results;
  EXPECT_TRUE(ran.failed("leak")) << ran.log;
  EXPECT_FALSE(ran.failed("one") || ran.failed("two")) << ran.log;
}

TEST(Batches, FailWhereTheProcessOfSeveralTestsFailsAndNoneByItself) {
  const Ran ran = run_batches("['one', 'together', 'two']");
  EXPECT_NE(ran.status, 0);
  EXPECT_TRUE(ran.failed("one and 2 others in one process")) << ran.log;
}

TEST(Batches, AProgramWithoutTestsIsAFailure) { EXPECT_NE(run_batches("[]").status, 0); }

}  // namespace
}  // namespace mixproof
