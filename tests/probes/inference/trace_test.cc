#include "probes/inference/trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "harness/base/text.h"
#include "probes/inference/clock.h"
#include "tests/fake/paths.h"

namespace mixproof::inference {
namespace {

std::string path_of(const std::string& name) {
  return std::string(kSourceDir) + "/tests/probes/inference/traces/" + name;
}

std::string bytes_of(const std::string& name) {
  std::ifstream file(path_of(name), std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

TraceFile parsed(const std::string& name) {
  Result<TraceFile> file = parse_trace(bytes_of(name), "auto", name);
  EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message);
  return file.ok() ? *file : TraceFile{};
}

TEST(Trace, ReadsTheAzureFormatsWithTheirFractions) {
  const TraceFile old = parsed("azure_2023.csv");
  EXPECT_EQ(old.format, "azure");
  ASSERT_EQ(old.requests.size(), 5u);
  EXPECT_EQ(old.requests[0].at_ns, 0);
  EXPECT_EQ(old.requests[1].at_ns, 51'996'900);
  EXPECT_EQ(old.requests[4].at_ns, 5'500'000'000);
  EXPECT_EQ(old.requests[3].lengths.prompt_words, 7433u);
  EXPECT_EQ(old.requests[3].lengths.answer_tokens, 14u);
  EXPECT_EQ(old.requests[4].lengths.answer_tokens, 1u);  // nobody asks for none
  const TraceFile later = parsed("azure_2024.csv");      // with CRLF
  ASSERT_EQ(later.requests.size(), 3u);
  EXPECT_EQ(later.requests[1].at_ns, 7'405'000);
  EXPECT_EQ(later.requests[2].at_ns, 1'304'760'000);
  EXPECT_EQ(later.requests[2].lengths.answer_tokens, 15u);
}

TEST(Trace, ReadsTheOtherFormats) {
  const TraceFile mooncake = parsed("mooncake.jsonl");
  EXPECT_EQ(mooncake.format, "mooncake");
  ASSERT_EQ(mooncake.requests.size(), 3u);
  EXPECT_EQ(mooncake.requests[2].at_ns, 3'052'000'000);
  EXPECT_EQ(mooncake.requests[2].lengths.prompt_words, 101u);
  const TraceFile burst = parsed("burstgpt.csv");
  EXPECT_EQ(burst.format, "burstgpt");
  ASSERT_EQ(burst.requests.size(), 4u);
  EXPECT_EQ(burst.requests[2].at_ns, 113 * kSecond);
  EXPECT_EQ(burst.requests[1].lengths.prompt_words, 1087u);
  EXPECT_EQ(burst.requests[1].lengths.answer_tokens, 230u);
  const TraceFile own = parsed("own.jsonl");
  EXPECT_EQ(own.format, "jsonl");
  EXPECT_EQ(own.requests[1].at_ns, 250 * kMillisecond);
}

TEST(Trace, ColumnsAreFoundByTheirNames) {
  const auto file = parse_trace("Log Type,Response tokens,Timestamp,Request tokens\nx,4,1.5,9\n",
                                "burstgpt", "f");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->requests[0].lengths.prompt_words, 9u);
  EXPECT_EQ(file->requests[0].lengths.answer_tokens, 4u);
}

TEST(Trace, AZoneMovesTheTime) {
  const auto file = parse_trace(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-02-29 00:30:00+01:00,1,1\n"
      "2024-02-28T23:30:01Z,1,1\n2024-02-28 23:30:02.5,1,1\n",
      "auto", "f");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->requests[1].at_ns, kSecond);
  EXPECT_EQ(file->requests[2].at_ns, 2'500 * kMillisecond);
}

TEST(Trace, ErrorsNameTheFileAndTheLine) {
  const std::string azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  const std::string other = "TIMESTAMP,Context,GeneratedTokens\n";
  const std::string good = "2023-11-16 18:17:03.97,48,10\n";
  const std::string json = "{\"at_s\": 1, \"prompt_tokens\": 1, \"answer_tokens\": 1}\n";
  const std::pair<std::string, std::string> wrong[] = {
      {"", "f: holds no request"},
      {azure, "f: holds no request"},
      {azure + good + "\n" + good, "f:3: an empty line"},
      {azure + good + "2023-11-16 18:17:03.96,48,10\n", "f:3: earlier"},
      {azure + "2023-11-16 18:17:03.97,-48,10\n", "f:2: a number of tokens that is negative"},
      {azure + "2023-11-16 18:17:03.97,4.5,10\n", "f:2: a number of tokens"},
      {azure + "2023-11-16 18:17:03.97,,10\n", "f:2: \"\" is not a number of tokens"},
      {azure + "2023-13-16 18:17:03.97,1,10\n", "f:2: \"2023-13-16"},
      {azure + "18:17:03.97,1,10\n", "f:2: \"18:17:03.97\" is not a time"},
      {azure + good + "2023-11-16 18:17:04,48\n", "f:3: 2 columns, the header has 3"},
      {azure + good + "2023-11-16 18:17:04,48,1", "f:3: the line does not end"},  // of 12
      {other + good, "f:1: no column \"ContextTokens\""},
      {json + "{\"at_s\": 2, \"prompt_tok", "f:2: the line does not end"},
      {json + "{\"at_s\": 2, \"prompt_tok\n", "f:2: "},
      {json + "{\"at_s\": 2, \"prompt_tokens\": 1}\n", "f:2: \"answer_tokens\" is missing"},
      {json + "{\"at_s\": 0.5, \"prompt_tokens\": 1, \"answer_tokens\": 1}\n", "f:2: earlier"},
      {"{\"at_s\": -1, \"prompt_tokens\": 1, \"answer_tokens\": 1}\n", "f:1: a time"},
      {"what,is,this\n", "f:1: neither"}};
  for (const auto& [bytes, message] : wrong) {
    const auto file = parse_trace(bytes, "auto", "f");
    ASSERT_FALSE(file.ok()) << bytes;
    EXPECT_EQ(file.error().code, Code::kInvalid);
    EXPECT_EQ(file.error().message.rfind(message, 0), 0u) << file.error().message;
  }
  EXPECT_FALSE(parse_trace(json, "mooncake", "f").ok());  // as named, not as it looks
}

// 1000 requests 0.1 s apart, with their number as length.
TraceFile ramp_file() {
  TraceFile out{.format = "jsonl", .requests = {}};
  for (std::uint32_t i = 0; i < 1000; ++i)
    out.requests.push_back({i * 100 * kMillisecond, {i, i + 1}});
  return out;
}

TEST(Trace, ClipsAndScalesTime) {
  const Trace trace = *scale_trace(ramp_file(), {.time_scale = 2, .from_s = 10, .until_s = 20}, 1);
  ASSERT_EQ(trace.requests.size(), 100u);
  EXPECT_EQ(trace.requests[0].at_ns, 0);
  EXPECT_EQ(trace.requests[0].lengths.prompt_words, 100u);
  EXPECT_EQ(trace.requests[99].at_ns, 4'950 * kMillisecond);
  EXPECT_EQ(trace.period_ns, 5 * kSecond);
  EXPECT_EQ(trace.in_file, 1000);
  const Trace whole = *scale_trace(ramp_file(), {}, 1);
  EXPECT_EQ(whole.period_ns, 100 * kSecond);  // the last request and a mean gap
  EXPECT_FALSE(scale_trace(ramp_file(), {.from_s = 200}, 1).ok());
  EXPECT_FALSE(scale_trace(ramp_file(), {.from_s = 20, .until_s = 10}, 1).ok());
  EXPECT_FALSE(scale_trace(ramp_file(), {.from_s = 10.01, .until_s = 10.09}, 1).ok());
}

TEST(Trace, RateScaleThinsOrAddsShiftedCopies) {
  const Trace half = *scale_trace(ramp_file(), {.rate_scale = 0.5}, 1);
  EXPECT_NEAR(static_cast<double>(half.requests.size()), 500, 5 * std::sqrt(250));
  std::set<std::int64_t> original;
  for (const TraceRequest& request : ramp_file().requests) original.insert(request.at_ns);
  for (const TraceRequest& request : half.requests) EXPECT_EQ(original.count(request.at_ns), 1u);
  const Trace same = *scale_trace(ramp_file(), {.rate_scale = 0.5}, 1),
              other = *scale_trace(ramp_file(), {.rate_scale = 0.5}, 2);
  EXPECT_EQ(same.requests.size(), half.requests.size());
  EXPECT_EQ(same.requests[40].at_ns, half.requests[40].at_ns);
  EXPECT_TRUE(other.requests.size() != half.requests.size() ||
              other.requests[40].at_ns != half.requests[40].at_ns);

  const Trace more = *scale_trace(ramp_file(), {.rate_scale = 2.5}, 1);
  EXPECT_NEAR(static_cast<double>(more.requests.size()), 2500, 5 * std::sqrt(250));
  std::multiset<std::uint32_t> lengths;
  for (std::size_t i = 0; i < more.requests.size(); ++i) {
    lengths.insert(more.requests[i].lengths.prompt_words);
    EXPECT_LT(more.requests[i].at_ns, more.period_ns);
    if (i > 0) {
      EXPECT_GE(more.requests[i].at_ns, more.requests[i - 1].at_ns);
    }
  }
  for (std::uint32_t i = 0; i < 1000; ++i) EXPECT_GE(lengths.count(i), 2u);
  std::set<std::int64_t> times;
  for (const TraceRequest& request : more.requests) times.insert(request.at_ns);
  EXPECT_GT(times.size(), 1900u) << "copies fall on their originals";
}

TEST(Trace, LongRequestsAreShortenedAndCounted) {
  const Trace trace =
      *scale_trace(ramp_file(), {.max_prompt_tokens = 899, .max_answer_tokens = 950}, 1);
  EXPECT_EQ(trace.shortened, 100);
  EXPECT_EQ(trace.requests[999].lengths.prompt_words, 899u);
  EXPECT_EQ(trace.requests[999].lengths.answer_tokens, 950u);
  EXPECT_EQ(trace.requests[899].lengths.prompt_words, 899u);
}

TEST(Trace, MoreThanTheDeclaredPeakIsRefused) {
  EXPECT_TRUE(scale_trace(ramp_file(), {.peak_per_s = 10}, 1).ok());
  EXPECT_FALSE(scale_trace(ramp_file(), {.peak_per_s = 9}, 1).ok());
  EXPECT_FALSE(scale_trace(ramp_file(), {.time_scale = 2, .peak_per_s = 10}, 1).ok());
}

TEST(Trace, IsLoadedFromItsNodeWithItsDigest) {
  const Trace trace = *load_trace({.path = path_of("own.jsonl")}, 1);
  EXPECT_EQ(trace.requests.size(), 4u);
  EXPECT_EQ(trace.sha256, sha256_hex(bytes_of("own.jsonl")));
  const auto absent = load_trace({.path = path_of("nowhere.csv")}, 1);
  ASSERT_FALSE(absent.ok());
  EXPECT_NE(absent.error().message.find("nowhere.csv"), std::string::npos);
}

}  // namespace
}  // namespace mixproof::inference
