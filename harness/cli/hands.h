// Hands: agents on a few nodes for a command without a run: links, probes and their events, in one
// place.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/base/epoll_world.h"
#include "harness/base/unique_fd.h"
#include "harness/controller/agent_link.h"
#include "harness/controller/probe_runner.h"

namespace mixproof {

class Hands {
 public:
  Hands(RealWorld& world, std::vector<NodeAddress> nodes,
        std::function<void(const Json& row)> on_row);
  ~Hands();

  // Connects all. An error is of the first node that does not answer: kInvalid when the same
  // command cannot work, kRefused when the node is away.
  Status connect();
  // Runs the World until `done`, a node is lost, or a signal came (then `interrupted()`).
  Status run_until(const std::function<bool()>& done);
  void leave();  // says bye to all and waits for them

  AgentLink* link(const std::string& node);  // null when lost
  ProbeRunner& probes() { return probes_; }
  std::unique_ptr<AgentLink> new_link(const std::string& node, AgentLink::Events events);
  const std::vector<NodeAddress>& nodes() const { return nodes_; }
  const std::string& run() const { return run_; }  // unlike any before: journals on nodes carry it
  bool interrupted() const { return interrupted_; }

  std::function<void(const std::string& node, const Json& event)> on_fault;
  std::function<void(const std::string& node)> on_lost;
  std::function<void()> on_interrupt;

 private:
  void on_event(const std::string& node, const Json& event);

  RealWorld& world_;
  std::vector<NodeAddress> nodes_;
  std::map<std::string, UniqueFd> logs_;  // what agents and transports write to stderr
  std::map<std::string, std::unique_ptr<AgentLink>> links_;
  ProbeRunner probes_;
  std::optional<Error> lost_;
  std::string run_;
  int ready_ = 0;
  bool interrupted_ = false;
};

}  // namespace mixproof
