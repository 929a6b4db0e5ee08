// RecordedLoad: one load of a plan in a worker of its own on this machine, without agent or lab,
// and the recording that it leaves, so that the real judge can judge it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/base/json.h"
#include "suites/plan.h"

namespace mixproof {

struct RecordedLoad {
  std::vector<Json> rows;           // complete: judge(plan, rows)
  std::vector<std::int64_t> sched;  // of every request, CLOCK_MONOTONIC
};

// The worker's process, when its phase begins, and the time; called about every millisecond.
using LoadWatch = std::function<Status(int pid, std::int64_t begin_ns, std::int64_t now_ns)>;

// The plan has one load, whose target is attached, and one phase. The worker runs on processor
// `cpu`; -1: on any. An error when it cannot be prepared or does not end in time; it is then
// killed.
Result<RecordedLoad> record_load(const Plan& plan, int cpu, const LoadWatch& watch = {});

}  // namespace mixproof
