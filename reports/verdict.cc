#include "reports/verdict.h"

#include <algorithm>

namespace mixproof {
namespace {

using enum VerdictStatus;

constexpr std::size_t kDecidingShown = 10;

struct StatusRow {
  VerdictStatus status;
  std::string_view name;
  int exit_code;
  bool of_check, of_run;
};

// In order of precedence.
constexpr StatusRow kRows[] = {
    {kUnsafe, "unsafe", 5, false, true}, {kFail, "fail", 1, true, true},
    {kError, "error", 3, true, true},    {kInconclusive, "inconclusive", 2, true, true},
    {kPass, "pass", 0, true, true},      {kSkipped, "skipped", 0, true, false},
};

const StatusRow& row_of(VerdictStatus status) {
  return *std::find_if(std::begin(kRows), std::end(kRows),
                       [&](const StatusRow& row) { return row.status == status; });
}

int signal_exit_code(const std::string& signal) {
  if (signal == "SIGINT") return 130;
  if (signal == "SIGTERM") return 143;
  if (signal == "SIGHUP") return 129;
  return 3;
}

VerdictStatus worst(const RunOutcome& run, int judged) {
  if (run.unsafe) return kUnsafe;
  for (const VerdictStatus status : {kFail, kError, kInconclusive}) {
    if (status == kError && (run.incomplete || judged == 0)) return kError;
    for (const CheckOutcome& check : run.checks)
      if (check.required && check.status == status) return status;
  }
  return run.signal.empty() ? kPass : kInconclusive;
}

}  // namespace

std::string_view status_name(VerdictStatus status) { return row_of(status).name; }

std::vector<std::string> check_status_names() {
  std::vector<std::string> out;
  for (const StatusRow& row : kRows)
    if (row.of_check) out.emplace_back(row.name);
  return out;
}

std::vector<std::string> verdict_status_names() {
  std::vector<std::string> out;
  for (const StatusRow& row : kRows)
    if (row.of_run) out.emplace_back(row.name);
  return out;
}

VerdictStatus check_status(Code code) { return code == Code::kCorrupt ? kFail : kError; }

int exit_code(Code code) {
  if (code == Code::kInvalid) return 4;
  if (code == Code::kRefused) return 6;
  return row_of(kError).exit_code;
}

Verdict decide(const RunOutcome& run) {
  Verdict out;
  for (const CheckOutcome& check : run.checks)
    if (check.required && check.status != kSkipped) ++out.judged;
  out.status = worst(run, out.judged);
  out.exit_code = row_of(out.status).exit_code;
  if (!run.signal.empty() && out.status != kUnsafe) out.exit_code = signal_exit_code(run.signal);
  for (const CheckOutcome& check : run.checks) {
    if (!check.required || check.status != out.status) continue;
    ++out.decided;
    if (out.deciding.size() < kDecidingShown) out.deciding.push_back(check.id);
  }
  return out;
}

}  // namespace mixproof
