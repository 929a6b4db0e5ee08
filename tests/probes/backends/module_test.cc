#include "probes/backends/module.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/fake/ucx_module.h"

namespace mixproof {
namespace {

TEST(Module, OpensTheOneOfThisBuild) {
  SKIP_WITHOUT_UCX();
  auto backend = open_backend("ucx", fake::build_folder());
  ASSERT_TRUE(backend) << backend.error().message;
  EXPECT_STREQ((*backend)->name, "ucx");
  EXPECT_STREQ((*backend)->build_digest, build_digest());
  EXPECT_NE(std::string((*backend)->library_version), "");
}

TEST(Module, IsUnavailableWithTheReasonWhenItIsMissing) {
  auto backend = open_backend("nosuch", fake::build_folder());
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().code, Code::kUnavailable);
  EXPECT_NE(backend.error().message.find("mixproof_nosuch.so: No such file"), std::string::npos)
      << backend.error().message;
}

TEST(Module, IsUnavailableWhenTheFileIsNoLibrary) {
  const std::string folder = testing::TempDir() + "/mixproof_module_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/mixproof_text.so") << "not a library";
  auto backend = open_backend("text", folder);
  std::filesystem::remove_all(folder);
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().code, Code::kUnavailable);
}

TEST(Module, IsRefusedWhenAnotherBuildMadeIt) {
  const BackendTable other = {"0000000000000000", "ucx", "1", nullptr};
  Status status = check_backend(&other, "1111111111111111", "/x/mixproof_ucx.so");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kUnavailable);
  EXPECT_NE(status.error().message.find("0000000000000000"), std::string::npos);
  EXPECT_FALSE(check_backend(nullptr, "1111111111111111", "/x"));
  const BackendTable silent = {nullptr, "ucx", "1", nullptr};
  EXPECT_FALSE(check_backend(&silent, "1111111111111111", "/x"));
  const BackendTable own = {"1111111111111111", "ucx", "1", nullptr};
  EXPECT_TRUE(check_backend(&own, "1111111111111111", "/x"));
}

TEST(Module, FolderIsThatOfTheExecutableUnlessTheEnvironmentNamesAnother) {
  unsetenv("MIXPROOF_MODULE_DIR");
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  EXPECT_EQ(module_directory().value(), own.string());
  setenv("MIXPROOF_MODULE_DIR", "/elsewhere", 1);
  EXPECT_EQ(module_directory().value(), "/elsewhere");
  unsetenv("MIXPROOF_MODULE_DIR");
}

}  // namespace
}  // namespace mixproof
