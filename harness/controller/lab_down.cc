#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>

#include "harness/base/cgroup.h"
#include "harness/base/text.h"
#include "harness/controller/lab_files.h"
#include "harness/controller/lab_process.h"
#include "harness/controller/lab_storage.h"
#include "harness/controller/lab_take_down.h"

namespace mixproof {
namespace {

constexpr std::chrono::milliseconds kKillTime{5000};
constexpr int kGroupTries = 3;

// Remembers the first failure and lets the rest go on.
class Steps {
 public:
  void done(std::string_view what, const Status& status) {
    if (!status.ok() && first_.ok()) first_ = Error(status.error()).in(what);
  }
  Status result() const { return first_; }

 private:
  Status first_ = ok();
};

Status remove_below(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (!error) return ok();
  return Error{Code::kSystem, "remove " + path.string() + ": " + error.message()};
}

// The record goes last: until then anyone can see what is left and try again.
Status remove_directory(const std::string& dir) {
  const std::vector<std::string> mounted = TRY(mounts_below(dir));
  if (!mounted.empty())
    return Error{Code::kSystem, mounted.front() + " is mounted: " + dir + " is kept"};
  std::error_code error;
  std::filesystem::directory_iterator it(dir, error);
  for (const std::filesystem::directory_iterator end; !error && it != end; it.increment(error)) {
    if (it->path().filename() != "lab.json") TRY(remove_below(it->path()));
  }
  if (error && error.value() != ENOENT)
    return Error{Code::kSystem, "list " + dir + ": " + error.message()};
  return remove_below(dir);
}

void kill_inits(const Lab& lab, Steps& steps) {
  steps.done("end the fabric", end_init(lab.fabric_pid, lab.fabric_start, lab.name, kKillTime));
  for (const LabNode& node : lab.nodes)
    steps.done("end " + node.name, end_init(node.init_pid, node.init_start, lab.name, kKillTime));
}

// A process that was forked just before its maker was killed may still be on its way into the
// group. It either comes in, and is killed by another try, or finds the group gone, and ends by
// itself.
Status end_group(const std::string& group) {
  Status removed = ok();
  for (int i = 0; i < kGroupTries; ++i) {
    TRY(cgroup_kill(group, kKillTime));
    removed = cgroup_remove(group);
    if (removed.ok()) break;
  }
  return removed;
}

bool is_present(const std::string& name) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(lab_dir(name), error));
}

std::vector<std::string> names_present() {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator it(kLabsDir, error);
  for (const std::filesystem::directory_iterator end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code ignored;
    if (it->is_directory(ignored) && check_lab_name(name).ok()) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_empty_directory(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_empty(path, error) && !error;
}

// The first thing made in a lab's directory is its record. A directory without one that holds
// nothing else either is what a maker leaves that was killed before; any other is not known to be
// ours.
bool is_unrecorded(const std::string& name) {
  std::error_code error;
  std::filesystem::directory_iterator it(lab_dir(name), error);
  for (const std::filesystem::directory_iterator end; !error && it != end; it.increment(error)) {
    if (it->path().filename() != "lab.json.tmp") return false;
  }
  return !error;
}

}  // namespace

Status take_down(const std::string& name) {
  if (!is_present(name)) return ok();
  const std::string dir = lab_dir(name);
  Steps steps;
  thaw_storage(dir);
  const Result<Lab> record = read_record(name);
  if (record.ok())
    kill_inits(record.value(), steps);  // without a record the cgroup still names every process
  steps.done("end what is left", end_group(lab_cgroup(name)));
  steps.done("storage", clear_storage(dir));  // from here on nobody of ours can mount anything
  if (steps.result().ok()) steps.done("directory", remove_directory(dir));
  const Status result = steps.result();
  return result.ok() ? result : Status(Error(result.error()).in("take down lab " + name));
}

Status lab_down(const std::string& name) {
  TRY(check_lab_name(name));
  if (!is_present(name)) return ok();
  const UniqueFd lock = TRY(lock_labs());
  return take_down(name);
}

Result<std::vector<Lab>> labs() {
  std::vector<Lab> out;
  for (const std::string& name : names_present()) {
    // Empty or just being cleared: nothing is recorded, nothing is there.
    if (is_empty_directory(lab_dir(name))) continue;
    Result<Lab> record = read_record(name);
    if (record.ok()) {
      out.push_back(std::move(record).value());
      continue;
    }
    if (!is_present(name)) continue;
    Lab damaged;
    damaged.name = name;
    damaged.dir = lab_dir(name);
    damaged.damage = record.error().message;
    out.push_back(std::move(damaged));
  }
  return out;
}

bool lab_is_stale(const Lab& lab) {
  if (!lab.damage.empty()) return false;
  if (!lab.standing) return !lab_process_alive(lab.owner_pid, lab.owner_start);
  const bool any_node = std::any_of(lab.nodes.begin(), lab.nodes.end(), [](const LabNode& node) {
    return lab_process_alive(node.init_pid, node.init_start);
  });
  return !any_node && !lab_process_alive(lab.fabric_pid, lab.fabric_start);
}

Status lab_clear_stale() {
  const std::vector<std::string> names = names_present();
  if (names.empty()) return ok();
  const UniqueFd lock = TRY(lock_labs());
  Steps steps;
  for (const std::string& name : names) {
    const Result<Lab> record = read_record(name);
    const bool stale = record.ok() ? lab_is_stale(record.value()) : is_unrecorded(name);
    if (stale) steps.done("clear what a killed run left", take_down(name));
  }
  return steps.result();
}

std::vector<std::string> lab_leftovers(const Lab& lab) {
  std::vector<std::string> out;
  const std::vector<int> members = cgroup_members(lab_cgroup(lab.name));
  for (const int pid : members) out.push_back("process " + std::to_string(pid));
  const Result<std::vector<std::string>> mounted = mounts_below(lab.dir);
  if (!mounted.ok())
    out.push_back("mounts unknown: " + mounted.error().message);
  else
    for (const std::string& point : mounted.value()) out.push_back("mount " + point);
  for (const std::string& device : loops_of(lab_image(lab.dir)))
    out.push_back("loop device " + device);
  if (is_present(lab.name)) out.push_back("directory " + lab.dir);
  return out;
}

}  // namespace mixproof
