// The last lines of a run, for people: verdict, what decided it, what is left of faults, where the
// report is, what to do next. Taken from the report alone.
#pragma once

#include <string>

#include "harness/base/json.h"

namespace mixproof {

// `shown_as` is how commands name the report ("latest", a path); `path` where the file is; `page`
// where its page is, empty when there is none.
std::string summary_text(const Json& report, const std::string& path, const std::string& shown_as,
                         const std::string& page = "");

// Whether the answers came from the null server, an instrument: its figures say nothing about an
// engine.
bool is_synthetic(const Json& report);

// The faults line alone: "faults: 1 injected, 1 effective, 1 clean; nothing left".
std::string faults_line(const Json& safety);

}  // namespace mixproof
