#include "harness/cli/roles.h"

#include <array>

#include "harness/agent/agent.h"
#include "harness/agent/drop_packets.h"
#include "harness/agent/fill_disk.h"
#include "harness/agent/guard.h"
#include "harness/agent/hold_stopped.h"
#include "harness/agent/kill_process.h"
#include "harness/base/build.h"
#include "harness/base/epoll_world.h"
#include "harness/cli/command.h"
#include "harness/cli/judging.h"

namespace mixproof {
namespace {

// One operator a type of operation, in the order of the variant; all of them live as long as the
// process.
Operators real_operators(const HostView& host) {
  std::array<std::shared_ptr<HostOperator>, std::variant_size_v<HostOperation>> by_type = {
      make_hold_stopped(host), make_kill_process(host), make_drop_packets(host),
      make_fill_disk(host)};
  return [by_type](const HostOperation& operation) -> HostOperator& {
    return *by_type.at(operation.index());
  };
}

}  // namespace

int agent_main() {
  raise_priority();
  const Result<std::unique_ptr<RealWorld>> world = make_epoll_world();
  if (!world.ok()) return command_failed("agent", world.error());
  RealWorld& real = **world;
  Agent agent(real, {.program = program_path(),
                     .build = build_digest(),
                     .state_dir = state_directory(),
                     .operators = real_operators(real.host())});
  agent.start();
  real.run_until([&agent] { return agent.done(); });
  return 0;
}

int guard_main() {
  raise_priority();
  const Result<std::unique_ptr<RealWorld>> world = make_epoll_world();
  if (!world.ok()) return command_failed("guard", world.error());
  RealWorld& real = **world;
  Guard guard(real, real_operators(real.host()));
  guard.start();
  real.run_until([&guard] { return guard.done(); });
  return guard.clean() ? 0 : 5;
}

}  // namespace mixproof
