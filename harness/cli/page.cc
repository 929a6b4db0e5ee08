#include "harness/cli/page.h"

#include <nlohmann/json.hpp>

#include "harness/cli/judging.h"
#include "reports/page.h"
#include "reports/recording.h"
#include "suites/timeline_series.h"

namespace mixproof {
namespace {

Result<TimelineSeries> series_of(const std::string& directory, const Json& report) {
  TRY(check_run_json(report));
  const Plan plan = TRY(plan_from_json(report["plan"]));
  const RecordingRows recording = TRY(read_recording(directory + "/" + kRecordingFile));
  if (recording.sha256 != recording_sha256(report))
    return Error{Code::kCorrupt, "it is not the recording of this report"};
  return timeline_series(plan, recording.rows);
}

}  // namespace

Status write_page(Files& files, const std::string& path, const std::string& directory,
                  const Json& report) {
  const Result<TimelineSeries> series = series_of(directory, report);
  const std::string page = page_text(report, series.ok() ? &*series : nullptr);
  return files.replace(path, page);
}

}  // namespace mixproof
