// Report: the one JSON document of a run.
//
// Beside its recording, a run keeps run.json, written before anything starts, so that a killed run
// can still be reported:
//   {"tool": {...}, "provenance": {...}, "environment": {...}, "plan": plan_to_json(plan)}
//   tool         name, version, build (digest of the sources), compiler, backends
//   provenance   argv, run, seed, started_utc, suite_sha256, schedule hashes
//   environment  kernel, cpus, memory, nodes and where they are
// The report takes all four over as they are, and adds what the judge derives; environment.observed
// is of the run: clocks of nodes, labels of services, facts of loads. The same run.json and
// recording give the same bytes.
//
// Numbers that are infinite (a latency of a request without a complete answer) are null beside
// "infinite": true; those that were not derived are null beside a "missing_reason"; an interval
// without upper end has "high": null and "censored": true. SI base units throughout.
#pragma once

#include <cstdint>
#include <string>

#include "harness/base/json.h"
#include "harness/base/world.h"

namespace mixproof {

inline constexpr const char* kReportSchemaVersion = "0.1";

// What the judge makes of plan and recording.
struct Judgement {
  Json metrics = nullptr, checks = nullptr, timeline = nullptr, safety = nullptr, verdict = nullptr;
  Json observed =
      nullptr;  // what the parts of the run said about themselves; goes into the environment
  bool partial = false;  // the recording has no end
};

struct RecordingFacts {
  std::string sha256;
  std::int64_t bytes = 0;
};

// kCorrupt when `run` is not what run.json must be.
Status check_run_json(const Json& run);

Json build_report(const Json& run, const Judgement& judgement, const RecordingFacts& recording);

// The whole file: canonical, two spaces deep, a newline at the end. kInternal when the report
// breaks its own schema or holds a number that JSON cannot.
Result<std::string> report_text(const Json& report);

// report_text through a temporary file, synced and renamed; the error says what to do when the disk
// is full.
Status write_report(Files& files, const std::string& path, const Json& report);

// kInvalid when the file cannot be read, is not a report, or has another major version.
Result<Json> read_report(Files& files, const std::string& path);

Json report_schema();  // draft-07; the one that report_text checks against

}  // namespace mixproof
