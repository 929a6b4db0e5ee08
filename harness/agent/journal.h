// Journal: what a guard is about to do and has done, on disk before it happens. One file a fault:
// <state>/faults/<run>.<fault>.journal, records of [length u32][crc32 u32][JSON], little endian,
// each synced. Only a guard (or `recover` under the same lock) writes it. A torn last record is
// tolerated: it never happened.
#pragma once

#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/base/world.h"

namespace mixproof {

// Record types, in the order they appear: plan, lease (again at each renewal), preimage (one a
// step), begin (step), done (step), undo_begin (step), undo_done (step), clean, dirty (reason).
// Every record has "type", "boot_id" and "boottime_ns".
class Journal {
 public:
  Journal(World& world, std::string path) : world_(world), path_(std::move(path)) {}

  Status write(std::string_view type, Json fields);
  const std::string& path() const { return path_; }

 private:
  World& world_;
  std::string path_;
};

std::string encode_record(const Json& record);

struct JournalRecords {
  std::vector<Json> records;
  bool torn = false;  // bytes after the last whole record
  std::size_t sound =
      0;  // bytes of the whole records; what follows must go before anything is appended
};
// kCorrupt when a record before the last one is damaged (names its offset).
Result<JournalRecords> decode_journal(std::string_view bytes, const std::string& path);

// What a journal says about its fault.
struct JournalState {
  std::string run, fault, node;
  std::string state;    // planned, injecting, injected, reverting, clean, dirty
  std::string reason;   // of dirty
  std::string boot_id;  // of plan and lease: the guard's
  Time lease_end{0};    // CLOCK_BOOTTIME
  ProcessId guard;
  std::string cgroup;                  // the guard's own; empty: none
  Json plan;                           // the fault plan
  std::vector<std::string> preimages;  // by step; empty text for a step that has none yet
  std::vector<std::size_t>
      begun;  // steps that began, in order; undone again and verified until all is clean
  // Nothing of it is on the node. While its guard lives, a planned fault is about to be injected.
  bool resolved(bool guarded) const { return state == "clean" || (state == "planned" && !guarded); }
};
JournalState journal_state(const JournalRecords& records);

std::string journal_directory(const std::string& state_dir);
std::string journal_path(const std::string& state_dir, const std::string& run,
                         const std::string& fault);
std::string journal_lock(const std::string& journal_path);

}  // namespace mixproof
