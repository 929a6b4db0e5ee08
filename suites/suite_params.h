// RawSuite: a suite file as written, before names are joined. Its declaration is also the suite's
// schema.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/base/params.h"
#include "suites/plan.h"

namespace mixproof {

struct RawService {
  ServicePlan plan;
  std::int64_t replicas = 1, port = 0;
};

struct RawLoad {
  LoadPlan plan;
  Slo slo;
  bool has_slo = false, has_deadline = false;
};

struct RawLimit {
  Limit limit;
  double at_most = 0, at_least = 0;
  std::int64_t clean_requests = 59;
  bool has_at_most = false, has_at_least = false, has_confidence = false,
       has_clean_requests = false, has_margin = false;
};

struct RawSignal {
  SignalPlan plan;
  Json labels = nullptr;
  bool has_timeout = false;
};

struct RawAbort {
  AbortPlan plan;
  double at_most = 0, at_least = 0;
  std::int64_t least_requests = 20;
  bool has_at_most = false, has_at_least = false, has_share = false, has_for = false,
       has_no_data = false, has_over = false, has_least_requests = false;
};

struct RawSuite {
  std::string schema_version, name, claim, placement = "none";
  double lease_s = 15, renew_s = 5;
  Json nodes = nullptr;
  std::map<std::string, RawService> services;
  std::map<std::string, RawLoad> loads;
  std::vector<PhasePlan> phases;
  std::vector<RawLimit> limits;
  std::map<std::string, RawSignal> signals;
  std::vector<RawAbort> aborts;
};

// Bound to `suite`, which must outlive what is returned.
Params suite_params(RawSuite& suite);

// Draft-07, without what only a catalogue knows.
Json bare_suite_schema();

}  // namespace mixproof
