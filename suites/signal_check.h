// The sections "signals" and "aborts" of a suite: their declaration, and the rules that it alone
// cannot say. All errors are kInvalid with a JSON pointer.
#pragma once

#include <functional>
#include <string>

#include "suites/plan.h"
#include "suites/suite_params.h"

namespace mixproof {

Params signal_params(RawSignal& signal);
Params abort_params(RawAbort& abort);

// Nodes, services, loads and phases are joined already. Adds the collectors too.
Status add_signals(const RawSuite& suite, Plan& plan);
Status add_aborts(const RawSuite& suite, Plan& plan);

// A limit on signal.value or signal.increase: names a signal that gives such figures, and no load.
Status check_signal_limit(const Limit& limit, const std::string& pointer, const Plan& plan);

// One load a role that collects: a worker on the first node of that role.
std::vector<LoadPlan> collectors_of(const Plan& plan);

// Parameters of a collector's probe. `url_of` gives the base URL of an instance of a started
// service.
Json collector_params(const Plan& plan, const LoadPlan& collector,
                      const std::function<std::string(const std::string& instance)>& url_of);

}  // namespace mixproof
