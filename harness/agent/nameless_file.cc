#include "harness/agent/nameless_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "harness/base/text.h"

namespace mixproof {
namespace {

using std::chrono::steady_clock;

constexpr std::int64_t kFirstPiece = std::int64_t{64} << 20;
constexpr std::int64_t kLargestPiece = std::int64_t{64} << 30;
constexpr std::int64_t kPieceBack = std::int64_t{256} << 30;
constexpr int kShrink = 8;                               // after a refusal
constexpr auto kQuick = std::chrono::milliseconds(100);  // a piece may then be twice as large

struct Kind {
  long magic;  // statfs(2)
  const char* name;
};
constexpr Kind kKinds[] = {
    {0xEF53, "ext4"},       {0x58465342, "xfs"},  {0x9123683E, "btrfs"},   {0x01021994, "tmpfs"},
    {0x858458f6, "ramfs"},  {0x6969, "nfs"},      {0x794c7630, "overlay"}, {0x65735546, "fuse"},
    {0x0BD00BD0, "lustre"}, {0x00c36400, "ceph"}, {0xFE534D42, "smb2"},    {0x2fc12fc1, "zfs"},
    {0x01021997, "9p"},     {0xF2F52010, "f2fs"}, {0x47504653, "gpfs"},
};

std::string kind_of(int fd) {
  struct statfs facts {};
  if (::fstatfs(fd, &facts) != 0) return "unknown";
  const long magic = static_cast<long>(facts.f_type);
  for (const Kind& kind : kKinds)
    if (magic == kind.magic) return kind.name;
  return format("0x%lx", magic);
}

Error cannot(int fd, const std::string& path, const std::string& what) {
  return {Code::kUnavailable, "the file system at " + path + " (" + kind_of(fd) + ") " + what};
}

struct RawHandle {
  static constexpr unsigned kBytesMost = 128;  // MAX_HANDLE_SZ
  alignas(file_handle) std::array<char, sizeof(file_handle) + kBytesMost> storage{};
  char* bytes() { return storage.data() + sizeof(file_handle); }
  file_handle* get() { return reinterpret_cast<file_handle*>(storage.data()); }
};

std::string to_hex(const char* bytes, unsigned count) {
  std::string out;
  for (unsigned i = 0; i < count; ++i)
    out += format("%02x", static_cast<unsigned>(static_cast<unsigned char>(bytes[i])));
  return out;
}

bool from_hex(const std::string& hex, RawHandle& out) {
  const std::size_t count = hex.size() / 2;
  if (hex.empty() || hex.size() % 2 != 0 || count > RawHandle::kBytesMost) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string digits = hex.substr(2 * i, 2);
    char* end = nullptr;
    const unsigned long byte = std::strtoul(digits.c_str(), &end, 16);
    if (*end != '\0') return false;
    out.bytes()[i] = static_cast<char>(byte);
  }
  out.get()->handle_bytes = static_cast<unsigned>(count);
  return true;
}

Result<FileHandle> handle_of(const UniqueFd& file, const std::string& path) {
  RawHandle raw;
  raw.get()->handle_bytes = RawHandle::kBytesMost;
  int mount = 0;
  if (::name_to_handle_at(file.get(), "", raw.get(), &mount, AT_EMPTY_PATH) == 0)
    return FileHandle{raw.get()->handle_type, to_hex(raw.bytes(), raw.get()->handle_bytes)};
  if (errno == EOPNOTSUPP)
    return cannot(file.get(), path,
                  "gives no handles of files: it could not be proved that the space is back");
  return system_error("name_to_handle_at in " + path);
}

}  // namespace

