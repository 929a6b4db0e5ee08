// On which processors threads run.
#pragma once

#include <vector>

#include "harness/base/result.h"

namespace mixproof {

// Processors that the calling thread may use, ascending.
std::vector<int> allowed_cpus();
// The calling thread, and what it starts, on these processors only; none changes nothing.
Status run_on_cpus(const std::vector<int>& cpus);
// The same of one; -1 changes nothing.
Status run_on_cpu(int cpu);

}  // namespace mixproof
