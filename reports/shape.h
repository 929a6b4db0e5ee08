// A small draft-07 validator: type, enum, const, required, properties, additionalProperties, items,
// minimum. Enough for the schemas that this project writes; it is how a report is held to its own
// before it is written.
#pragma once

#include <string>

#include "harness/base/json.h"

namespace mixproof {

// "/checks/0/status: \"ok\" is not one of ..." of the first breach; empty when there is none. A
// keyword that it does not know is a breach too, so that no rule goes unheeded.
std::string breaks_schema(const Json& value, const Json& schema, const std::string& pointer = "");

}  // namespace mixproof
