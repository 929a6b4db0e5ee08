// The commands that work on what a run left: `report`, `explain`, `rejudge`, and `schema`. Each
// takes what follows its name and returns the exit status.
#pragma once

#include <span>
#include <string>

#include "harness/base/result.h"
#include "harness/base/world.h"
#include "reports/report.h"
#include "suites/plan.h"

namespace mixproof {

int report_main(std::span<const std::string> args);
int explain_main(std::span<const std::string> args);
int rejudge_main(std::span<const std::string> args);
int schema_main(std::span<const std::string> args);

// Where a REPORT argument points: "latest" is ./mixproof-runs/latest, a directory holds
// report.json, anything else is the report itself.
struct ReportPlace {
  std::string directory, report;
  std::string shown_as;  // the argument
};
ReportPlace place_of(const std::string& argument);

// run.json and the recording of a directory, judged. kCorrupt when they do not fit; kInvalid when
// one is missing.
struct JudgedRun {
  Json run = nullptr, report = nullptr;
  bool torn = false;
  std::string sha256;
};
Result<JudgedRun> judge_directory(Files& files, const std::string& directory);

// The same from the plan, tool, provenance and environment that a report holds. `report` is any
// report or run.json.
Result<JudgedRun> judge_again(const std::string& directory, const Json& report);

// The digest of its recording that a report names; empty when it names none.
std::string recording_sha256(const Json& report);

// Prints "mixproof COMMAND: message" on stderr and gives the exit status of the error.
int command_failed(const std::string& command, const Error& error);

}  // namespace mixproof
