// Answers as engines, proxies and broken servers send them, and what each must be taken for.
#include "tests/probes/inference/corpus.h"

#include <gtest/gtest.h>

#include <map>

#include "harness/base/random.h"
#include "tests/fuzz/answer_splits.h"

namespace mixproof::inference {
namespace {

struct Expected {
  Outcome outcome;
  std::int64_t events, tokens;
  std::string text, detail = "";
  std::int64_t comments = 0;
  bool estimated = false;
};

constexpr const char* kText = "one two three four";

// Four tokens were asked for.
const std::map<std::string, Expected>& expectations() {
  static const std::map<std::string, Expected> kAll = {
      {"plain", {Outcome::kOk, 4, 4, kText}},
      {"crlf", {Outcome::kOk, 4, 4, kText}},
      {"cr", {Outcome::kOk, 4, 4, kText}},
      {"no_space", {Outcome::kOk, 4, 4, kText}},
      {"comment_events", {Outcome::kOk, 4, 4, kText, "", 7}},
      {"comment_inside", {Outcome::kOk, 4, 4, kText, "", 8}},
      {"event_id_retry", {Outcome::kOk, 4, 4, kText}},
      {"utf8", {Outcome::kOk, 4, 4, "n\u00e9\u65e5\u672c\U0001F600\U0001F600"}},
      {"bom", {Outcome::kOk, 4, 4, kText}},
      {"two_data_lines", {Outcome::kOk, 4, 4, kText}},
      {"no_done", {Outcome::kOk, 4, 4, kText}},
      {"no_finish_reason", {Outcome::kOk, 4, 4, kText}},
      {"neither_done_nor_finish",
       {Outcome::kTruncated, 4, 4, kText, "ended after 4 token events, unfinished"}},
      {"last_event_without_blank_line", {Outcome::kOk, 4, 4, kText}},  // by its finish_reason
      {"error_object_then_done",
       {Outcome::kStreamError, 2, 2, "one two", "the server reports: out of memory", 0, true}},
      {"error_event",
       {Outcome::kStreamError, 2, 2, "one two", "the server reports: engine died", 0, true}},
      {"cut_mid_chunk",
       {Outcome::kTruncated, 2, 2, "one two", "ended after 2 token events, unfinished", 0, true}},
      {"cut_before_the_last_chunk",
       {Outcome::kTruncated, 4, 4, kText,
        "ended after 4 token events, before the end of the body"}},
      {"reasoning_first", {Outcome::kOk, 4, 4, "hmso three four"}},
      {"tool_calls", {Outcome::kOk, 4, 4, "{\"a\":1}"}},
      {"content_null_first", {Outcome::kOk, 4, 4, kText}},
      {"usage_on_every_chunk", {Outcome::kOk, 4, 4, kText}},
      {"no_usage", {Outcome::kOk, 4, 4, kText, "", 0, true}},
      {"short_by_its_own_count", {Outcome::kShort, 2, 2, "one two", "2 of 4 tokens"}},
      {"empty", {Outcome::kEmpty, 0, 0, "", "the answer ended without a token", 0, true}},
      {"completions_text", {Outcome::kOk, 4, 4, "w0w1w2w3"}},
      {"one_of_two_choices_unfinished",
       {Outcome::kTruncated, 4, 4, "abcd", "ended after 4 token events, unfinished", 0, true}},
      {"trailers", {Outcome::kOk, 4, 4, kText}},
      {"content_length", {Outcome::kOk, 4, 4, kText}},
      {"content_length_cut",
       {Outcome::kTruncated, 4, 4, kText,
        "ended after 4 token events, before the end of the body"}},
      {"http10_until_eof", {Outcome::kOk, 4, 4, kText}},
      {"http10_until_eof_cut",
       {Outcome::kTruncated, 3, 3, "one two three", "ended after 3 token events, unfinished", 0,
        true}},
      {"interim_response", {Outcome::kOk, 4, 4, kText}},
      {"gzip",
       {Outcome::kMalformed, 0, 0, "", "compressed (gzip), though identity was asked for", 0,
        true}},
      {"html",
       {Outcome::kMalformed, 0, 0, "",
        "not an event stream but \"text/html\": <!DOCTYPE html><html><body>502 but it says "
        "200</body></html>",
        0, true}},
      {"http503_retry_after",
       {Outcome::kHttpError, 0, 0, "",
        "503 Service Unavailable, retry after 2: {\"error\":{\"message\":\"loading "
        "model\",\"code\":503}}",
        0, true}},
      {"http429_retry_after",
       {Outcome::kHttpError, 0, 0, "", "429 Too Many Requests, retry after 30", 0, true}},
      {"http204", {Outcome::kHttpError, 0, 0, "", "204 No Content", 0, true}},
      {"json_error_with_200",
       {Outcome::kStreamError, 0, 0, "", "the server reports: loading model", 0, true}},
      {"whole_answer_not_asked_for",
       {Outcome::kMalformed, 0, 0, "",
        "not an event stream but \"application/json\": {\"choices\":1}", 0, true}},
      {"data_is_no_json",
       {Outcome::kMalformed, 1, 1, "one", "an event that is no JSON object: hello", 0, true}},
      {"broken_utf8",
       {Outcome::kMalformed, 1, 1, "one",
        "an event that is no JSON object: "
        "{\"id\":\"a\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{"
        "\"content\":\"??\"},\"finish_reason\":null}]}",
        0, true}},
      {"broken_chunk_after_an_error",
       {Outcome::kStreamError, 0, 0, "", "the server reports: busy", 0, true}},
      {"broken_chunk", {Outcome::kMalformed, 2, 2, "one two", "not HTTP: bad chunk", 0, true}},
      {"comments_after_the_break",
       {Outcome::kMalformed, 0, 0, "", "an event that is no JSON object: x", 0, true}},
      {"not_http", {Outcome::kMalformed, 0, 0, "", "not HTTP: no status line", 0, true}},
      {"nothing", {Outcome::kTruncated, 0, 0, "", "closed before the answer began", 0, true}},
      {"after_done", {Outcome::kOk, 4, 4, kText}},
  };
  return kAll;
}

std::string expected_summary(const Expected& expected, const RequestRecord& record) {
  SplitResult out;
  out.record.outcome = expected.outcome;
  out.record.status = record.status;
  out.record.retry_after = record.retry_after;
  out.record.events = expected.events;
  out.record.tokens = expected.tokens;
  out.record.comments = expected.comments;
  out.record.estimated = expected.estimated;
  out.record.detail = expected.detail;
  out.text = expected.text;
  return out.summary();
}

TEST(Corpus, EveryAnswerIsTakenForWhatItIs) {
  for (const auto& [name, expected] : expectations()) {
    const SplitResult result = read_in_pieces(corpus_file(name), {}, readings()[0], 4);
    EXPECT_EQ(result.summary(), expected_summary(expected, result.record)) << name;
  }
}

TEST(Corpus, EveryFileHasItsExpectation) {
  const std::vector<std::string> names = corpus_names();
  EXPECT_EQ(names.size(), expectations().size());
  for (const std::string& name : names) EXPECT_EQ(expectations().count(name), 1u) << name;
}

TEST(Corpus, RetryAfterIsToldWithTheStatus) {
  const RequestRecord busy =
      read_in_pieces(corpus_file("http503_retry_after"), {}, readings()[0], 4).record;
  EXPECT_EQ(busy.status, 503);
  EXPECT_TRUE(busy.retry_after);
  EXPECT_FALSE(read_in_pieces(corpus_file("html"), {}, readings()[0], 4).record.retry_after);
}

TEST(Corpus, EverySplitInTwoAndEveryByteByItselfGivesTheSameRecord) {
  for (const std::string& name : corpus_names()) {
    const std::string bytes = corpus_file(name);
    const std::string whole = read_in_pieces(bytes, {}, readings()[0], 4).summary();
    for (std::size_t cut = 1; cut < bytes.size(); ++cut)
      ASSERT_EQ(read_in_pieces(bytes, {cut}, readings()[0], 4).summary(), whole)
          << name << " cut at " << cut;
    EXPECT_EQ(read_in_pieces(bytes, after_every_byte(bytes.size()), readings()[0], 4).summary(),
              whole)
        << name;
  }
}

TEST(Corpus, SoDoManyRandomCuts) {
  Random random(3, "cuts");
  for (const std::string& name : corpus_names()) {
    const std::string bytes = corpus_file(name);
    const std::string whole = read_in_pieces(bytes, {}, readings()[0], 4).summary();
    for (int round = 0; round < 30; ++round) {
      std::vector<std::size_t> cuts;
      for (std::size_t at = 0; at < bytes.size();) {
        at += 1 + random.below(60);
        cuts.push_back(at);
      }
      ASSERT_EQ(read_in_pieces(bytes, cuts, readings()[0], 4).summary(), whole) << name;
    }
  }
}

}  // namespace
}  // namespace mixproof::inference
