#include "probes/inference/token.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace mixproof::inference {
namespace {

class Token : public testing::Test {
 protected:
  ~Token() override {
    std::filesystem::remove(file_);
    ::unsetenv("MIXPROOF_TEST_TOKEN");
  }
  void write(const std::string& text) const { std::ofstream(file_) << text; }

  const std::string file_ = testing::TempDir() + "mixproof_token_" + std::to_string(::getpid());
};

TEST_F(Token, IsTheFirstLineOfAFileOrAVariable) {
  write("abc-123\r\nsecond line\n");
  EXPECT_EQ(*read_token(file_, ""), "abc-123");
  ::setenv("MIXPROOF_TEST_TOKEN", "from-env ", 1);
  EXPECT_EQ(*read_token("", "MIXPROOF_TEST_TOKEN"), "from-env");
  EXPECT_EQ(*read_token("", ""), "");
}

TEST_F(Token, WhatIsNoneIsRefusedWithoutRepeatingIt) {
  for (const char* text : {"", "\n", "two oddments", "new\vline",
                           "gr\xC3\xBC"
                           "n"}) {
    write(text);
    const Result<std::string> token = read_token(file_, "");
    ASSERT_FALSE(token.ok()) << text;
    EXPECT_EQ(token.error().code, Code::kInvalid);
    for (const char* part : {"oddments", "gr\xC3"})
      if (std::string(text).find(part) != std::string::npos) {
        EXPECT_EQ(token.error().message.find(part), std::string::npos) << token.error().message;
      }
  }
}

TEST_F(Token, WhatIsNotThereIsNamed) {
  EXPECT_NE(read_token("/does/not/exist", "").error().message.find("/does/not/exist"),
            std::string::npos);
  EXPECT_NE(read_token("", "MIXPROOF_TEST_TOKEN").error().message.find("MIXPROOF_TEST_TOKEN"),
            std::string::npos);
  EXPECT_FALSE(read_token("a", "b").ok());
}

}  // namespace
}  // namespace mixproof::inference
