// Where the parts of a lab lie, and its record. Internal to the lab.
#pragma once

#include "harness/base/json.h"
#include "harness/base/unique_fd.h"
#include "harness/controller/lab.h"

namespace mixproof {

inline constexpr const char* kLabsDir = "/run/mixproof/labs";

Status check_lab_name(const std::string& name);  // [a-z0-9] with '-' between, at most 40: it
                                                 // becomes a path and a cgroup
std::string lab_dir(const std::string& lab);
std::string lab_cgroup(const std::string& lab);  // holds one group a node, "fabric" and "setup"
std::string lab_image(const std::string& lab_directory);
std::string lab_shared(const std::string& lab_directory);
std::string lab_node_dir(const std::string& lab_directory, const std::string& node);

Result<std::string> read_small_file(const std::string& path);
Status write_synced(const std::string& path,
                    std::string_view text);  // temp, fsync, rename, fsync of the directory
Status make_directories(const std::string& path);

// The record. Pids of another boot are read as 0, so that nothing is ever taken for ours by a
// number.
Status write_record(const Lab& lab);
Result<Lab> read_record(
    const std::string& name);  // kCorrupt with the reason when it cannot be read
bool has_record(const std::string& name);

// Held by whoever makes or clears a lab. Waits; kRefused when it is still held at the end.
Result<UniqueFd> lock_labs();

}  // namespace mixproof
