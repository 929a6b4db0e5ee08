// The bearer token: read where the load runs, sent to the server, and told to nobody else.
#pragma once

#include <string>

#include "harness/base/result.h"

namespace mixproof::inference {

// From the first line of `file`, or from the environment variable `variable`; empty when neither is
// named. kInvalid when both are, when it is not there, and when it could not stand in a header. No
// message repeats any of it.
Result<std::string> read_token(const std::string& file, const std::string& variable);

}  // namespace mixproof::inference
