#include "probes/inference/answer.h"

#include <gtest/gtest.h>

namespace mixproof::inference {
namespace {

using Event = Answer::Event;

std::string delta(const std::string& members, const std::string& finish = "null") {
  return R"({"id":"x","choices":[{"finish_reason":)" + finish + R"(,"index":0,"delta":{)" +
         members + "}}]}";
}

TEST(Answer, OnlyNonEmptyTextIsAToken) {
  Answer answer;
  EXPECT_EQ(answer.take("", delta(R"("role":"assistant","content":null)")), Event::kOther);
  EXPECT_EQ(answer.take("", delta(R"("role":"assistant","content":"")")), Event::kOther);
  EXPECT_EQ(answer.take("", delta(R"("content":" a")")), Event::kToken);
  EXPECT_EQ(answer.text(), " a");
  EXPECT_EQ(answer.take("", delta("", R"("length")")), Event::kOther);
  EXPECT_EQ(answer.take("", R"({"choices":[],"usage":{"completion_tokens":1}})"), Event::kOther);
}

TEST(Answer, ReasoningToolArgumentsAndCompletionTextAreTokens) {
  Answer answer;
  EXPECT_EQ(answer.take("", delta(R"("reasoning_content":"hm")")), Event::kToken);
  EXPECT_EQ(answer.take("", delta(R"("reasoning":"hm")")), Event::kToken);
  EXPECT_EQ(answer.take(
                "", delta(R"("tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}])")),
            Event::kOther);
  EXPECT_EQ(answer.take("", delta(R"("tool_calls":[{"index":0,"function":{"arguments":"{}"}}])")),
            Event::kToken);
  EXPECT_EQ(answer.take("", R"({"choices":[{"index":0,"text":"word"}]})"), Event::kToken);
  EXPECT_EQ(answer.take(
                "", R"({"content":"not here","choices":[{"index":0,"logprobs":{"content":"x"}}]})"),
            Event::kOther);
}

TEST(Answer, UsageMayComeAloneWithTheLastChoiceOnEveryChunkOrNever) {
  Answer alone;
  EXPECT_EQ(alone.completion_tokens(), -1);
  alone.take("", R"({"choices":[],"usage":{"completion_tokens":4,"prompt_tokens":9,)"
                 R"("prompt_tokens_details":{"cached_tokens":8}}})");
  EXPECT_EQ(alone.completion_tokens(), 4);
  EXPECT_EQ(alone.cached_tokens(), 8);
  Answer every;
  every.take(
      "", R"({"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"completion_tokens":1}})");
  every.take(
      "", R"({"choices":[{"index":0,"delta":{"content":"b"}}],"usage":{"completion_tokens":2}})");
  EXPECT_EQ(every.completion_tokens(), 2);
  Answer null_usage;
  null_usage.take("", R"({"choices":[{"index":0,"delta":{"content":"a"}}],"usage":null})");
  EXPECT_EQ(null_usage.completion_tokens(), -1);
}

TEST(Answer, IsFinishedWhenEveryChoiceThatAppearedIs) {
  Answer answer;
  EXPECT_FALSE(answer.finished());
  answer.take(
      "",
      R"({"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"a"}}]})");
  answer.take("", R"({"choices":[{"finish_reason":"stop","index":1,"delta":{}}]})");
  EXPECT_FALSE(answer.finished());
  answer.take("", R"({"choices":[{"finish_reason":"length","index":0,"delta":{}}]})");
  EXPECT_TRUE(answer.finished());
  EXPECT_TRUE(answer.length_reached());
  EXPECT_FALSE(answer.done());
  EXPECT_EQ(answer.take("", "[DONE]"), Event::kDone);
  EXPECT_TRUE(answer.done());
  EXPECT_EQ(answer.take("", delta(R"("content":"late")")), Event::kOther);
}

TEST(Answer, AnErrorObjectIsAnErrorWhateverItsShape) {
  Answer nested;
  EXPECT_EQ(nested.take("", R"({"error":{"code":500,"message":"out of memory"}})"), Event::kError);
  EXPECT_EQ(nested.message(), "out of memory");
  Answer text;
  EXPECT_EQ(text.take("", R"({"error":"busy"})"), Event::kError);
  EXPECT_EQ(text.message(), "busy");
  Answer typed;
  EXPECT_EQ(typed.take("error", "no JSON at all"), Event::kError);
  EXPECT_EQ(typed.message(), "no JSON at all");
  Answer none;
  EXPECT_EQ(none.take("", R"({"error":null,"choices":[]})"), Event::kOther);
}

TEST(Answer, WhatIsNoJsonObjectIsMalformed) {
  for (const char* data : {"", "{", "hello", "[1]", "3", R"({"choices":[]} trailing)"}) {
    Answer answer;
    EXPECT_EQ(answer.take("", data), Event::kMalformed) << data;
  }
}

TEST(Answer, SurvivesDeepNesting) {
  Answer answer;
  std::string deep = R"({"choices":[{"index":0,"delta":{"content":"a"},"x":)";
  for (int i = 0; i < 100; ++i) deep += R"({"error":[)";
  for (int i = 0; i < 100; ++i) deep += "]}";
  EXPECT_EQ(answer.take("", deep + "}]}"), Event::kToken);
}

TEST(Printable, KeepsAsciiAndCutsTheRest) {
  EXPECT_EQ(printable("a\xE2\x82\xAC\nb"), "a??? b");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
}

}  // namespace
}  // namespace mixproof::inference
