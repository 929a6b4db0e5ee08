// NamelessFile: a file that no directory lists, which takes free blocks of its file system. The
// kernel frees them when the last process that holds it lets go or dies.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "harness/base/result.h"
#include "harness/base/unique_fd.h"

namespace mixproof {

// What the kernel knows a file by, as text: inode and generation among it, so no later file is
// taken for it.
struct FileHandle {
  int type = 0;
  std::string hex;
};

// The directory, or while it is gone the nearest one above it, on that device. kConflict when
// another file system is there now.
Result<UniqueFd> open_on_device(const std::string& directory, std::uint64_t device);

// Whether a file with this handle is still there, under whatever hand. A failed look is an error.
Result<bool> handle_is_live(const UniqueFd& on_device, const FileHandle& handle);

class NamelessFile {
 public:
  // Empty. kUnavailable, with the kind of file system, when it cannot do this.
  static Result<NamelessFile> create(const UniqueFd& directory, const std::string& path);

  const FileHandle& handle() const { return handle_; }
  // Both take free blocks until the file system refuses this file a single one for want of space.
  // reserve() is quick; a write may get what a reservation does not. kTimeout when that takes
  // longer; what was taken stays.
  Status reserve(std::chrono::steady_clock::time_point deadline);
  Status write(std::chrono::steady_clock::time_point deadline);
  // Of the whole file system, for root.
  Result<std::int64_t> free_now() const;
  Result<std::int64_t> bytes() const;  // that it holds
  // Empties it; the space is free when this returns ok.
  Status give_back(std::chrono::steady_clock::time_point deadline);

 private:
  NamelessFile(UniqueFd fd, std::string path, std::int64_t block)
      : fd_(std::move(fd)), path_(std::move(path)), block_(block) {}
  Status not_full(const std::string& what, int error) const;

  UniqueFd fd_;
  std::string path_;  // of the directory, for words
  std::int64_t block_, end_ = 0;
  FileHandle handle_;
};

}  // namespace mixproof
