#include "harness/cli/judging.h"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "reports/recording.h"
#include "reports/verdict.h"
#include "suites/judge.h"

namespace mixproof {
namespace {

constexpr const char* kLatest = "mixproof-runs/latest";

}  // namespace

ReportPlace place_of(const std::string& argument) {
  const std::string path = argument == "latest" ? kLatest : argument;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return {path, path + "/" + kReportFile, argument};
  const std::string directory = std::filesystem::path(path).parent_path().string();
  return {directory.empty() ? std::string(".") : directory, path, argument};
}

Result<JudgedRun> judge_again(const std::string& directory, const Json& report) {
  TRY(check_run_json(report));
  const Plan plan = TRY(plan_from_json(report["plan"]));
  const RecordingRows recording = TRY(read_recording(directory + "/" + kRecordingFile));
  const Judgement judgement = judge(plan, recording.rows);
  JudgedRun out;
  out.run = report;
  out.torn = recording.torn;
  out.sha256 = recording.sha256;
  out.report = build_report(report, judgement, {recording.sha256, recording.bytes});
  return out;
}

Result<JudgedRun> judge_directory(Files& files, const std::string& directory) {
  const std::string path = directory + "/" + kRunFile;
  const auto text = files.read(path);
  if (!text) return Error{Code::kInvalid, text.error().message + ": not the directory of a run"};
  const Json run = TRY(parse_json(*text, path));
  return judge_again(directory, run);
}

std::string recording_sha256(const Json& report) {
  const Json* artifacts = member(report, "artifacts");
  if (artifacts != nullptr && artifacts->is_array())
    for (const Json& artifact : *artifacts)
      if (text_at(artifact, "path") == kRecordingFile) return text_at(artifact, "sha256");
  return "";
}

int command_failed(const std::string& command, const Error& error) {
  std::fprintf(stderr, "mixproof %s: %s\n", command.c_str(), error.message.c_str());
  return exit_code(error.code);
}

}  // namespace mixproof
