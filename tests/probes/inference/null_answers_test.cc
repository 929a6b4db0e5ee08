#include "probes/inference/null_answers.h"

#include <gtest/gtest.h>

namespace mixproof::inference {
namespace {

std::int64_t tokens_of(std::string_view body) {
  const Result<NullRequest> request = parse_null_request(body);
  EXPECT_TRUE(request.ok()) << body;
  return request.ok() ? request->tokens : -1;
}

// A client whose wish is not understood gets an answer of another length than it measures with.
TEST(NullRequest, TakesTheLengthOfTheAnswerUnderBothItsNames) {
  EXPECT_EQ(tokens_of(R"({"max_tokens": 64})"), 64);
  EXPECT_EQ(tokens_of(R"({"max_completion_tokens": 64})"), 64);
  EXPECT_EQ(tokens_of(R"({"max_completion_tokens": 3, "max_tokens": 64})"), 3);
  EXPECT_EQ(tokens_of("{}"), 16);
  EXPECT_FALSE(parse_null_request("{").ok());
}

}  // namespace
}  // namespace mixproof::inference
