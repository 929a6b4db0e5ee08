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

TEST(Answer, OfEmbeddingsAVectorIsTheToken) {
  const AnswerForm form{.api = Api::kEmbeddings, .stream = false, .text = {}, .tokens = {}};
  const auto taken = [&form](const char* body) {
    Answer answer;
    answer.expect(&form);
    return answer.take("", body);
  };
  EXPECT_EQ(taken(R"({"data":[{"embedding":[0.5,-1e-3],"index":0}],"usage":{"prompt_tokens":3}})"),
            Event::kToken);
  EXPECT_EQ(taken(R"({"data":[{"embedding":"AAAA"}]})"), Event::kToken);
  EXPECT_EQ(taken(R"({"data":[]})"), Event::kOther);
  EXPECT_EQ(taken(R"({"data":[{"embedding":[]}]})"), Event::kOther);
  EXPECT_EQ(taken(R"({"error":{"message":"no"}})"), Event::kError);
}

TEST(Answer, OfACustomApiPathsSayWhereTextAndCountAre) {
  AnswerForm form{.api = Api::kCustom, .stream = true, .text = {}, .tokens = {}};
  form.text = *parse_json_pointer("/outputs/1/parts/0");
  form.tokens = *parse_json_pointer("/meta/count");
  Answer answer;
  answer.expect(&form);
  EXPECT_EQ(answer.take("", R"({"outputs":[{"parts":["no"]},{"parts":["yes","no"],"x":"no"}]})"),
            Event::kToken);
  EXPECT_EQ(answer.text(), "yes");
  EXPECT_EQ(answer.take("", R"({"parts":["no"],"outputs":[["no"],{"parts":[""]}]})"),
            Event::kOther);
  EXPECT_EQ(answer.completion_tokens(), -1);
  EXPECT_EQ(answer.take("", R"({"meta":{"x":1,"count":12}})"), Event::kOther);
  EXPECT_EQ(answer.completion_tokens(), 12);
  AnswerForm anything{.api = Api::kCustom, .stream = true, .text = {}, .tokens = {}};
  answer.expect(&anything);
  EXPECT_EQ(answer.take("", "{}"), Event::kToken);
  EXPECT_EQ(answer.take("", "[]"), Event::kMalformed);
}

TEST(Answer, EscapesAndSurrogatesAreRead) {
  Answer answer;
  EXPECT_EQ(answer.take("", delta(R"("content":"a\"\\\n\u00e9\ud83d\ude00\ud800x")")),
            Event::kToken);
  EXPECT_EQ(answer.text(), "a\"\\\n\u00e9\U0001F600\uFFFDx");
}

TEST(Answer, RefusesWhatOnlyLooksLikeJson) {
  for (const char* data :
       {R"({"a":01})", R"({"a":1.})", R"({"a":-})", R"({"a":+1})", R"({"a":tru})", R"({a:1})",
        R"({"a":1,})", R"({"a":[1,]})", R"({"a":"\x"})", R"({"a":"\u12g4"})", "{\"a\":\"\n\"}",
        "{\"a\":\"\xC0\x80\"}", "{\"a\":\"\xED\xA0\x80\"}", "{\"a\":\"\xF4\x90\x80\x80\"}",
        "{\"a\":\"\xE2\x82\"}", R"({"a":1}{)", R"({"a" 1})", R"({"a":"b)"}) {
    Answer answer;
    EXPECT_EQ(answer.take("", data), Event::kMalformed) << data;
  }
  for (const char* data : {R"({"a":0})", R"({"a":-0.5e+10})", " {\t\"a\" : [ ] , \"b\":{ } }\r\n",
                           R"({"a":123456789012345678901234567890})"}) {
    Answer answer;
    EXPECT_EQ(answer.take("", data), Event::kOther) << data;
  }
}

TEST(JsonPointer, IsTakenApartAsItsStandardSays) {
  EXPECT_EQ(*parse_json_pointer(""), JsonPath{});
  EXPECT_EQ(*parse_json_pointer("/a/0/b~1c~0~01"), (JsonPath{"a", "0", "b/c~~1"}));
  for (const char* wrong : {"a", "/a~", "/~2", "/~/b"})
    EXPECT_FALSE(parse_json_pointer(wrong).ok()) << wrong;
}

TEST(WithoutSecret, MasksItWhereverItIsQuoted) {
  EXPECT_EQ(without_secret("bad key sk-123456 (sk-123456)", "sk-123456"), "bad key *** (***)");
  EXPECT_EQ(without_secret("bad key sk-123", "sk-123456"), "bad key ***");  // cut short
  EXPECT_EQ(without_secret("task", "sk-123456"), "task");
  EXPECT_EQ(without_secret("as it is", ""), "as it is");
}

TEST(Printable, KeepsAsciiAndCutsTheRest) {
  EXPECT_EQ(printable("a\xE2\x82\xAC\nb"), "a??? b");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
}

}  // namespace
}  // namespace mixproof::inference
