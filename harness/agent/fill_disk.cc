#include "harness/agent/fill_disk.h"

#include <sys/statfs.h>
#include <time.h>

#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "harness/agent/nameless_file.h"
#include "harness/base/json.h"
#include "harness/base/text.h"

namespace mixproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFillDeadline{1500};
constexpr milliseconds kUndoDeadline{1000};
constexpr milliseconds kGoneDeadline{500};  // of a file whose last holder is just dying
constexpr milliseconds kTendDeadline{100};
constexpr long kTmpfs = 0x01021994, kRamfs = 0x858458f6;

Result<std::string> boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  if (!std::getline(file, text) || text.empty())
    return Error{Code::kSystem, "cannot read /proc/sys/kernel/random/boot_id"};
  return text;
}

Result<std::int64_t> memory_available() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);)
    if (starts_with(line, "MemAvailable:"))
      return std::strtoll(line.c_str() + std::string("MemAvailable:").size(), nullptr, 10) * 1024;
  return Error{Code::kSystem, "/proc/meminfo does not say MemAvailable"};
}

// A full file system of this kind is a node without memory.
Status spare_memory(const UniqueFd& directory, const std::string& path) {
  struct statfs facts {};
  if (::fstatfs(directory.get(), &facts) != 0) return system_error("statfs " + path);
  const long magic = static_cast<long>(facts.f_type);
  if (magic != kTmpfs && magic != kRamfs) return ok();
  const std::int64_t available = TRY(memory_available());
  const auto free = static_cast<std::int64_t>(facts.f_bfree) * facts.f_bsize;
  // No size at all: it takes whatever there is.
  if (facts.f_blocks != 0 && free <= available / 2) return ok();
  return Error{
      Code::kUnavailable,
      format("the file system at %s is memory, and filling it would take more than half of "
             "the %lld bytes that are available",
             path.c_str(), static_cast<long long>(available))};
}

class FillDiskOperator final : public HostOperator {
 public:
  Result<std::string> preimage(const HostOperation& operation) override {
    const FillDisk& fill = std::get<FillDisk>(operation);
    const UniqueFd directory = TRY(open_on_device(fill.directory, fill.device));
    TRY(spare_memory(directory, fill.directory));
    NamelessFile file = TRY(NamelessFile::create(directory, fill.directory));
    const Json json = {{"boot_id", TRY(boot_id())},
                       {"handle_type", file.handle().type},
                       {"handle", file.handle().hex}};
    held_.insert_or_assign(fill.directory, std::move(file));
    return line_of(json);
  }

  Status apply(const HostOperation& operation, std::chrono::nanoseconds) override {
    const FillDisk& fill = std::get<FillDisk>(operation);
    const auto file = held_.find(fill.directory);
    if (file == held_.end()) return Error{Code::kInternal, "a fill without its file"};
    // Between the plan and now something else may have been mounted there.
    TRY(open_on_device(fill.directory, fill.device));
    return file->second.take_all(steady_clock::now() + kFillDeadline);
  }

  bool needs_tending() const override { return true; }

  // What it cannot take the controls see.
  void tend(const HostOperation& operation) override {
    const auto file = held_.find(std::get<FillDisk>(operation).directory);
    if (file == held_.end()) return;
    static_cast<void>(file->second.take_freed(steady_clock::now() + kTendDeadline));
  }

  Result<Json> counted(const HostOperation& operation) override {
    const auto file = held_.find(std::get<FillDisk>(operation).directory);
    const std::int64_t bytes = file == held_.end() ? 0 : TRY(file->second.bytes());
    return Json{{"bytes", bytes}};
  }

  // Another process than the one that filled it has nothing to undo: the kernel has done that. Both
  // learn here what verify_undone() is to look for.
  Status undo(const HostOperation& operation, const std::string& preimage) override {
    const FillDisk& fill = std::get<FillDisk>(operation);
    if (const auto file = held_.find(fill.directory); file != held_.end()) {
      TRY(file->second.give_back(steady_clock::now() + kUndoDeadline));
      held_.erase(file);
    }
    looked_for_.erase(fill.directory);
    const Json json = TRY(parse_json(preimage, "preimage of a fill"));
    if (text_at(json, "boot_id").empty() || text_at(json, "handle").empty())
      return Error{Code::kCorrupt, "the journal does not say which file filled " + fill.directory};
    const std::string boot = TRY(boot_id());
    if (text_at(json, "boot_id") != boot)
      looked_for_[fill.directory] = std::nullopt;
    else
      looked_for_[fill.directory] =
          FileHandle{static_cast<int>(integer_at(json, "handle_type")), text_at(json, "handle")};
    return ok();
  }

  Status verify_undone(const HostOperation& operation) override {
    const FillDisk& fill = std::get<FillDisk>(operation);
    const auto wanted = looked_for_.find(fill.directory);
    if (wanted == looked_for_.end())
      return Error{Code::kSystem, "it is not known which file filled " + fill.directory};
    if (!wanted->second) return ok();  // of an earlier boot
    const UniqueFd directory = TRY(open_on_device(fill.directory, fill.device));
    const auto deadline = steady_clock::now() + kGoneDeadline;
    while (true) {
      const bool live = TRY(handle_is_live(directory, *wanted->second));
      if (!live) return ok();
      if (steady_clock::now() > deadline)
        return Error{Code::kConflict,
                     "the file that filled " + fill.directory + " is still held by some process"};
      const std::timespec pause{0, 1'000'000};
      ::nanosleep(&pause, nullptr);
    }
  }

 private:
  std::map<std::string, NamelessFile> held_;  // by directory
  // By directory: the file that must be gone; nothing when it was of an earlier boot.
  std::map<std::string, std::optional<FileHandle>> looked_for_;
};

}  // namespace

std::unique_ptr<HostOperator> make_fill_disk(const HostView&) {
  return std::make_unique<FillDiskOperator>();
}

}  // namespace mixproof
