// The real operator of a filled disk, and the probe that looks at one, on file systems that the
// test makes.
#include "harness/agent/fill_disk.h"

#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/base/json.h"
#include "probes/probe.h"
#include "tests/fake/row_list.h"
#include "tests/system/own_mounts.h"
#include "tests/system/victim.h"

namespace mixproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kLease = seconds(15);

HostOperation fill_of(const std::string& path) {
  struct stat facts {};
  EXPECT_EQ(::stat(path.c_str(), &facts), 0) << path;
  return FillDisk{path, facts.st_dev};
}

void write_file(const std::string& path, std::size_t bytes) {
  std::ofstream file(path);
  file << std::string(bytes, 'x');
  ASSERT_TRUE(file.flush()) << path;
}

class FillDiskSystem : public OwnMounts {
 protected:
  std::unique_ptr<HostView> host_ = make_real_host_view();
  std::unique_ptr<HostOperator> fill_ = make_fill_disk(*host_);
};

class FillDiskOn : public FillDiskSystem, public testing::WithParamInterface<const char*> {};

TEST_P(FillDiskOn, TakesEveryBlockAndGivesAllOfThemBack) {
  const std::string path = make(GetParam());
  const HostOperation operation = fill_of(path);
  const std::int64_t before = free_bytes(path);
  EXPECT_EQ(write_error(path), 0);
  const auto preimage = fill_->preimage(operation);
  ASSERT_TRUE(preimage.ok()) << preimage.error().message;
  EXPECT_EQ(free_bytes(path), before) << "nothing is taken yet";
  const Status applied = fill_->apply(operation, kLease);
  ASSERT_TRUE(applied.ok()) << applied.error().message;
  EXPECT_EQ(write_error(path), ENOSPC);
  EXPECT_EQ(write_error(path, 1), ENOSPC) << "not a byte";
  const auto counted = fill_->counted(operation);
  ASSERT_TRUE(counted.ok());
  const std::int64_t bytes = integer_at(*counted, "bytes");
  EXPECT_GE(bytes, before - free_bytes(path) - 65536);
  EXPECT_LE(bytes, before);
  EXPECT_GT(bytes, before * 8 / 10) << "some file systems keep a little for themselves";

  ASSERT_TRUE(fill_->undo(operation, *preimage).ok());
  EXPECT_EQ(free_bytes(path), before);
  EXPECT_EQ(write_error(path, 1 << 20), 0);
  const Status gone = fill_->verify_undone(operation);
  EXPECT_TRUE(gone.ok()) << gone.error().message;
  EXPECT_TRUE(fill_->undo(operation, *preimage).ok()) << "twice is once";
  EXPECT_TRUE(fill_->verify_undone(operation).ok());
}

TEST_P(FillDiskOn, TakesWhatOthersFreeMeanwhile) {
  const std::string path = make(GetParam());
  ASSERT_NO_FATAL_FAILURE(write_file(path + "/theirs", 1 << 20));
  const HostOperation operation = fill_of(path);
  ASSERT_TRUE(fill_->needs_tending());
  const auto preimage = fill_->preimage(operation);
  ASSERT_TRUE(preimage.ok());
  ASSERT_TRUE(fill_->apply(operation, kLease).ok());
  const std::int64_t bytes = integer_at(*fill_->counted(operation), "bytes");
  std::filesystem::remove(path + "/theirs");
  EXPECT_EQ(write_error(path), 0) << "there is room again";
  EXPECT_TRUE(eventually(
      [&] {
        fill_->tend(operation);
        return write_error(path) == ENOSPC;
      },
      seconds(10)));
  EXPECT_GE(integer_at(*fill_->counted(operation), "bytes"), bytes + (900 << 10));
  ASSERT_TRUE(fill_->undo(operation, *preimage).ok());
  EXPECT_TRUE(fill_->verify_undone(operation).ok());
  EXPECT_EQ(write_error(path, 2 << 20), 0);
}

