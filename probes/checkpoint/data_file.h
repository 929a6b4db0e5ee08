// DataFile: the training data on the shared storage: a file whose bytes follow from a key, read in
// pieces that are checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>

#include "harness/base/result.h"
#include "harness/base/unique_fd.h"

namespace mixproof {

class DataFile {
 public:
  // Writes the file unless it is there with this size; by one rank, before the others open it.
  static Status create(const std::string& path, std::int64_t bytes, std::uint64_t key,
                       const std::stop_token& stop);
  static Result<DataFile> open(const std::string& path, std::int64_t bytes, std::uint64_t key);

  // `into` from `offset` on, a multiple of 8. kCorrupt when the bytes are not those of the file's
  // key. The kernel is asked to forget the bytes, so that the next read of them reaches the storage
  // again.
  Status read(std::int64_t offset, std::span<std::byte> into) const;

 private:
  DataFile(UniqueFd fd, std::string path, std::uint64_t key)
      : fd_(std::move(fd)), path_(std::move(path)), key_(key) {}

  UniqueFd fd_;
  std::string path_;
  std::uint64_t key_;
};

}  // namespace mixproof
