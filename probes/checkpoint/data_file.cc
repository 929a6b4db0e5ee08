#include "probes/checkpoint/data_file.h"

#include <fcntl.h>

#include <array>
#include <optional>
#include <vector>

#include "harness/base/text.h"
#include "probes/checkpoint/files.h"
#include "probes/checkpoint/words.h"

namespace mixproof {

Status DataFile::create(const std::string& path, std::int64_t bytes, std::uint64_t key,
                        const std::stop_token& stop) {
  if (open(path, bytes, key)) return ok();
  std::vector<std::byte> content(static_cast<std::size_t>(bytes));
  fill_words(key, 0, content);
  const std::array<std::span<const std::byte>, 1> parts = {std::span<const std::byte>(content)};
  return write_synced(path, parts, stop);
}

Result<DataFile> DataFile::open(const std::string& path, std::int64_t bytes, std::uint64_t key) {
  UniqueFd fd = TRY(open_to_read(path));
  const std::int64_t size = TRY(size_of(fd, path));
  if (size != bytes)
    return Error{Code::kCorrupt,
                 path + format(": is %lld bytes long, should be %lld", static_cast<long long>(size),
                               static_cast<long long>(bytes))};
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM);
  return DataFile(std::move(fd), path, key);
}

Status DataFile::read(std::int64_t offset, std::span<std::byte> into) const {
  TRY(read_exactly(fd_, path_, offset, into));
  ::posix_fadvise(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(into.size()),
                  POSIX_FADV_DONTNEED);
  const std::uint64_t first = static_cast<std::uint64_t>(offset) / sizeof(std::uint64_t);
  if (const std::optional<std::size_t> wrong = wrong_word(key_, first, into))
    return Error{Code::kCorrupt,
                 path_ + format(": byte %lld is wrong",
                                static_cast<long long>(offset) + static_cast<long long>(*wrong))};
  return ok();
}

}  // namespace mixproof