Result<UniqueFd> open_on_device(const std::string& directory, std::uint64_t device) {
  for (std::string place = directory; !place.empty();) {
    UniqueFd fd(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const int error = errno;
    if (fd) {
      struct stat facts {};
      if (::fstat(fd.get(), &facts) != 0) return system_error("stat " + place);
      if (facts.st_dev == device) return fd;
      return Error{Code::kConflict,
                   "at " + place + " there is another file system than the one that was planned"};
    }
    if (error != ENOENT && error != ENOTDIR) return system_error("open " + place, error);
    const std::size_t slash = place.rfind('/');
    if (slash == std::string::npos || place == "/") break;
    place = slash == 0 ? "/" : place.substr(0, slash);
  }
  return Error{Code::kUnavailable, "there is no directory " + directory};
}

Result<bool> handle_is_live(const UniqueFd& on_device, const FileHandle& handle) {
  RawHandle raw;
  if (!from_hex(handle.hex, raw)) return Error{Code::kCorrupt, "no handle: '" + handle.hex + "'"};
  raw.get()->handle_type = handle.type;
  const UniqueFd file(
      ::open_by_handle_at(on_device.get(), raw.get(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file) return true;
  if (errno == ESTALE) return false;
  return system_error("open_by_handle_at");
}

Result<NamelessFile> NamelessFile::create(const UniqueFd& directory, const std::string& path) {
  UniqueFd fd(::openat(directory.get(), ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (!fd) {
    // EISDIR and EINVAL: from kernels and file systems that do not know the flag.
    if (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)
      return cannot(directory.get(), path,
                    "cannot make a file without a name, and one with a name would outlive us");
    return system_error("make a nameless file in " + path);
  }
  struct statvfs space {};
  if (::fstatvfs(fd.get(), &space) != 0) return system_error("statvfs " + path);
  const auto block = static_cast<std::int64_t>(std::max(space.f_frsize, 512UL));
  NamelessFile out(std::move(fd), path, block);
  out.handle_ = TRY(handle_of(out.fd_, path));
  // Asked while the answer is known: whoever cannot ask now could not prove its end either.
  const Result<bool> live = handle_is_live(directory, out.handle_);
  if (!live.ok() || !*live)
    return cannot(directory.get(), path,
                  "does not find files by their handle" +
                      (live.ok() ? std::string() : " (" + live.error().message + ")") +
                      ": it could not be proved that the space is back");
  return out;
}

Result<std::int64_t> NamelessFile::free_now() const {
  struct statvfs space {};
  if (::fstatvfs(fd_.get(), &space) != 0) return system_error("statvfs " + path_);
  return static_cast<std::int64_t>(space.f_bfree) * static_cast<std::int64_t>(space.f_frsize);
}

// A refusal for another reason than want of space: others could still write.
Status NamelessFile::not_full(const std::string& what, int error) const {
  if (error == EDQUOT)
    return cannot(fd_.get(), path_, "is not full, but our quota there is used up");
  if (error == EFBIG) return cannot(fd_.get(), path_, "has more room than one file may take");
  if (error == EOPNOTSUPP) return cannot(fd_.get(), path_, "cannot reserve space (fallocate)");
  return system_error(what + " in " + path_, error);
}

Status NamelessFile::reserve(steady_clock::time_point deadline) {
  std::int64_t piece = kFirstPiece;
  bool shrinking = false;
  while (true) {
    const auto begin = steady_clock::now();
    if (begin > deadline) return Error{Code::kTimeout, "filling " + path_ + " takes too long"};
    const std::int64_t free = TRY(free_now());
    piece = std::max(std::min(piece, free) / block_, std::int64_t{1}) * block_;
    if (::fallocate(fd_.get(), 0, end_, piece) == 0) {
      end_ += piece;
      if (!shrinking && steady_clock::now() - begin < kQuick)
        piece = std::min(piece * 2, kLargestPiece);
      continue;
    }
    const int error = errno;
    if (error == EINTR) continue;
    if (error != ENOSPC) return not_full("reserve space", error);
    // Some file systems keep what they found before they ran out.
    struct stat facts {};
    if (::fstat(fd_.get(), &facts) != 0) return system_error("stat a nameless file in " + path_);
    end_ = std::max(end_, static_cast<std::int64_t>(facts.st_size) / block_ * block_);
    if (piece <= block_) return ok();
    shrinking = true;
    piece /= kShrink;
  }
}

Status NamelessFile::write(steady_clock::time_point deadline) {
  const std::vector<char> zeros(static_cast<std::size_t>(block_));
  while (steady_clock::now() <= deadline) {
    const ssize_t count = ::pwrite(fd_.get(), zeros.data(), zeros.size(), end_);
    if (count > 0) {
      end_ += count;
    } else if (count < 0 && errno == ENOSPC) {
      return ok();
    } else if (count < 0 && errno != EINTR) {
      return not_full("write", errno);
    }
  }
  return Error{Code::kTimeout, "filling " + path_ + " to the last block takes too long"};
}

Result<std::int64_t> NamelessFile::bytes() const {
  struct stat facts {};
  if (::fstat(fd_.get(), &facts) != 0) return system_error("stat a nameless file in " + path_);
  return static_cast<std::int64_t>(facts.st_blocks) * 512;
}

// In pieces, so that a very large file cannot keep us beyond the deadline.
Status NamelessFile::give_back(steady_clock::time_point deadline) {
  struct stat facts {};
  if (::fstat(fd_.get(), &facts) != 0) return system_error("stat a nameless file in " + path_);
  std::int64_t left = static_cast<std::int64_t>(facts.st_size);
  do {
    left = std::max<std::int64_t>(0, left - kPieceBack);
    if (::ftruncate(fd_.get(), left) != 0) return system_error("empty a nameless file in " + path_);
    if (left > 0 && steady_clock::now() > deadline)
      return Error{Code::kTimeout, format("%lld bytes in %s are still to be given back",
                                          static_cast<long long>(left), path_.c_str())};
  } while (left > 0);
  end_ = 0;
  const std::int64_t held = TRY(bytes());
  if (held == 0) return ok();
  return Error{Code::kConflict, format("the emptied file in %s still holds %lld bytes",
                                       path_.c_str(), static_cast<long long>(held))};
}

}  // namespace mixproof