// As `recover` does after a guard was killed: another process, with nothing but the journal.
TEST_P(FillDiskOn, AKilledHolderIsProvedGoneByAnother) {
  const std::string path = make(GetParam());
  const HostOperation operation = fill_of(path);
  const std::int64_t before = free_bytes(path);
  int pipe_ends[2];
  ASSERT_EQ(::pipe2(pipe_ends, O_CLOEXEC), 0);
  Forked holder([&] {
    const auto text = fill_->preimage(operation);
    if (!text.ok() || !fill_->apply(operation, kLease).ok()) ::_exit(1);
    if (::write(pipe_ends[1], text->data(), text->size()) < 0) ::_exit(1);
    while (true) ::pause();
  });
  char text[4096];
  const ssize_t size = ::read(pipe_ends[0], text, sizeof text);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
  ASSERT_GT(size, 0);
  const std::string preimage(text, static_cast<std::size_t>(size));
  EXPECT_EQ(write_error(path), ENOSPC);
  ASSERT_TRUE(fill_->undo(operation, preimage).ok()) << "of a file in another hand: nothing to do";
  const Status held = fill_->verify_undone(operation);
  ASSERT_FALSE(held.ok()) << "its holder lives";
  EXPECT_EQ(held.error().code, Code::kConflict);

  holder.signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return free_bytes(path) == before; }, seconds(1)));
  EXPECT_EQ(write_error(path, 1 << 20), 0);
  ASSERT_TRUE(fill_->undo(operation, preimage).ok());
  const Status gone = fill_->verify_undone(operation);
  EXPECT_TRUE(gone.ok()) << gone.error().message;
}

TEST_P(FillDiskOn, AFullOneLeavesNothingToTake) {
  const std::string path = make(GetParam());
  const auto first = make_fill_disk(*host_);
  const HostOperation operation = fill_of(path);
  const auto by_first = first->preimage(operation);
  ASSERT_TRUE(by_first.ok());
  ASSERT_TRUE(first->apply(operation, kLease).ok());
  const auto preimage = fill_->preimage(operation);
  ASSERT_TRUE(preimage.ok());
  EXPECT_TRUE(fill_->apply(operation, kLease).ok());
  EXPECT_EQ(integer_at(*fill_->counted(operation), "bytes", -1), 0);
  ASSERT_TRUE(fill_->undo(operation, *preimage).ok());
  EXPECT_TRUE(fill_->verify_undone(operation).ok()) << "the other's file is not ours";
  EXPECT_EQ(write_error(path), ENOSPC) << "and is left alone";
  ASSERT_TRUE(first->undo(operation, *by_first).ok());
  EXPECT_EQ(write_error(path), 0);
}

TEST_P(FillDiskOn, TheProbeSeesIt) {
  const std::string path = make(GetParam());
  const auto look = [&path] {
    std::unique_ptr<Probe> probe;
    for (const ProbeSpec* one : all_probes())
      if (one->name == "free_space") probe = one->create();
    EXPECT_TRUE(
        read_params({{"path", path}, {"window_s", 0.1}, {"write_bytes", 4096}}, probe->params())
            .ok());
    fake::RowList rows;
    ProbeContext context{.rows = rows};
    EXPECT_TRUE(probe->prepare(context).ok());
    const Status ran = probe->run(context);
    EXPECT_TRUE(ran.ok()) << ran.error().message;
    return rows.rows().empty() ? Json::object() : rows.rows().front();
  };
  EXPECT_EQ(number_at(look(), "refused_share", -1), 0);
  const HostOperation operation = fill_of(path);
  const auto preimage = fill_->preimage(operation);
  ASSERT_TRUE(preimage.ok());
  ASSERT_TRUE(fill_->apply(operation, kLease).ok());
  const Json full = look();
  EXPECT_EQ(number_at(full, "refused_share", -1), 1);
  EXPECT_EQ(integer_at(full, "free_space", -1), 0);
  EXPECT_GE(integer_at(full, "writes"), 1);
  ASSERT_TRUE(fill_->undo(operation, *preimage).ok());
  EXPECT_EQ(number_at(look(), "refused_share", -1), 0);
}

