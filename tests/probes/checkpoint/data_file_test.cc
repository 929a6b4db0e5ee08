#include "probes/checkpoint/data_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

namespace mixproof {
namespace {

struct TrainingData : testing::Test {
  std::string path;
  void SetUp() override {
    std::string name = testing::TempDir() + "data-XXXXXX";
    path = std::string(mkdtemp(name.data())) + "/data";
  }
  void TearDown() override {
    std::filesystem::remove_all(std::filesystem::path(path).parent_path());
  }
};

TEST_F(TrainingData, IsWrittenOnceAndReadInPieces) {
  ASSERT_TRUE(DataFile::create(path, 10'003, 3, {}));
  const auto written = std::filesystem::last_write_time(path);
  ASSERT_TRUE(DataFile::create(path, 10'003, 3, {}));
  EXPECT_EQ(std::filesystem::last_write_time(path), written);
  const auto data = DataFile::open(path, 10'003, 3);
  ASSERT_TRUE(data);
  std::vector<std::byte> some(1'003);
  for (const std::int64_t offset : {0, 8, 4'096, 9'000})
    EXPECT_TRUE(data->read(offset, some)) << offset;
  EXPECT_EQ(data->read(9'008, some).error().code, Code::kCorrupt) << "beyond its end";
}

TEST_F(TrainingData, WrongBytesLengthsAndKeysAreCorrupt) {
  ASSERT_TRUE(DataFile::create(path, 8'000, 3, {}));
  std::fstream(path).seekp(4'001).write("x", 1);
  std::vector<std::byte> some(800);
  const auto data = DataFile::open(path, 8'000, 3);
  ASSERT_TRUE(data);
  EXPECT_TRUE(data->read(3'200, some));
  const Status read = data->read(4'000, some);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kCorrupt);
  EXPECT_NE(read.error().message.find("byte 4000 "), std::string::npos) << read.error().message;
  EXPECT_FALSE(DataFile::open(path, 8'000, 4)->read(0, some));
  EXPECT_EQ(DataFile::open(path, 8'008, 3).error().code, Code::kCorrupt);
  EXPECT_EQ(DataFile::open(path + "x", 8'000, 3).error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace mixproof
