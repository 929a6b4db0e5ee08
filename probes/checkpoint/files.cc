#include "probes/checkpoint/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

namespace mixproof {
namespace {

constexpr std::size_t kBlock = 4U << 20U;  // between two looks at the stop

Status write_all(int fd, const std::string& path, std::span<const std::byte> bytes,
                 const std::stop_token& stop) {
  while (!bytes.empty()) {
    if (stop.stop_requested()) return Error{Code::kRefused, "stopped while writing " + path};
    const ssize_t written = ::write(fd, bytes.data(), std::min(bytes.size(), kBlock));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error("write " + path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return ok();
}

Status write_and_sync(const std::string& path, std::span<const std::span<const std::byte>> parts,
                      const std::stop_token& stop) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return system_error("create " + path);
  for (const std::span<const std::byte> part : parts) TRY(write_all(fd.get(), path, part, stop));
  if (::fsync(fd.get()) != 0) return system_error("sync " + path);
  if (::close(fd.release()) != 0) return system_error("close " + path);
  return ok();
}

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

}  // namespace

Status sync_directory(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return system_error("open " + path);
  if (::fsync(fd.get()) != 0) return system_error("sync " + path);
  return ok();
}

Status make_synced_directory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return system_error("create directory " + path, error.value());
  return sync_directory(parent_of(path));
}

Status write_synced(const std::string& path, std::span<const std::span<const std::byte>> parts,
                    const std::stop_token& stop) {
  const std::string unfinished = path + kUnfinished;
  Status written = write_and_sync(unfinished, parts, stop);
  if (written && ::rename(unfinished.c_str(), path.c_str()) != 0)
    written = system_error("rename to " + path);
  if (!written) {
    ::unlink(unfinished.c_str());
    return written;
  }
  return sync_directory(parent_of(path));
}

Result<UniqueFd> open_to_read(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd) return fd;
  const int error = errno;
  Error said = system_error("open " + path, error);
  if (error == ENOENT) said.code = Code::kUnavailable;
  return said;
}

Result<std::int64_t> size_of(const UniqueFd& fd, const std::string& path) {
  struct stat facts = {};
  if (::fstat(fd.get(), &facts) != 0) return system_error("stat " + path);
  return static_cast<std::int64_t>(facts.st_size);
}

Status read_exactly(const UniqueFd& fd, const std::string& path, std::int64_t offset,
                    std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t count =
        ::pread(fd.get(), into.data(), std::min(into.size(), kBlock), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("read " + path);
    if (count == 0) return Error{Code::kCorrupt, path + " ends too early"};
    into = into.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
  return ok();
}

Result<std::vector<std::string>> names_in(const std::string& directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(directory.c_str()), &::closedir);
  if (listing == nullptr) {
    if (errno == ENOENT) return names;
    return system_error("list " + directory);
  }
  errno = 0;
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  if (errno != 0) return system_error("list " + directory);
  std::sort(names.begin(), names.end());
  return names;
}

Status remove_file(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return ok();
  return system_error("remove " + path);
}

}  // namespace mixproof
