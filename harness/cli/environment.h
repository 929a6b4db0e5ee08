// Environment: what the report says about the tool and the machine.
#pragma once

#include <vector>

#include "harness/base/json.h"
#include "harness/transport/launcher.h"

namespace mixproof {

Json tool_json();  // name, version, build, compiler, backends
Json environment_json(const std::vector<NodeAddress>& nodes, const std::string& where);

}  // namespace mixproof
