// The configuration of the proxy, as text.
#pragma once

#include <string>

#include "suites/services/service.h"

namespace mixproof {

inline constexpr const char* kHaproxyReadyPath = "/mixproof-ready";
inline constexpr const char* kHaproxyStatsPath =
    "/haproxy-stats";  // with ";csv" appended: request counts

struct HaproxySettings {
  double connect_timeout_s = 5, client_timeout_s = 60, server_timeout_s = 60;

  Params params();
  Status check(const std::string& pointer) const;
};

std::string haproxy_config(const HaproxySettings& settings, const ServiceRequest& request);

}  // namespace mixproof
