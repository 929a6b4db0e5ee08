// Lab: a small cluster of namespaces on this machine. Every node has its own net, uts, ipc, pid, mount and time
// namespaces, a tiny init, a boot id, a cgroup and a state directory; a bridge in a namespace of its own joins them
// over shaped links; a loop-mounted ext4 is their shared storage. No traffic leaves it.
//
// All of a lab is recorded in /run/mixproof/labs/<name>/lab.json before it is made, so that anyone can clear it.
// The functions here block and are called by commands, before and after a run, never by the controller machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/base/result.h"

namespace mixproof {

struct LabNode {
  std::string name, role, address;   // "serve-0", "serve", "10.77.0.3"
  int init_pid = 0;                  // the node's PID 1, as seen from here
  std::uint64_t init_start = 0;      // its start time in ticks, so that a reused pid is never taken for it
  std::string cgroup;                // "mixproof/<lab>/<node>"
  std::string state_dir;             // seen as /var/lib/mixproof inside the node
};

struct Lab {
  std::string name, dir;             // dir: /run/mixproof/labs/<name>
  bool standing = false;             // made by `lab up`; a run leaves it up
  int owner_pid = 0;                 // of the run that made it, when not standing
  std::uint64_t owner_start = 0;
  int fabric_pid = 0;                // holds the bridge's namespace
  std::uint64_t fabric_start = 0;
  std::vector<LabNode> nodes;
};

struct LabRequest {
  std::string name;
  bool standing = false;
  std::vector<std::pair<std::string, std::string>> nodes;   // {name, role}, in order
  double link_bits_per_s = 1e9;
  std::int64_t shared_bytes = 256 << 20;
};

inline constexpr const char* kNodeStateDir = "/var/lib/mixproof";        // inside a node
inline constexpr const char* kNodeSharedDir = "/run/mixproof/shared";    // inside a node

// kInvalid when not root (says what to do), kRefused when a lab of that name is up, kUnavailable when the kernel lacks
// something (names it). On failure everything made so far is taken down again.
Result<Lab> lab_up(const LabRequest& request);

// Idempotent: ends every process of the lab (by pid and start time), unmounts, frees the loop device, removes cgroups
// and directories. Reports the first thing that could not be undone and goes on with the rest.
Status lab_down(const std::string& name);

Result<std::vector<Lab>> labs();                 // all that are recorded on this machine
bool lab_is_stale(const Lab& lab);               // its owner is gone, or its inits are: a killed run left it
Status lab_clear_stale();                        // takes those down; leaves the others alone

// An exclusive lock on a lab for as long as this process lives; kRefused when another run has it.
Status lab_claim(const Lab& lab);

// The argv prefix that runs a command inside a node: nsenter into all of its namespaces.
std::vector<std::string> lab_prefix(const LabNode& node);

}  // namespace mixproof
