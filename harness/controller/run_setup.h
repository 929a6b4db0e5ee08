// RunSetup: everything a run needs beside the World: the plan, where its nodes are, how its
// services start.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/transport/launcher.h"
#include "suites/plan.h"
#include "suites/services/service.h"

namespace mixproof {

struct RunSetup {
  std::string id;         // "mixed_sla-20261130T141040Z-4f2a": marks everything the run makes
  std::string directory;  // of recording, logs
  std::string build;
  Plan plan;
  std::vector<NodeAddress> nodes;                  // one for each of the plan's
  std::map<std::string, ServiceCommand> services;  // by instance: "llm[0]"
  std::map<std::string, std::string> cpus;  // by node: of its workloads' cgroups; absent: all
  std::map<std::string, bool>
      outside_cgroups;  // by probe: load generators and looks, which must not share
};

// Whether this machine can start a service of that kind: kInvalid says what is missing and what to
// do.
Status service_available(const ServicePlan& service);

// Service commands of a plan on these nodes. kInvalid when one cannot be started here (says what to
// do).
Result<std::map<std::string, ServiceCommand>> service_commands(
    const Plan& plan, const std::vector<NodeAddress>& nodes);

// Placement: "none" gives no entries; "physical" gives serve and train nodes disjoint halves of
// `cpus` (at least one core each; kInvalid when there is only one). Other roles stay unpinned.
Result<std::map<std::string, std::string>> place(const Plan& plan, const std::vector<int>& cpus);

}  // namespace mixproof
