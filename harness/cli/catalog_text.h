// The generated pages: probes/CATALOG.md and faults/CATALOG.md, written by `mixproof list
// probes|faults --markdown`.
#pragma once

#include <string>

namespace mixproof {

std::string probes_markdown();
std::string faults_markdown();

}  // namespace mixproof
