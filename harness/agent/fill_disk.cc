#include "harness/agent/fill_disk.h"

#include <sys/statfs.h>
#include <time.h>

#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

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
// The first takes all but a few blocks. A large file needs another block to list its next one, so
// the very last is for a small file; several, because others free blocks one at a time.
constexpr int kFiles = 4;
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

// What one operation holds, or held.
class Filling {
 public:
  static Result<Filling> create(const UniqueFd& directory, const std::string& path) {
    Filling out;
    for (int i = 0; i < kFiles; ++i)
      out.files_.push_back(TRY(NamelessFile::create(directory, path)));
    return out;
  }

  std::vector<FileHandle> handles() const {
    std::vector<FileHandle> out;
    for (const NamelessFile& file : files_) out.push_back(file.handle());
    return out;
  }

  Status take_all(steady_clock::time_point deadline) {
    TRY(files_.front().reserve(deadline));
    for (NamelessFile& file : files_) TRY(file.write(deadline));
    floor_ = TRY(files_.front().free_now());
    return ok();
  }

  // Cheap when nothing has become free.
  Status take_freed(steady_clock::time_point deadline) {
    const std::int64_t free = TRY(files_.front().free_now());
    if (free > floor_) return take_all(deadline);
    floor_ = free;
    return ok();
  }

  Result<std::int64_t> bytes() const {
    std::int64_t sum = 0;
    for (const NamelessFile& file : files_) sum += TRY(file.bytes());
    return sum;
  }

  Status give_back(steady_clock::time_point deadline) {
    Status first = ok();
    for (NamelessFile& file : files_)
      if (Status given = file.give_back(deadline); !given.ok() && first.ok())
        first = std::move(given);
    return first;
  }

 private:
  std::vector<NamelessFile> files_;
  // Free by the file system's count when it last refused us: it keeps that for itself.
  std::int64_t floor_ = 0;
};

Json to_json(const std::vector<FileHandle>& handles) {
  Json out = Json::array();
  for (const FileHandle& handle : handles)
    out.push_back({{"type", handle.type}, {"handle", handle.hex}});
  return out;
}

class FillDiskOperator final : public HostOperator {
 public:
  Result<std::string> preimage(const HostOperation& operation) override {
    const FillDisk& fill = std::get<FillDisk>(operation);
    const UniqueFd directory = TRY(open_on_device(fill.directory, fill.device));
    TRY(spare_memory(directory, fill.directory));
    Filling filling = TRY(Filling::create(directory, fill.directory));
    const std::string boot = TRY(boot_id());
    const Json json = {{"boot_id", boot}, {"files", to_json(filling.handles())}};
    held_.insert_or_assign(fill.directory, std::move(filling));
    return line_of(json);
  }

  Status apply(const HostOperation& operation, std::chrono::nanoseconds) override {
    const FillDisk& fill = std::get<FillDisk>(operation);
    const auto filling = held_.find(fill.directory);
    if (filling == held_.end()) return Error{Code::kInternal, "a fill without its files"};
    // Between the plan and now something else may have been mounted there.
    TRY(open_on_device(fill.directory, fill.device));
    return filling->second.take_all(steady_clock::now() + kFillDeadline);
  }

  bool needs_tending() const override { return true; }

  // What it cannot take the controls see.
  void tend(const HostOperation& operation) override {
    const auto filling = held_.find(std::get<FillDisk>(operation).directory);
    if (filling == held_.end()) return;
    static_cast<void>(filling->second.take_freed(steady_clock::now() + kTendDeadline));
  }

  Result<Json> counted(const HostOperation& operation) override {
    const auto filling = held_.find(std::get<FillDisk>(operation).directory);
    const std::int64_t bytes = filling == held_.end() ? 0 : TRY(filling->second.bytes());
    return Json{{"bytes", bytes}};
  }

  // Another process than the one that filled it has nothing to undo: the kernel has done that. Both
  // learn here what verify_undone() is to look for.
  Status undo(const HostOperation& operation, const std::string& preimage) override {
    const FillDisk& fill = std::get<FillDisk>(operation);
    looked_for_.erase(fill.directory);
    if (const auto filling = held_.find(fill.directory); filling != held_.end()) {
      TRY(filling->second.give_back(steady_clock::now() + kUndoDeadline));
      held_.erase(filling);
    }
    looked_for_[fill.directory] = TRY(files_in(preimage, fill.directory));
    return ok();
  }

  Status verify_undone(const HostOperation& operation) override {
    const FillDisk& fill = std::get<FillDisk>(operation);
    const auto wanted = looked_for_.find(fill.directory);
    if (wanted == looked_for_.end())
      return Error{Code::kSystem, "it is not known which files filled " + fill.directory};
    if (wanted->second.empty()) return ok();  // of an earlier boot
    const UniqueFd directory = TRY(open_on_device(fill.directory, fill.device));
    const auto deadline = steady_clock::now() + kGoneDeadline;
    for (const FileHandle& handle : wanted->second)
      while (TRY(handle_is_live(directory, handle))) {
        if (steady_clock::now() > deadline)
          return Error{Code::kConflict,
                       "what filled " + fill.directory + " is still held by some process"};
        const std::timespec pause{0, 1'000'000};
        ::nanosleep(&pause, nullptr);
      }
    return ok();
  }

 private:
  // None when they were of an earlier boot.
  static Result<std::vector<FileHandle>> files_in(const std::string& preimage,
                                                  const std::string& directory) {
    const Error unknown{Code::kCorrupt, "the journal does not say which files filled " + directory};
    const Result<Json> json = parse_json(preimage, "preimage");
    if (!json.ok() || text_at(*json, "boot_id").empty()) return unknown;
    const std::string boot = TRY(boot_id());
    std::vector<FileHandle> out;
    if (text_at(*json, "boot_id") != boot) return out;
    if (const Json* files = member(*json, "files"); files != nullptr && files->is_array())
      for (const Json& file : *files)
        out.push_back({static_cast<int>(integer_at(file, "type")), text_at(file, "handle")});
    if (out.empty()) return unknown;
    return out;
  }

  std::map<std::string, Filling> held_;                        // by directory
  std::map<std::string, std::vector<FileHandle>> looked_for_;  // after undo: what must be gone
};

}  // namespace

std::unique_ptr<HostOperator> make_fill_disk(const HostView&) {
  return std::make_unique<FillDiskOperator>();
}

}  // namespace mixproof
