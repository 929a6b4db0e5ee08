// The report page of a run: from its report and, where it is the report's, the recording beside it.
#pragma once

#include <string>

#include "harness/base/json.h"
#include "harness/base/world.h"

namespace mixproof {

// Writes the page of the report to `path`, whole or not at all. A recording in `directory` that
// cannot be read, or is not the one that the report names, is left out, and the page says so.
Status write_page(Files& files, const std::string& path, const std::string& directory,
                  const Json& report);

}  // namespace mixproof