std::string kind_name(const testing::TestParamInfo<const char*>& one) {
  std::string name = one.param;
  std::erase(name, '-');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Every, FillDiskOn, testing::Values("tmpfs", "ext4", "ext4-reserve"),
                         kind_name);

TEST_F(FillDiskSystem, AnotherFileSystemThanThePlannedOneIsLeftAlone) {
  const std::string path = make("tmpfs");
  FillDisk operation = std::get<FillDisk>(fill_of(path));
  ++operation.device;
  const auto preimage = fill_->preimage(operation);
  ASSERT_FALSE(preimage.ok());
  EXPECT_EQ(preimage.error().code, Code::kConflict);
  EXPECT_FALSE(fill_->apply(operation, kLease).ok());
  EXPECT_EQ(write_error(path), 0);
}

// Mounted over between the plan and its turn.
TEST_F(FillDiskSystem, WhatIsMountedOverThePlannedOneIsLeftAlone) {
  const std::string path = make("tmpfs");
  const HostOperation operation = fill_of(path);
  ASSERT_TRUE(fill_->preimage(operation).ok());
  ASSERT_EQ(::mount("mixproof-test", path.c_str(), "tmpfs", 0, "size=4m"), 0);
  const Status applied = fill_->apply(operation, kLease);
  ASSERT_FALSE(applied.ok());
  EXPECT_EQ(applied.error().code, Code::kConflict);
  EXPECT_EQ(write_error(path), 0);
  fill_.reset();  // or its file keeps what is below busy
}

TEST_F(FillDiskSystem, RefusesWhatCannotMakeNamelessFiles) {
  const auto preimage = fill_->preimage(fill_of("/proc"));
  ASSERT_FALSE(preimage.ok());
  EXPECT_EQ(preimage.error().code, Code::kUnavailable);
  EXPECT_NE(preimage.error().message.find("file without a name"), std::string::npos)
      << preimage.error().message;
  EXPECT_EQ(fill_->preimage(FillDisk{"/no/such/place", 1}).error().code, Code::kConflict)
      << "what is above it is another file system";
}

TEST_F(FillDiskSystem, RefusesToTakeTheNodesMemory) {
  const std::string path = directory_ + "/large";
  std::filesystem::create_directories(path);
  for (const char* size : {"size=99%", "size=0"}) {  // 0: no limit
    ASSERT_EQ(::mount("mixproof-test", path.c_str(), "tmpfs", 0, size), 0);
    const auto preimage = fill_->preimage(fill_of(path));
    ASSERT_FALSE(preimage.ok()) << size;
    EXPECT_EQ(preimage.error().code, Code::kUnavailable);
    EXPECT_NE(preimage.error().message.find("is memory"), std::string::npos);
    ASSERT_EQ(::umount(path.c_str()), 0);
  }
}

TEST_F(FillDiskSystem, WithoutItsJournalNothingIsProved) {
  const HostOperation operation = fill_of(make("tmpfs"));
  EXPECT_FALSE(fill_->verify_undone(operation).ok()) << "which file?";
  const std::string boot = text_of("/proc/sys/kernel/random/boot_id").substr(0, 36);
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("a file"), line_of({{"boot_id", boot}})}) {
    EXPECT_FALSE(fill_->undo(operation, text).ok()) << text;
    EXPECT_FALSE(fill_->verify_undone(operation).ok()) << text;
  }
}

TEST_F(FillDiskSystem, AfterARebootThereIsNothingToLookFor) {
  const std::string path = make("tmpfs");
  FillDisk operation = std::get<FillDisk>(fill_of(path));
  ++operation.device;  // numbers change from boot to boot
  const Json preimage = {{"boot_id", "another"}};
  EXPECT_TRUE(fill_->undo(operation, line_of(preimage)).ok());
  EXPECT_TRUE(fill_->verify_undone(operation).ok());
}

}  // namespace
}  // namespace mixproof
