#include "probes/inference/sse.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/base/random.h"

namespace mixproof::inference {
namespace {

struct Collector final : SseHandler {
  std::vector<std::string> events;  // "type|data"
  int comments = 0;
  void event(std::string_view type, std::string_view data) override {
    events.push_back(std::string(type) + "|" + std::string(data));
  }
  void comment() override { ++comments; }
};

Collector parse(const std::vector<std::string>& reads) {
  Collector collector;
  SseParser parser;
  for (const std::string& read : reads) EXPECT_TRUE(parser.feed(read, collector));
  return collector;
}

std::vector<std::string> events_of(const std::string& bytes) { return parse({bytes}).events; }
using Events = std::vector<std::string>;

TEST(Sse, EndsLinesWithLfCrlfOrCr) {
  EXPECT_EQ(events_of("data: a\n\ndata: b\n\n"), (Events{"|a", "|b"}));
  EXPECT_EQ(events_of("data: a\r\n\r\ndata: b\r\n\r\n"), (Events{"|a", "|b"}));
  EXPECT_EQ(events_of("data: a\r\rdata: b\r\r"), (Events{"|a", "|b"}));
}

TEST(Sse, ACrAndItsLfInTwoReadsAreOneLineEnd) {
  EXPECT_EQ(parse({"data: a\r", "\ndata: b\r", "\n\r", "\n"}).events, (Events{"|a\nb"}));
}

TEST(Sse, TakesOneOptionalSpaceOnly) {
  EXPECT_EQ(events_of("data:{}\n\n"), (Events{"|{}"}));
  EXPECT_EQ(events_of("data:  a\n\n"), (Events{"| a"}));
}

TEST(Sse, CommentsAreCountedAndBelongToNoEvent) {
  const Collector collector = parse({": ping\n\ndata: a\n:inside\ndata: b\n\n:\n"});
  EXPECT_EQ(collector.events, (Events{"|a\nb"}));
  EXPECT_EQ(collector.comments, 3);
}

TEST(Sse, JoinsDataLinesAndIgnoresIdAndRetry) {
  EXPECT_EQ(events_of("event: error\nid: 7\nretry: 10\nnonsense\ndata: {\ndata: }\n\n"),
            (Events{"error|{\n}"}));
  EXPECT_EQ(events_of("data\n\n"), (Events{"|"}));
}

TEST(Sse, AnEventWithoutDataOrWithoutItsEmptyLineIsNone) {
  EXPECT_TRUE(events_of("event: error\n\n").empty());
  EXPECT_TRUE(events_of("data: a\n").empty());
  EXPECT_EQ(events_of("event: error\n\ndata: a\n\n"),
            (Events{"|a"}));  // the type does not leak into the next
}

TEST(Sse, SkipsOneByteOrderMarkAtTheStartOnly) {
  EXPECT_EQ(events_of("\xEF\xBB\xBF"
                      "data: a\n\n"),
            (Events{"|a"}));
  EXPECT_TRUE(events_of("\n\xEF\xBB\xBF"
                        "data: a\n\n")
                  .empty());
}

TEST(Sse, AnySplitOfTheBytesGivesTheSameEvents) {
  const std::string bytes =
      "\xEF\xBB\xBF: hello\r\n\r\ndata: {\"t\":\"a b "
      "\"}\r\n\r\ndata:{\"t\":\"\xE2\x82\xAC\"}\n\nevent: error\rid: 1\r"
      "data: x\rdata:\rdata: y\r\r:\ndata: [DONE]\n\n";
  const Collector whole = parse({bytes});
  ASSERT_EQ(whole.events.size(), 4u);
  std::vector<std::string> single;
  for (const char c : bytes) single.emplace_back(1, c);
  EXPECT_EQ(parse(single).events, whole.events);
  EXPECT_EQ(parse(single).comments, whole.comments);
  Random random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> reads;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t length = 1 + random.below(9);
      reads.push_back(bytes.substr(at, length));
      at += length;
    }
    const Collector split = parse(reads);
    ASSERT_EQ(split.events, whole.events) << "round " << round;
    ASSERT_EQ(split.comments, whole.comments) << "round " << round;
  }
}

TEST(Sse, RefusesALineWithoutEnd) {
  Collector collector;
  SseParser parser;
  const std::string piece(1 << 20, 'x');
  bool fits = true;
  for (int i = 0; i < 6 && fits; ++i) fits = parser.feed(piece, collector);
  EXPECT_FALSE(fits);
}

}  // namespace
}  // namespace mixproof::inference
