#include "reports/report.h"

#include <nlohmann/json.hpp>

#include "reports/recording.h"
#include "reports/shape.h"

namespace mixproof {
namespace {

constexpr const char* kRunMembers[] = {"tool", "provenance", "environment", "plan"};

Json artifacts_json(const RecordingFacts& recording) {
  return Json::array({{{"path", kRecordingFile},
                       {"sha256", recording.sha256},
                       {"bytes", recording.bytes},
                       {"media_type", "application/zstd"},
                       {"what", "recording"}}});
}

Json reproduce_json(const Json& run) {
  const Json& provenance = *member(run, "provenance");
  const Json* argv = member(provenance, "argv");
  return {{"command", argv != nullptr && argv->is_array() ? *argv : Json::array()},
          {"seed", text_at(*member(run, "plan"), "seed")},
          {"rejudge", {"mixproof", "rejudge", kReportFile}}};
}

}  // namespace

Status check_run_json(const Json& run) {
  for (const char* key : kRunMembers) {
    const Json* found = member(run, key);
    if (found == nullptr || !found->is_object())
      return Error{Code::kCorrupt,
                   std::string(kRunFile) + ": \"" + key + "\" is missing or not an object"};
  }
  return ok();
}

Json build_report(const Json& run, const Judgement& judgement, const RecordingFacts& recording) {
  Json report = {{"schema_version", kReportSchemaVersion},
                 {"kind", "acceptance"},
                 {"partial", judgement.partial},
                 {"timeline", judgement.timeline},
                 {"metrics", judgement.metrics},
                 {"checks", judgement.checks},
                 {"safety", judgement.safety},
                 {"verdict", judgement.verdict},
                 {"artifacts", artifacts_json(recording)},
                 {"reproduce", reproduce_json(run)},
                 {"ext", Json::object()}};
  for (const char* key : kRunMembers) report[key] = *member(run, key);
  report["environment"]["observed"] = judgement.observed;
  return report;
}

Result<std::string> report_text(const Json& report) {
  const std::string broken = breaks_schema(report, report_schema());
  if (!broken.empty()) return Error{Code::kInternal, "the report breaks its own schema: " + broken};
  return TRY(print_json(report, 2)) + "\n";
}

Status write_report(Files& files, const std::string& path, const Json& report) {
  const std::string text = TRY(report_text(report));
  const Status written = files.replace(path, text);
  if (written.ok()) return ok();
  return Error{
      written.error().code,
      "the report could not be written: " + written.error().message +
          "; the recording beside it is enough to write it later: mixproof rejudge with its directory"};
}

Result<Json> read_report(Files& files, const std::string& path) {
  const auto text = files.read(path);
  if (!text) return Error{Code::kInvalid, text.error().message};
  Json report = TRY(parse_json(*text, path));
  const std::string version = text_at(report, "schema_version");
  if (version.substr(0, version.find('.')) != "0")
    return Error{Code::kInvalid, path + ": schema_version \"" + version +
                                     "\" is not one that this build reads (0.x)"};
  for (const char* key : {"plan", "verdict", "safety"})
    if (member(report, key) == nullptr || !report[key].is_object())
      return Error{Code::kInvalid, path + ": not a report: \"" + key + "\" is missing"};
  if (member(report, "checks") == nullptr || !report["checks"].is_array())
    return Error{Code::kInvalid, path + ": not a report: \"checks\" is missing"};
  return report;
}

}  // namespace mixproof
