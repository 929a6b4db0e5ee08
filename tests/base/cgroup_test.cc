#include "harness/base/cgroup.h"

#include <gtest/gtest.h>

namespace mixproof {
namespace {

TEST(CgroupName, AcceptsOnlyNamesBelowOurs) {
  EXPECT_TRUE(check_cgroup_name("mixproof/lab-x").ok());
  EXPECT_TRUE(check_cgroup_name("mixproof/lab-x/serve-0/llm.0").ok());
  for (const char* bad :
       {"", "mixproof", "mixproof/", "/mixproof/x", "mixproof//x", "mixproof/../x", "mixproof/x/..",
        "mixproof/.", "mixproof-x/y", "other/mixproof/x", "mixproof/a b", "mixproof/a\nb"}) {
    const Status status = check_cgroup_name(bad);
    ASSERT_FALSE(status.ok()) << bad;
    EXPECT_EQ(status.error().code, Code::kInvalid) << bad;
  }
}

TEST(CgroupName, IsCheckedByEveryFunction) {
  for (const char* bad : {"mixproof", "user.slice", "mixproof/../user.slice", "/mixproof/x"}) {
    EXPECT_EQ(cgroup_create(bad, "").error().code, Code::kInvalid);
    EXPECT_EQ(cgroup_join(bad).error().code, Code::kInvalid);
    EXPECT_EQ(cgroup_kill(bad, std::chrono::milliseconds(1)).error().code, Code::kInvalid);
    EXPECT_EQ(cgroup_remove(bad).error().code, Code::kInvalid);
    EXPECT_TRUE(cgroup_members(bad).empty());
  }
}

TEST(CgroupMounts, FindsBothVersionsOfAHybridMachine) {
  const CgroupMounts mounts = find_cgroup_mounts(
      "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
      "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
      "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
      "37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer\n"
      "40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n"
      "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n");
  EXPECT_EQ(mounts.cpuset, "/sys/fs/cgroup/cpuset");
  EXPECT_EQ(mounts.freezer, "/sys/fs/cgroup/freezer");
  EXPECT_EQ(mounts.unified, "/sys/fs/cgroup/unified");
}

TEST(CgroupMounts, FindsTheUnifiedHierarchyAlone) {
  const CgroupMounts mounts = find_cgroup_mounts(
      "25 30 0:23 / /sys rw,nosuid - sysfs sysfs rw\n"
      "35 25 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n");
  EXPECT_EQ(mounts.unified, "/sys/fs/cgroup");
  EXPECT_TRUE(mounts.cpuset.empty());
  EXPECT_TRUE(mounts.freezer.empty());
}

TEST(CgroupMounts, ReadsJointHierarchiesTagsAndEscapes) {
  const CgroupMounts mounts = find_cgroup_mounts(
      "50 31 0:40 /docker/7 /mnt/part rw master:3 - cgroup cgroup rw,cpuset\n"
      "51 31 0:40 / /mnt/my\\040groups rw,relatime shared:5 master:2 - cgroup none rw,cpu,cpuset,freezer\n"
      "52 31 0:40 / /mnt/later rw - cgroup none rw,cpuset\n");
  EXPECT_EQ(mounts.cpuset, "/mnt/my groups") << "the whole hierarchy goes before a part of it";
  EXPECT_EQ(mounts.freezer, "/mnt/my groups");
}

TEST(CgroupMounts, FindsNothingInOtherText) {
  const CgroupMounts mounts = find_cgroup_mounts(
      "34 31 0:31 / /cpuset rw - tmpfs cpuset rw,cpuset\ncut short\n7 8 - cgroup\n - cgroup cgroup rw,cpuset\n");
  EXPECT_TRUE(mounts.cpuset.empty() && mounts.freezer.empty() && mounts.unified.empty());
  EXPECT_TRUE(find_cgroup_mounts("").cpuset.empty());
}

}  // namespace
}  // namespace mixproof
