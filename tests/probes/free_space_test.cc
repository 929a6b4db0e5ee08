// What it says of a full file system is tested where one can be mounted: tests/system.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "probes/probe.h"
#include "tests/fake/row_list.h"

namespace mixproof {
namespace {

Result<std::vector<Json>> look(const Json& params) {
  std::unique_ptr<Probe> probe;
  for (const ProbeSpec* one : all_probes())
    if (one->name == "free_space") probe = one->create();
  TRY(read_params(params, probe->params()));
  fake::RowList rows;
  ProbeContext context{.rows = rows};
  TRY(probe->prepare(context));
  TRY(probe->run(context));
  TRY(probe->check(context));
  return rows.rows();
}

std::string own_directory() {
  const std::string path = testing::TempDir() + "/free-space-" + std::to_string(::getpid());
  std::filesystem::create_directories(path);
  return path;
}

TEST(FreeSpace, SeesThatWritesAreTakenAndLeavesNothing) {
  const std::string path = own_directory();
  const auto rows =
      look({{"path", path}, {"window_s", 0.05}, {"moment", "before"}, {"control", "negative"}});
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  ASSERT_EQ(rows->size(), 1u);
  const Json& row = rows->front();
  EXPECT_EQ(text_at(row, "row"), "space");
  EXPECT_EQ(text_at(row, "path"), path);
  EXPECT_EQ(row["refused_share"], 0.0);
  EXPECT_GT(row["writes"], 0);
  EXPECT_GT(row["free_space"], 0);
  EXPECT_GE(row["free_space_most"], row["free_space"]);
  EXPECT_EQ(text_at(row, "moment"), "before");
  EXPECT_TRUE(std::filesystem::is_empty(path));
  std::filesystem::remove(path);
}

TEST(FreeSpace, APlaceThatIsNotThereIsAnError) {
  EXPECT_FALSE(look({{"path", "/no/such/directory"}, {"window_s", 0.05}}).ok());
  EXPECT_FALSE(look({{"path", "/proc"}, {"window_s", 0.05}}).ok()) << "takes no files";
  EXPECT_FALSE(look(Json::object()).ok()) << "the path has no default";
}

TEST(FreeSpace, AWriteThatFailsForAnotherReasonIsAnErrorAndNoFullDisk) {
  const std::string path = own_directory();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{512, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto rows = look({{"path", path}, {"window_s", 0.05}, {"write_bytes", 4096}});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(rows.ok());
  EXPECT_EQ(rows.error().code, Code::kSystem);
  EXPECT_NE(rows.error().message.find("File too large"), std::string::npos) << rows.error().message;
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace mixproof
