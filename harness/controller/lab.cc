#include "harness/controller/lab.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/base/cgroup.h"
#include "harness/base/json.h"
#include "harness/base/text.h"
#include "harness/controller/lab_files.h"
#include "harness/controller/lab_init.h"
#include "harness/controller/lab_network.h"
#include "harness/controller/lab_process.h"
#include "harness/controller/lab_storage.h"
#include "harness/controller/lab_take_down.h"

namespace mixproof {
namespace {

constexpr std::chrono::seconds kReadyTime{15};
constexpr std::int64_t kSharedBytesMin = 16 << 20;  // a smaller ext4 has no journal

std::string setup_group(const Lab& lab) { return lab_cgroup(lab.name) + "/setup"; }
std::string fabric_group(const Lab& lab) { return lab_cgroup(lab.name) + "/fabric"; }

Status check_request(const LabRequest& request) {
  if (::geteuid() != 0)
    return Error{
        Code::kInvalid,
        "a lab is made of namespaces, mounts and cgroups, which needs root: run it with sudo"};
  TRY(check_lab_name(request.name));
  if (request.nodes.empty() || request.nodes.size() > kLabNodesMax)
    return Error{Code::kInvalid, format("%zu nodes: a lab has between 1 and %zu",
                                        request.nodes.size(), kLabNodesMax)};
  std::set<std::string> seen = {"setup", "fabric"};  // groups of ours beside those of the nodes
  for (const auto& [name, role] : request.nodes) {
    TRY(check_lab_name(name));
    if (!seen.insert(name).second) return Error{Code::kInvalid, "node name " + name + " is taken"};
  }
  if (!(request.link_bits_per_s >= 64e3 && request.link_bits_per_s <= 100e9))
    return Error{Code::kInvalid,
                 format("link rate %.0f bit/s: between 64e3 and 100e9", request.link_bits_per_s)};
  if (request.shared_bytes < kSharedBytesMin)
    return Error{Code::kInvalid, format("shared storage of %lld bytes is below %lld",
                                        static_cast<long long>(request.shared_bytes),
                                        static_cast<long long>(kSharedBytesMin))};
  return ok();
}

Lab planned(const LabRequest& request) {
  Lab lab;
  lab.name = request.name;
  lab.dir = lab_dir(request.name);
  lab.owner_pid = ::getpid();
  lab.owner_start = start_ticks_of(lab.owner_pid);
  for (const auto& [name, role] : request.nodes) {
    LabNode node;
    node.name = name;
    node.role = role;
    node.address = lab_address(lab.nodes.size());
    node.cgroup = lab_cgroup(lab.name) + "/" + name;
    node.state_dir = lab_node_dir(lab.dir, name) + "/state";
    lab.nodes.push_back(std::move(node));
  }
  return lab;
}

Result<std::string> random_uuid() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return system_error("getrandom");
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);  // version 4, RFC 9562
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += format("%02x", bytes[i]);
  }
  return out;
}

Status make_node_files(const Lab& lab) {
  TRY(make_directories(kNodeStateDir));
  TRY(make_directories(kNodeSharedDir));
  for (const LabNode& node : lab.nodes) {
    TRY(make_directories(node.state_dir));
    const Json self = {{"node", node.name},
                       {"role", node.role},
                       {"lab", lab.name},
                       {"cgroup", node.cgroup},
                       {"address", node.address}};
    TRY(write_synced(node.state_dir + "/node.json", line_of(self) + "\n"));
    const std::string boot_id = TRY(random_uuid());
    TRY(write_synced(lab_node_dir(lab.dir, node.name) + "/boot_id", boot_id + "\n"));
  }
  return ok();
}

Status make_cgroups(const Lab& lab) {
  TRY(cgroup_create(setup_group(lab), ""));
  TRY(cgroup_create(fabric_group(lab), ""));
  for (const LabNode& node : lab.nodes) TRY(cgroup_create(node.cgroup, ""));
  return ok();
}

Status start_inits(Lab& lab, const std::string& binary) {
  std::vector<StartingInit> starting;
  InitStart fabric{lab.name, "", 0, binary, fabric_group(lab), lab.dir + "/fabric.log"};
  starting.push_back(TRY(StartingInit::start(fabric)));
  for (std::size_t i = 0; i < lab.nodes.size(); ++i) {
    const LabNode& node = lab.nodes[i];
    const InitStart init{lab.name, node.name,   i,
                         binary,   node.cgroup, lab_node_dir(lab.dir, node.name) + "/init.log"};
    starting.push_back(TRY(StartingInit::start(init)));
  }
  const auto until = std::chrono::steady_clock::now() + kReadyTime;
  lab.fabric_pid = TRY(starting.front().wait_ready(until));
  lab.fabric_start = start_ticks_of(lab.fabric_pid);
  for (std::size_t i = 0; i < lab.nodes.size(); ++i) {
    lab.nodes[i].init_pid = TRY(starting[i + 1].wait_ready(until));
    lab.nodes[i].init_start = start_ticks_of(lab.nodes[i].init_pid);
  }
  return ok();
}

