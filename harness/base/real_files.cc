// The real Files: every write is whole or an error; synced means file and directory.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>

#include "harness/base/epoll_world.h"
#include "harness/base/unique_fd.h"

namespace mixproof {
namespace {

Status write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error("write " + path);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return ok();
}

Status sync_directory_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const UniqueFd fd(
      ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return system_error("open directory " + parent);
  if (::fsync(fd.get()) != 0) return system_error("sync directory " + parent);
  return ok();
}

class RealFiles final : public Files {
 public:
  Status make_directories(const std::string& path) override {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) return Error{Code::kSystem, "create directory " + path + ": " + error.message()};
    return ok();
  }

  Status append(const std::string& path, std::string_view bytes) override {
    return append_to(path, bytes, false);
  }
  Status append_synced(const std::string& path, std::string_view bytes) override {
    return append_to(path, bytes, true);
  }

  Status replace(const std::string& path, std::string_view bytes) override {
    const std::string temporary = path + ".tmp." + std::to_string(::getpid());
    const Status written = write_new(temporary, bytes);
    if (!written.ok()) {
      ::unlink(temporary.c_str());
      return written;
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      const Error error = system_error("rename " + temporary + " to " + path);
      ::unlink(temporary.c_str());
      return error;
    }
    return sync_directory_of(path);
  }

  Status remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return system_error("remove " + path);
    return ok();
  }

  Result<std::string> read(const std::string& path) override {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return system_error("open " + path);
    std::string out;
    char buffer[65536];
    while (true) {
      const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return system_error("read " + path);
      if (got == 0) return out;
      out.append(buffer, static_cast<std::size_t>(got));
    }
  }

  Result<std::vector<std::string>> list(const std::string& directory) override {
    std::vector<std::string> names;
    std::error_code error;
    std::filesystem::directory_iterator it(directory, error);
    if (error == std::errc::no_such_file_or_directory) return names;
    if (error) return Error{Code::kSystem, "list " + directory + ": " + error.message()};
    for (const std::filesystem::directory_iterator end; it != end; it.increment(error)) {
      if (error) return Error{Code::kSystem, "list " + directory + ": " + error.message()};
      names.push_back(it->path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  Result<bool> try_lock(const std::string& path) override {
    if (locks_.count(path) != 0) return true;
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!fd) return system_error("open " + path);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return false;
      return system_error("lock " + path);
    }
    locks_.emplace(path, std::move(fd));
    return true;
  }

 private:
  Status append_to(const std::string& path, std::string_view bytes, bool sync) {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!fd) return system_error("open " + path);
    struct stat before {};
    if (::fstat(fd.get(), &before) != 0) return system_error("stat " + path);
    const Status written = write_all(fd.get(), bytes, path);
    if (!written.ok()) {
      // Whole or not at all: half a record would swallow the ones behind it. Each file has one
      // writer.
      if (::ftruncate(fd.get(), before.st_size) != 0)
        return Error{Code::kSystem, written.error().message + "; half of it stays"};
      return written;
    }
    if (!sync) return ok();
    if (::fdatasync(fd.get()) != 0) return system_error("sync " + path);
    return sync_directory_of(path);
  }

  Status write_new(const std::string& path, std::string_view bytes) {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!fd) return system_error("open " + path);
    TRY(write_all(fd.get(), bytes, path));
    if (::fsync(fd.get()) != 0) return system_error("sync " + path);
    return ok();
  }

  std::map<std::string, UniqueFd> locks_;
};

}  // namespace

std::unique_ptr<Files> make_real_files() { return std::make_unique<RealFiles>(); }

}  // namespace mixproof
