// Files of a checkpoint: small helpers over POSIX that say which call failed on which path.
#pragma once

#include <cstddef>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "harness/base/result.h"
#include "harness/base/unique_fd.h"

namespace mixproof {

// The temporary name of a file that is being written.
inline constexpr const char* kUnfinished = ".unfinished";

// Creates the directory and its parents, and syncs the parent, so that it outlives a crash.
Status make_synced_directory(const std::string& path);
Status sync_directory(const std::string& path);

// Writes the parts one after the other to "<path>.unfinished", syncs, renames to `path` and syncs
// the directory. On failure the temporary file is removed; a full disk reads "No space left on
// device". kRefused when a stop came in between.
Status write_synced(const std::string& path, std::span<const std::span<const std::byte>> parts,
                    const std::stop_token& stop);

Result<UniqueFd> open_to_read(const std::string& path);  // kUnavailable when it is not there
Result<std::int64_t> size_of(const UniqueFd& fd, const std::string& path);

// All of `into` from `offset` on; kCorrupt when the file ends before.
Status read_exactly(const UniqueFd& fd, const std::string& path, std::int64_t offset,
                    std::span<std::byte> into);

Result<std::vector<std::string>> names_in(const std::string& directory);  // sorted; absent: none
Status remove_file(const std::string& path);                              // absent: ok

}  // namespace mixproof
