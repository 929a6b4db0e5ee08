// A cluster that is reached over ssh: the nodes of a lab are the machines, each with an OpenSSH
// server of its own (own configuration and host key, one user key, port 22 of the node's own
// network). The controller runs on one more node of the lab, so that its packets cross the same
// links as everybody's. Nothing of it touches the machine's own sshd, keys or network.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/command.h"

namespace mixproof {

class SshRun : public LabRun {
 protected:
  static constexpr const char* kController = "control-0";

  void SetUp() override;  // skips without root, sshd or ssh
  void TearDown() override;

  // Nodes as `lab up --nodes` takes them. serve-0 greets everybody with a banner and a line on
  // stdout.
  void bring_up(const std::string& nodes);

  // Of the first nodes, all over ssh; `change` may spoil it. Its path.
  std::string inventory(const std::string& name,
                        const std::function<void(Json& inventory)>& change = {}) const;
  // An ssh configuration with these files; its path.
  std::string ssh_config(const std::string& name, const std::string& key,
                         const std::string& known_hosts) const;

  // Our program on the controller's node.
  std::unique_ptr<Command> on_controller(const std::vector<std::string>& args);
  Ended run_on_controller(const std::vector<std::string>& args, Seconds deadline = Seconds(60));

  // Ends what `lab exec` has started in a node. Were the launcher outside killed instead, its child
  // would be left to the machine's init, and the node would stay until that has collected it.
  static void end_inside(Command& command);

  const LabNode& node(const std::string& name) const;
  // The ssh clients on the controller's node that are connected with a node.
  std::vector<int> clients_of(const std::string& name) const;
  int logins(const std::string& name) const;  // that its sshd has accepted so far
  // The oldest process of a node whose command line matches, by its number there; 0: none.
  int pid_inside(const std::string& name, const std::string& pattern);

  Lab lab_;
  std::map<std::string, std::unique_ptr<Command>> servers_;
};

}  // namespace mixproof
