// Lab: a small cluster of namespaces on this machine. Every node has its own net, uts, ipc, pid,
// mount and time namespaces, a tiny init, a boot id, a cgroup and a state directory; a bridge in a
// namespace of its own joins them over shaped links; a loop-mounted ext4 is their shared storage.
// No traffic leaves it.
//
// All of a lab is recorded in /run/mixproof/labs/<name>/lab.json before it is made, so that anyone
// can clear it. Every process that makes or holds a part of it sits in the lab's cgroup before it
// does anything, so that none is missed even when its maker is killed. lab_up and lab_down wait for
// one another (a lock over all labs of the machine). The functions here block, within deadlines,
// and are called by commands, before and after a run, never by the controller machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/base/result.h"

namespace mixproof {

struct LabNode {
  std::string name, role, address;  // "serve-0", "serve", "10.77.0.3"
  int init_pid = 0;                 // the node's PID 1, as seen from here
  std::uint64_t init_start =
      0;               // its start time in ticks, so that a reused pid is never taken for it. Start
                       // times read inside a node differ: they follow the node's shifted boot time
  std::string cgroup;  // "mixproof/<lab>/<node>"
  std::string state_dir;  // seen as /var/lib/mixproof inside the node
};

struct Lab {
  std::string name, dir;  // dir: /run/mixproof/labs/<name>
  bool standing = false;  // made by `lab up`; a run leaves it up
  int owner_pid = 0;  // of the run that made it, when not standing (or not yet: while it is made)
  std::uint64_t owner_start = 0;
  int fabric_pid = 0;  // holds the bridge's namespace
  std::uint64_t fabric_start = 0;
  std::vector<LabNode> nodes;
  std::string damage;  // why the record cannot be read; then only name and dir are known
};

struct LabRequest {
  std::string name;
  bool standing = false;
  std::vector<std::pair<std::string, std::string>> nodes;  // {name, role}, in order
  double link_bits_per_s = 1e9;
  std::int64_t shared_bytes = 256 << 20;
  std::string init_binary = "/proc/self/exe";  // the mixproof executable; tests are not it
};

// "5": one edge node, the rest shared by serve and train. "edge=1,serve=2,train=2": as it says.
// Nodes are named <role>-<number>. kInvalid says what is wrong.
Result<std::vector<std::pair<std::string, std::string>>> parse_lab_nodes(std::string_view text);

// "1gbit", "250mbit", "64kbit", "1000000bit": bits a second.
Result<double> parse_link_rate(std::string_view text);

inline constexpr const char* kNodeStateDir = "/var/lib/mixproof";      // inside a node
inline constexpr const char* kNodeSharedDir = "/run/mixproof/shared";  // inside a node

// kInvalid when not root (says what to do), kRefused when a lab of that name is up, kUnavailable
// when the kernel lacks something (names it). What a killed run left under the name is cleared
// first. On failure everything made so far is taken down again. Each node finds {"node", "role",
// "lab", "cgroup", "address"} in its state directory's node.json.
Result<Lab> lab_up(const LabRequest& request);

// Idempotent: ends every process of the lab (by pid and start time, and by cgroup), thaws and
// unmounts its storage, frees the loop device, removes cgroups and directories. Reports the first
// thing that could not be undone and goes on with the rest; the record stays until all is gone.
// Must be called from the mount namespace of lab_up.
Status lab_down(const std::string& name);

// All that are recorded on this machine, by name. One whose record is damaged is listed with
// `damage` set; it can be taken down by name.
Result<std::vector<Lab>> labs();

// A killed run left it: not standing and its owner is gone, or standing and all of its processes
// are. A damaged record is not stale, because nobody knows whose it is.
bool lab_is_stale(const Lab& lab);
Status lab_clear_stale();  // takes those down; leaves the others alone
std::vector<std::string> lab_leftovers(
    const Lab& lab);  // what of it exists now: processes, mounts, loop devices, cgroups

// An exclusive lock on a lab for as long as this process lives; kRefused when another run has it,
// or when one of its nodes is gone.
Status lab_claim(const Lab& lab);
std::optional<std::string> lab_user(
    const Lab& lab);  // whose it is now, in words ("a run, process 4711"); none: free
bool lab_process_alive(int pid, std::uint64_t start);  // of inits, fabric and owner

// The argv prefix that runs a command inside a node: nsenter into all of its namespaces. The
// command starts in "/" and in the caller's cgroup, and sees the caller's files.
std::vector<std::string> lab_prefix(const LabNode& node);

}  // namespace mixproof
