#include "harness/base/cpus.h"

#include <sched.h>

#include "harness/base/text.h"

namespace mixproof {

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> out;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return out;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) out.push_back(cpu);
  return out;
}

Status run_on_cpus(const std::vector<int>& cpus) {
  if (cpus.empty()) return ok();
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0)
    return system_error(format("run on processor %d", cpus.front()));
  return ok();
}

Status run_on_cpu(int cpu) { return cpu < 0 ? ok() : run_on_cpus({cpu}); }

}  // namespace mixproof
