// doctor load: makes the runs that the self-checks of the load generator need, on this machine
// alone.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/base/result.h"
#include "probes/inference/self_checks.h"

namespace mixproof {

struct DoctorLoadOptions {
  bool quick = false;          // shorter runs
  std::string only;            // ids of the checks that are wanted: "dgj"; empty: all
  bool raise_priority = true;  // of the client in the runs that time it (a to e, h, i, k)
  int client_cpu = -1, server_cpu = -1;
  std::function<void(const std::string& what)> progress;
};

// The eleven checks in their order, whatever happens; a run that cannot be made leaves its checks
// as errors. What the runs had in common goes into `scheduling`: the priority that the client got.
std::vector<inference::SelfCheck> doctor_load(const DoctorLoadOptions& options,
                                              std::string* scheduling);

}  // namespace mixproof
