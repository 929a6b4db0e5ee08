// Verdict: from the statuses of checks to one status and one exit code.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/result.h"

namespace mixproof {

// pass and fail are measured. inconclusive: measured, not decided. error: not measured (missing,
// non-finite, crashed, timed out). skipped: declared by the suite, with its reason. unsafe: of runs
// only, a fault that was not proved clean.
enum class VerdictStatus { kPass, kFail, kInconclusive, kError, kSkipped, kUnsafe };

std::string_view status_name(VerdictStatus status);
std::vector<std::string> check_status_names();
std::vector<std::string> verdict_status_names();

// What a failure makes of a check that needed the failed thing. Only wrong data is a measured
// failure; whatever else went wrong, the thing was not measured.
VerdictStatus check_status(Code code);

// Of a command that ends with this error: 4 when the same command can never work, 6 when it may
// later, else 3.
int exit_code(Code code);

struct CheckOutcome {
  std::string id;
  VerdictStatus status = VerdictStatus::kError;
  bool required = true;
};

struct RunOutcome {
  std::vector<CheckOutcome> checks;
  bool unsafe = false;      // a fault is not proved clean
  bool incomplete = false;  // the recording has no end, or an error that no check accounts for
  std::string signal;       // SIGINT, SIGTERM or SIGHUP when one ended the run early
};

struct Verdict {
  VerdictStatus status = VerdictStatus::kError;
  int exit_code = 3;
  std::vector<std::string> deciding;  // check ids, in their order; at most ten
  int decided = 0, judged = 0;        // required checks that decided it, and all that were judged
};

// Precedence unsafe 5 > fail 1 > error 3 > inconclusive 2 > pass 0, over required checks. No judged
// check is an error. An incomplete run never passes. A signal keeps the status (a pass becomes
// inconclusive) and sets the exit code to 130, 143 or 129, unless the run is unsafe.
Verdict decide(const RunOutcome& run);

}  // namespace mixproof
