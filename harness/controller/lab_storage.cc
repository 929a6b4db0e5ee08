#include "harness/controller/lab_storage.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "harness/base/text.h"
#include "harness/base/unique_fd.h"
#include "harness/controller/lab_files.h"
#include "harness/controller/lab_process.h"

namespace mixproof {
namespace {

constexpr auto kPatience =
    std::chrono::seconds(2);  // a killed process lets go of a file system some time after its end
constexpr unsigned long kThaw =
    _IOWR('X', 120, int);  // FITHAW; linux/fs.h, which names it, clashes with sys/mount.h
constexpr auto kPause = std::chrono::milliseconds(5);

Status allocate(const std::string& path, std::int64_t bytes) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return system_error("create " + path);
  if (::fallocate(fd.get(), 0, 0, bytes) == 0) return ok();
  const int error = errno;
  const Code code = error == EOPNOTSUPP ? Code::kUnavailable
                    : error == ENOSPC   ? Code::kRefused
                                        : Code::kSystem;
  return Error{code, format("allocate %lld bytes: ", static_cast<long long>(bytes)) +
                         system_error(path, error).message};
}

template <typename Done>
bool within_patience(Done done) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

Status unmount(const std::string& point) {
  int error = 0;
  const bool gone = within_patience([&] {
    error = ::umount2(point.c_str(), UMOUNT_NOFOLLOW) == 0 ? 0 : errno;
    return error != EBUSY;
  });
  if (gone && (error == 0 || error == EINVAL || error == ENOENT)) return ok();
  ::umount2(point.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
  return system_error("unmount " + point + " (now detached; something still uses it)", error);
}

Status free_loops(const std::string& image) {
  if (within_patience([&] { return loops_of(image).empty(); })) return ok();
  for (const std::string& device : loops_of(image)) {
    const UniqueFd fd(::open(device.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd) ::ioctl(fd.get(), LOOP_CLR_FD, 0);
  }
  if (within_patience([&] { return loops_of(image).empty(); })) return ok();
  return Error{Code::kSystem, loops_of(image).front() + " still holds " + image};
}

}  // namespace

Status make_storage(const Lab& lab, std::int64_t bytes, const std::string& tools_cgroup) {
  if (::access("/dev/loop-control", F_OK) != 0)
    return Error{
        Code::kUnavailable,
        "no loop devices here (/dev/loop-control): `modprobe loop` if this kernel has them"};
  const std::string image = lab_image(lab.dir), point = lab_shared(lab.dir);
  TRY(allocate(image, bytes));
  TRY(make_directories(point));
  // nodiscard keeps the file allocated; nothing is initialised lazily, or a kernel thread would
  // write during a run.
  const std::string extended = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
  TRY(run_tool({{"mkfs.ext4", "-m", "0", "-F", "-q", "-E", extended, image}, "", tools_cgroup}));
  TRY(allocate(
      image, bytes));  // mkfs zeroes its tables by punching holes, which a tmpfs leaves unallocated
  return run_tool({{"mount", "-t", "ext4", "-o", "loop", image, point}, "", tools_cgroup});
}

void thaw_storage(const std::string& lab_directory) {
  const Result<std::vector<std::string>> points = mounts_below(lab_directory);
  if (!points.ok()) return;  // unmounting will say so
  for (const std::string& point : points.value()) {
    const UniqueFd fd(::open(point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd) ::ioctl(fd.get(), kThaw, 0);  // EINVAL when it is not frozen
  }
}

Status clear_storage(const std::string& lab_directory) {
  Status first = ok();
  std::vector<std::string> points = TRY(mounts_below(lab_directory));
  std::reverse(points.begin(), points.end());
  for (const std::string& point : points) {
    const Status status = unmount(point);
    if (!status.ok() && first.ok()) first = status;
  }
  const Status freed = free_loops(lab_image(lab_directory));
  return first.ok() ? freed : first;
}

Result<std::vector<std::string>> mounts_below(const std::string& directory) {
  const std::string mountinfo = TRY(read_small_file("/proc/self/mountinfo"));
  std::vector<std::string> out;
  for (const std::string& line : split(mountinfo, '\n')) {
    const std::vector<std::string> fields = split(line, ' ');
    if (fields.size() > 4 && starts_with(fields[4], directory + "/")) out.push_back(fields[4]);
  }
  return out;
}

std::vector<std::string> loops_of(const std::string& image) {
  std::vector<std::string> out;
  std::error_code error;
  std::filesystem::directory_iterator it("/sys/block", error);
  for (const std::filesystem::directory_iterator end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!starts_with(name, "loop")) continue;
    const Result<std::string> file = read_small_file(it->path().string() + "/loop/backing_file");
    if (!file.ok()) continue;
    // A file that was unlinked since is shown as "<path> (deleted)".
    if (file.value() == image + "\n" || file.value() == image + " (deleted)\n")
      out.push_back("/dev/" + name);
  }
  return out;
}

}  // namespace mixproof
