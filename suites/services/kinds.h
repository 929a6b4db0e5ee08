// What the files of this folder share: their entries, and how one declaration of settings gives
// parsing and schema.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "suites/services/service.h"

namespace mixproof {

extern const ServiceKind command_service;
extern const ServiceKind haproxy_service;
extern const ServiceKind llama_cpp_service;
extern const ServiceKind null_server_service;

// "10.77.0.2:8080"
std::string endpoint(const ServiceRequest& request);

// Settings: a struct whose members hold the defaults, with `Params params()` and `Status
// check(pointer) const` for what the ranges cannot say.
template <typename Settings>
Result<Settings> read_settings(const Json& params, const std::string& pointer) {
  Settings settings;
  TRY(read_params(params, settings.params(), pointer));
  TRY(settings.check(pointer));
  return settings;
}

template <typename Settings>
Result<Json> check_settings(const Json& params, const std::string& pointer) {
  Settings settings = TRY(read_settings<Settings>(params, pointer));
  return write_params(settings.params());
}

template <typename Settings>
Json settings_schema() {
  Settings settings;
  return schema_of(settings.params());
}

}  // namespace mixproof
