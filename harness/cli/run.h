// `mixproof run`, `plan` and `demo`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/base/result.h"

namespace mixproof {

struct RunOptions {
  std::string suite, inventory, output;
  std::vector<std::string> settings,
      argv;  // argv: what follows `mixproof run`, so that it can be repeated
  std::optional<std::uint64_t> seed;
  bool yes = false, json = false;
};

// From a suite to a report, progress and verdict on stderr. An error: nothing was run.
struct RunResult {
  int code = 3;           // exit status
  std::string directory;  // with run.json, recording and report
};
Result<RunResult> run_suite(const RunOptions& options);

Result<std::uint64_t> parse_seed(const std::string& text);
Status check_output(
    const std::string& directory);  // of -o: new or empty; the empty string means the default

int run_main(std::span<const std::string> args);
int demo_main(std::span<const std::string> args);
int plan_main(std::span<const std::string> args);

}  // namespace mixproof
