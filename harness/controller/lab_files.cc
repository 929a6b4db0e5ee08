#include "harness/controller/lab_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "harness/base/epoll_world.h"
#include "harness/base/text.h"

namespace mixproof {
namespace {

constexpr std::chrono::seconds kLockWait{
    60};  // as long as the slowest of lab_up and lab_down may take

Result<std::string> boot_id() {
  std::string text = TRY(read_small_file("/proc/sys/kernel/random/boot_id"));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

Json process_of(int pid, std::uint64_t start) { return {{"pid", pid}, {"start_ticks", start}}; }

void read_process(const Json& json, std::string_view key, int& pid, std::uint64_t& start) {
  const Json* process = member(json, key);
  if (process == nullptr) return;
  pid = static_cast<int>(integer_at(*process, "pid"));
  start = static_cast<std::uint64_t>(integer_at(*process, "start_ticks"));
}

}  // namespace

Status check_lab_name(const std::string& name) {
  bool good = !name.empty() && name.size() <= 40 && name.front() != '-' && name.back() != '-';
  for (const char c : name)
    good = good && ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-');
  if (good) return ok();
  return Error{
      Code::kInvalid,
      "\"" + name +
          "\" cannot name a lab or a node: lower-case letters, digits and inner '-', at most 40"};
}

std::string lab_dir(const std::string& lab) { return format("%s/%s", kLabsDir, lab.c_str()); }
std::string lab_cgroup(const std::string& lab) { return "mixproof/" + lab; }
std::string lab_image(const std::string& lab_directory) { return lab_directory + "/shared.img"; }
std::string lab_shared(const std::string& lab_directory) { return lab_directory + "/shared"; }
std::string lab_node_dir(const std::string& lab_directory, const std::string& node) {
  return lab_directory + "/nodes/" + node;
}

Result<std::string> read_small_file(const std::string& path) {
  return make_real_files()->read(path);
}

Status write_synced(const std::string& path, std::string_view text) {
  return make_real_files()->replace(path, text);
}

Status make_directories(const std::string& path) {
  return make_real_files()->make_directories(path);
}

Status write_record(const Lab& lab) {
  Json json = {{"version", 1},
               {"name", lab.name},
               {"standing", lab.standing},
               {"boot_id", TRY(boot_id())},
               {"owner", process_of(lab.owner_pid, lab.owner_start)},
               {"fabric", process_of(lab.fabric_pid, lab.fabric_start)},
               {"nodes", Json::array()}};
  for (const LabNode& node : lab.nodes) {
    json["nodes"].push_back({{"name", node.name},
                             {"role", node.role},
                             {"address", node.address},
                             {"cgroup", node.cgroup},
                             {"state_dir", node.state_dir},
                             {"init", process_of(node.init_pid, node.init_start)}});
  }
  const std::string text = TRY(print_json(json, 1));
  return write_synced(lab.dir + "/lab.json", text + "\n");
}

bool has_record(const std::string& name) {
  return ::access((lab_dir(name) + "/lab.json").c_str(), F_OK) == 0;
}

Result<Lab> read_record(const std::string& name) {
  Lab lab;
  lab.name = name;
  lab.dir = lab_dir(name);
  const std::string path = lab.dir + "/lab.json";
  const Result<std::string> text = read_small_file(path);
  if (!text.ok()) return Error{Code::kCorrupt, text.error().message};
  const Result<Json> parsed = parse_json(text.value(), path);
  if (!parsed.ok()) return Error{Code::kCorrupt, parsed.error().message};
  const Json& json = parsed.value();
  const Json* nodes = member(json, "nodes");
  if (integer_at(json, "version") != 1 || text_at(json, "name") != name || nodes == nullptr ||
      !nodes->is_array())
    return Error{Code::kCorrupt, path + ": not the record of lab " + name};
  const bool this_boot = text_at(json, "boot_id") == TRY(boot_id());
  lab.standing = flag_at(json, "standing");
  if (this_boot) {
    read_process(json, "owner", lab.owner_pid, lab.owner_start);
    read_process(json, "fabric", lab.fabric_pid, lab.fabric_start);
  }
  for (const Json& entry : *nodes) {
    LabNode node;
    node.name = text_at(entry, "name");
    node.role = text_at(entry, "role");
    node.address = text_at(entry, "address");
    node.cgroup = text_at(entry, "cgroup");
    node.state_dir = text_at(entry, "state_dir");
    if (this_boot) read_process(entry, "init", node.init_pid, node.init_start);
    lab.nodes.push_back(std::move(node));
  }
  return lab;
}

Result<UniqueFd> lock_labs() {
  TRY(make_directories(kLabsDir));
  const std::string path = format("%s/.lock", kLabsDir);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd) return system_error("open " + path);
  const auto until = std::chrono::steady_clock::now() + kLockWait;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return system_error("lock " + path);
    if (std::chrono::steady_clock::now() >= until)
      return Error{Code::kRefused,
                   "another process has been making or clearing a lab for a minute (" + path + ")"};
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return fd;
}

}  // namespace mixproof
