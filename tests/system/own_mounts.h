// For tests that need a file system of their own: the test runs in a mount namespace of its own,
// and gives back the one it came from.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "harness/base/text.h"
#include "harness/base/unique_fd.h"
#include "tests/system/lab_fixture.h"

namespace mixproof {

// 0 when that many bytes can be written there, in one file without a name; else why not. ENOSPC
// must come at the write: a writer learns of it then, not at some later sync.
inline int write_error(const std::string& directory, std::size_t bytes = 4096) {
  const UniqueFd file(::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (!file) return errno;
  const std::string data(bytes, 'x');
  for (std::size_t at = 0; at < bytes;) {
    const ssize_t count = ::write(file.get(), data.data() + at, bytes - at);
    if (count < 0) return errno;
    at += static_cast<std::size_t>(count);
  }
  return 0;
}

inline std::int64_t free_bytes(const std::string& directory) {
  struct statvfs space {};
  EXPECT_EQ(::statvfs(directory.c_str(), &space), 0) << directory;
  return static_cast<std::int64_t>(space.f_bfree) * static_cast<std::int64_t>(space.f_frsize);
}

class OwnMounts : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: file systems of the test's own are mounted";
    directory_ = "/tmp/mixproof-mounts-" + std::to_string(::getpid());
    std::filesystem::create_directories(directory_);
    came_from_ = UniqueFd(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(came_from_);
    ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
    ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    ASSERT_EQ(::mount("mixproof-test", directory_.c_str(), "tmpfs", 0, "size=64m"), 0);
  }
  void TearDown() override {
    if (directory_.empty()) return;
    const std::string here = std::filesystem::current_path();
    // Unmounted by hand, so that a loop device is free when the test is over.
    const Outcome unmounted = shell("umount -R " + directory_);
    EXPECT_EQ(unmounted.status, 0) << unmounted.text;
    EXPECT_EQ(::setns(came_from_.get(), CLONE_NEWNS), 0);
    std::filesystem::current_path(here);
    std::filesystem::remove(directory_);
  }

  // An empty file system of about 8 MiB: "tmpfs", "ext4", or "ext4-reserve", which keeps a tenth
  // for root. Its directory.
  std::string make(const std::string& kind) {
    std::string path = directory_ + "/" + kind;
    std::filesystem::create_directories(path);
    if (kind == "tmpfs") {
      EXPECT_EQ(::mount("mixproof-test", path.c_str(), "tmpfs", 0, "size=8m"), 0);
      return path;
    }
    const std::string image = path + ".image";
    const Outcome made =
        shell(format("truncate -s 8m %s && mkfs.ext4 -q -F -m %d -E nodiscard %s && "
                     "fallocate -l 8m %s && mount -o loop %s %s",
                     image.c_str(), kind == "ext4" ? 0 : 10, image.c_str(), image.c_str(),
                     image.c_str(), path.c_str()));
    EXPECT_EQ(made.status, 0) << made.text;
    return path;
  }

  std::string directory_;
  UniqueFd came_from_;
};

}  // namespace mixproof
