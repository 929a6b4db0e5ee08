// An instant query to a Prometheus: GET /api/v1/query.
// https://prometheus.io/docs/prometheus/latest/querying/api/
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/base/result.h"

namespace mixproof::signal {

// The request target: "/api/v1/query?query=...", percent-encoded.
std::string query_target(std::string_view query);

// The values of an answer's vector or scalar; empty when the vector is. kUnavailable with the
// server's words when it says that the query failed, kCorrupt for anything else, also for a result
// of another type (a matrix is not an instant).
Result<std::vector<double>> query_values(const std::string& body);

}  // namespace mixproof::signal