Status check_nodes_alive(const Lab& lab) {
  if (!lab_process_alive(lab.fabric_pid, lab.fabric_start))
    return Error{Code::kRefused, "its network is gone"};
  for (const LabNode& node : lab.nodes) {
    if (!lab_process_alive(node.init_pid, node.init_start))
      return Error{Code::kRefused, "node " + node.name + " is gone"};
  }
  return ok();
}

// The lab's directory is there and its record is written.
Status make(Lab& lab, const LabRequest& request) {
  TRY(make_cgroups(lab));
  TRY(make_node_files(lab));
  TRY(make_storage(lab, request.shared_bytes, setup_group(lab)));
  TRY(start_inits(lab, request.init_binary));
  TRY(write_record(lab));
  TRY(make_network(lab, request.link_bits_per_s, setup_group(lab)));
  TRY(check_nodes_alive(lab));
  lab.standing = request.standing;
  return write_record(lab);
}

// What a killed run left under the name goes; anything that may be somebody's is refused.
Status make_room(const std::string& name) {
  if (has_record(name)) {
    const Result<Lab> present = read_record(name);
    if (!present.ok())
      return Error{Code::kRefused,
                   present.error().message + "; `mixproof lab down " + name + "` clears it"};
    if (!lab_is_stale(present.value()))
      return Error{Code::kRefused,
                   "lab " + name + " is up; `mixproof lab down " + name + "` takes it down"};
  }
  return take_down(name);
}

UniqueFd open_claim(const Lab& lab, int flags) {
  return UniqueFd(::open((lab.dir + "/claim").c_str(), flags | O_CLOEXEC, 0644));
}

// An open file description lock: unlike flock it can be asked about without being taken.
int claim_lock(const UniqueFd& fd, int command, struct flock& lock) {
  lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return ::fcntl(fd.get(), command, &lock);
}

}  // namespace

Result<Lab> lab_up(const LabRequest& request) {
  TRY(check_request(request));
  const UniqueFd lock = TRY(lock_labs());
  TRY(make_room(request.name));
  Lab lab = planned(request);
  TRY(make_directories(lab.dir));
  Status made = write_record(lab);
  if (made.ok()) made = make(lab, request);
  if (made.ok()) return lab;
  Error error = Error(made.error()).in("make lab " + request.name);
  const Status cleared = take_down(request.name);
  if (!cleared.ok()) error.message += "; and then: " + cleared.error().message;
  return error;
}

Status lab_claim(const Lab& lab) {
  const Status alive = check_nodes_alive(lab);
  if (!alive.ok())
    return Error(alive.error())
        .in("lab " + lab.name + " cannot be used (`mixproof lab down " + lab.name + "` clears it)");
  UniqueFd fd = open_claim(lab, O_RDWR | O_CREAT);
  if (!fd) return system_error("open " + lab.dir + "/claim");
  struct flock lock;
  if (claim_lock(fd, F_OFD_SETLK, lock) != 0) {
    if (errno != EAGAIN && errno != EACCES) return system_error("lock " + lab.dir + "/claim");
    return Error{Code::kRefused,
                 "lab " + lab.name + " is used by " + lab_user(lab).value_or("another run")};
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd.get(), 0) != 0 || ::pwrite(fd.get(), pid.data(), pid.size(), 0) < 0)
    return system_error("write " + lab.dir + "/claim");
  static_cast<void>(
      fd.release());  // the lock is meant to last as long as the process, which closes it
  return ok();
}

std::optional<std::string> lab_user(const Lab& lab) {
  if (!lab.standing && lab_process_alive(lab.owner_pid, lab.owner_start))
    return "a run, process " + std::to_string(lab.owner_pid);
  const UniqueFd fd = open_claim(lab, O_RDONLY);
  struct flock lock;
  if (!fd || claim_lock(fd, F_OFD_GETLK, lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  char text[32] = {};
  const ssize_t got = ::pread(fd.get(), text, sizeof text - 1, 0);
  int pid = 0;
  if (got > 0) std::from_chars(text, text + got, pid);
  return pid > 0 ? "a run, process " + std::to_string(pid) : "a run";
}

std::vector<std::string> lab_prefix(const LabNode& node) {
  return {"nsenter", "-t", std::to_string(node.init_pid), "-n", "-u", "-i", "-p", "-m", "-T", "--"};
}

}  // namespace mixproof
