// The parts of the report page, each a piece of HTML from the report. All are pure and take any
// JSON: what is missing is left out.
#pragma once

#include <optional>
#include <string>

#include "harness/base/json.h"
#include "reports/series.h"

namespace mixproof::page {

extern const char* const kStyle;  // the style sheet

// How much a page says: everything, or, where that would be too long for a page, only what a reader
// must see.
struct Extent {
  bool evidence = true;           // of checks, and every figure
  std::size_t rows = 2000;        // of a table
  std::size_t text_bytes = 2000;  // of a string of the report
};

// A phase of the timeline that has begun, or a fault that was injected, in seconds.
struct Span {
  std::string name, detail;
  double begin_s = 0, end_s = 0;
  double settled_s = 0;  // phases
  bool proved = true;    // phases: complete; faults: clean
};

// Members of the report; an empty object or array where there is none.
const Json& object_at(const Json& json, const char* key);
const Json& list_at(const Json& json, const char* key);

// The figure of the report with this id, load and phase (labels that are empty are not compared);
// null if none.
const Json* find_metric(const Json& report, std::string_view id, std::string_view load,
                        std::string_view phase, std::string_view fault = "");

// What the plan of the report says about a fault of `safety`.
std::string fault_words(const Json& report, const Json& fault);
bool is_one_shot(const Json& report, const Json& fault);

std::string head_html(const Json& report, const Extent& extent);      // verdict, warnings
std::string deciding_html(const Json& report, const Extent& extent);  // why
std::string timeline_html(const Json& report, const TimelineSeries* series, const Extent& extent);
std::string faults_html(const Json& report, const Extent& extent);
std::string checks_html(const Json& report, const Extent& extent);
std::string metrics_html(const Json& report, const Extent& extent);
std::string environment_html(const Json& report, const Extent& extent);
std::string reproduce_html(const Json& report, const Extent& extent);

// The picture alone. `width` in pixels: text keeps its size.
std::string timeline_svg(const Json& report, const TimelineSeries& series, double width);

std::vector<Span> phase_spans(const Json& report);
std::vector<Span> fault_spans(const Json& report);

}  // namespace mixproof::page
