#include "harness/cli/roles.h"

#include <array>
#include <cstdlib>

#include "harness/agent/agent.h"
#include "harness/agent/drop_packets.h"
#include "harness/agent/fill_disk.h"
#include "harness/agent/guard.h"
#include "harness/agent/hold_stopped.h"
#include "harness/agent/kill_process.h"
#include "harness/base/address.h"
#include "harness/base/build.h"
#include "harness/base/epoll_world.h"
#include "harness/base/text.h"
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

// From where ssh reaches us and on which port: "client port server port".
struct Reached {
  std::string from;
  int port = 0;
};

Reached reached_by_ssh() {
  const char* connection = std::getenv("SSH_CONNECTION");
  const std::vector<std::string> words = split(connection == nullptr ? "" : connection, ' ');
  if (words.size() != 4) return {};
  const std::string client = words[0].substr(0, words[0].find('%'));
  const int port = std::atoi(words[3].c_str());
  if (canonical_address(client).empty() || port < 1 || port > 65535) return {};
  return {canonical_address(client), port};
}

}  // namespace

int agent_main() {
  raise_priority();
  const Result<std::unique_ptr<RealWorld>> world = make_epoll_world();
  if (!world.ok()) return command_failed("agent", world.error());
  RealWorld& real = **world;
  const Reached reached = reached_by_ssh();
  Agent agent(real, {.program = program_path(),
                     .build = build_digest(),
                     .state_dir = state_directory(),
                     .operators = real_operators(real.host()),
                     .controller_address = reached.from,
                     .controller_port = reached.port});
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
