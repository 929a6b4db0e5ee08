#include "probes/inference/exchange.h"

#include <gtest/gtest.h>

#include "probes/inference/null_answers.h"

namespace mixproof::inference {
namespace {

NullAnswer answer_of(const std::string& model, std::int64_t tokens) {
  const std::string body =
      R"({"model":")" + model + R"(","max_tokens":)" + std::to_string(tokens) + "}";
  NullAnswer answer;
  answer.start(*parse_null_request(body));
  return answer;
}

std::string whole(const std::string& model, std::int64_t tokens) {
  NullAnswer answer = answer_of(model, tokens);
  std::string bytes = answer.begin();
  for (std::int64_t t = 0; t < answer.tokens(); ++t) bytes += answer.token(1000 + t);
  return bytes + answer.end();
}

TEST(Exchange, LatencyIsThatOfTokensNotOfTheRoleChunk) {
  NullAnswer answer = answer_of("mixproof", 3);
  Exchange exchange;
  exchange.start(7, 100, 3, nullptr);
  EXPECT_FALSE(exchange.read(answer.begin(), 150, std::nullopt));
  EXPECT_EQ(exchange.record().head, 150);
  EXPECT_EQ(exchange.record().first, 0);
  EXPECT_FALSE(exchange.read(answer.token(1), 200, 5));
  EXPECT_FALSE(exchange.read(answer.token(2), 290, 9));
  EXPECT_TRUE(exchange.read(answer.token(3) + answer.end(), 300, 2));
  exchange.finish(Ending::kComplete, 300, "");
  const RequestRecord& record = exchange.record();
  EXPECT_EQ(record.outcome, Outcome::kOk) << record.detail;
  EXPECT_EQ(record.i, 7);
  EXPECT_EQ(record.first, 200);
  EXPECT_EQ(record.last, 300);
  EXPECT_EQ(record.max_gap, 90);
  EXPECT_EQ(record.max_gap_end, 290);
  EXPECT_EQ(record.events, 3);
  EXPECT_EQ(record.tokens, 3);
  EXPECT_FALSE(record.estimated);
  EXPECT_EQ(record.lag, 9);
  EXPECT_TRUE(exchange.reusable());
}

TEST(Exchange, WithoutStampsThereIsNoLag) {
  Exchange exchange;
  exchange.start(0, 0, 2, nullptr);
  exchange.read(whole("mixproof", 2), 10, std::nullopt);
  EXPECT_FALSE(exchange.record().lag.has_value());
}

TEST(Exchange, EventsOfOneReadShareItsTime) {
  Exchange exchange;
  exchange.start(0, 0, 20, nullptr);
  EXPECT_TRUE(exchange.read(whole("mixproof", 20), 500, std::nullopt));
  exchange.finish(Ending::kComplete, 500, "");
  EXPECT_EQ(exchange.record().outcome, Outcome::kOk);
  EXPECT_EQ(exchange.record().events, 20);
  EXPECT_EQ(exchange.record().token_reads, 1);
  EXPECT_EQ(exchange.record().max_gap, 0);
}

TEST(Exchange, OneByteReadsGiveTheSameRecord) {
  Exchange exchange;
  exchange.start(0, 0, 5, nullptr);
  bool over = false;
  std::int64_t at = 0;
  for (const char c : whole("mixproof", 5)) {
    EXPECT_FALSE(over);
    over = exchange.read(std::string(1, c), ++at, std::nullopt);
  }
  EXPECT_TRUE(over);
  exchange.finish(Ending::kComplete, at, "");
  EXPECT_EQ(exchange.record().outcome, Outcome::kOk) << exchange.record().detail;
  EXPECT_EQ(exchange.record().events, 5);
  EXPECT_EQ(exchange.record().token_reads, 5);
}

TEST(Exchange, ADoneWithoutTheEndOfTheBodyIsTruncated) {
  std::string bytes = whole("mixproof", 5);
  bytes.resize(bytes.size() - 5);  // the last chunk
  Exchange exchange;
  exchange.start(0, 0, 5, nullptr);
  EXPECT_FALSE(exchange.read(bytes, 1, std::nullopt));
  exchange.finish(exchange.peer_closed(), 2, "");
  EXPECT_EQ(exchange.record().outcome, Outcome::kTruncated);
}

TEST(Exchange, AnErrorObjectAsAWholeAnswerIsAStreamError) {
  Exchange exchange;
  exchange.start(0, 0, 5, nullptr);
  EXPECT_TRUE(
      exchange.read(plain_response(200, "OK", "application/json", R"({"error":{"message":"bad"}})"),
                    1, std::nullopt));
  exchange.finish(Ending::kComplete, 1, "");
  EXPECT_EQ(exchange.record().outcome, Outcome::kStreamError);
  EXPECT_EQ(exchange.record().detail, "the server reports: bad");
}

TEST(Exchange, StartForgetsTheLastRequest) {
  Exchange exchange;
  exchange.start(0, 0, 5, nullptr);
  exchange.read(whole("garbage", 6), 1, std::nullopt);
  exchange.finish(Ending::kComplete, 1, "");
  EXPECT_EQ(exchange.record().outcome, Outcome::kMalformed);
  exchange.start(1, 5, 5, nullptr);
  EXPECT_TRUE(exchange.read(whole("mixproof", 5), 9, std::nullopt));
  exchange.finish(Ending::kComplete, 9, "");
  EXPECT_EQ(exchange.record().outcome, Outcome::kOk) << exchange.record().detail;
  EXPECT_EQ(exchange.record().events, 5);
}

}  // namespace
}  // namespace mixproof::inference
