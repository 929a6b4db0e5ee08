// The report as one HTML page for people: verdict, why, timeline, faults, checks, figures,
// environment, how to repeat. It needs nothing beside itself: no scripts, no fonts, no network.
// Drawn from the report; the recording adds the series.
#pragma once

#include <cstddef>
#include <string>

#include "harness/base/json.h"
#include "reports/series.h"

namespace mixproof {

inline constexpr const char* kPageFile = "report.html";  // beside the report
inline constexpr std::size_t kPageLimitBytes = 2'000'000;

// Pure: the same input gives the same bytes. All text of the report is escaped. `series` is null
// when the recording is not there. A report that would make a longer page than the limit loses
// evidence, then rows, and the page says so.
std::string page_text(const Json& report, const TimelineSeries* series);

}  // namespace mixproof
