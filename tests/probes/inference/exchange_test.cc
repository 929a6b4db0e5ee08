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
  exchange.finish(exchange.peer_closed(true), 2, "");
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

RequestRecord read_whole(const Reading& reading, const std::string& bytes, std::int64_t forced) {
  Exchange exchange;
  exchange.use(&reading);
  exchange.start(0, 0, forced, nullptr);
  const std::size_t half = bytes.size() / 2;
  EXPECT_FALSE(exchange.read(bytes.substr(0, half), 10, std::nullopt));
  EXPECT_TRUE(exchange.read(bytes.substr(half), 20, std::nullopt));
  exchange.finish(Ending::kComplete, 20, "");
  return exchange.record();
}

Reading whole_of(Api api) {
  return {.form = {.api = api, .stream = false, .text = {}, .tokens = {}}, .secret = ""};
}

TEST(Exchange, OfAWholeAnswerTheFirstTokenIsThereWhenTheBodyIs) {
  const std::string body =
      R"({"choices":[{"index":0,"message":{"content":"a b"},"finish_reason":"length"}],)"
      R"("usage":{"completion_tokens":5}})";
  const std::string bytes = plain_response(200, "OK", "application/json", body);
  const RequestRecord record = read_whole(whole_of(Api::kChat), bytes, 5);
  EXPECT_EQ(record.outcome, Outcome::kOk) << record.detail;
  EXPECT_EQ(record.first, 20);
  EXPECT_EQ(record.last, 20);
  EXPECT_EQ(record.events, 1);
  EXPECT_EQ(record.tokens, 5);
  EXPECT_EQ(read_whole(whole_of(Api::kChat), bytes, 6).outcome, Outcome::kShort);
  EXPECT_EQ(read_whole(whole_of(Api::kEmbeddings), bytes, 0).outcome, Outcome::kEmpty);
}

TEST(Exchange, AWholeAnswerWithoutACountCannotBeShort) {
  const RequestRecord record = read_whole(
      whole_of(Api::kCompletions),
      plain_response(200, "OK", "application/json", R"({"choices":[{"index":0,"text":"a"}]})"), 5);
  EXPECT_EQ(record.outcome, Outcome::kOk) << record.detail;
  EXPECT_TRUE(record.estimated);
}

TEST(Exchange, WholeAnswersHaveTheSameClassesAsStreams) {
  const auto outcome = [](const std::string& type, const std::string& body) {
    return read_whole(whole_of(Api::kChat), plain_response(200, "OK", type, body), 5).outcome;
  };
  EXPECT_EQ(outcome("application/json", R"({"choices":[{"index":0,"message":{"content":""}}]})"),
            Outcome::kEmpty);
  EXPECT_EQ(outcome("application/json", R"({"error":{"message":"bad"}})"), Outcome::kStreamError);
  EXPECT_EQ(outcome("text/html", "<html>"), Outcome::kMalformed);
  EXPECT_EQ(outcome("application/json", R"({"choices":[)"), Outcome::kMalformed);
  EXPECT_EQ(outcome("text/event-stream", "data: [DONE]\n\n"), Outcome::kMalformed);
  EXPECT_EQ(outcome("application/json", "[DONE]"), Outcome::kMalformed);
  const Reading reading = whole_of(Api::kChat);
  Exchange cut;
  cut.use(&reading);
  cut.start(0, 0, 0, nullptr);
  const std::string all =
      plain_response(200, "OK", "application/json", R"({"choices":[{"message":{"content":"a"}}]})");
  EXPECT_FALSE(cut.read(all.substr(0, all.size() - 1), 1, std::nullopt));
  cut.finish(cut.peer_closed(true), 2, "");
  EXPECT_EQ(cut.record().outcome, Outcome::kTruncated);
}

TEST(Exchange, ACustomStreamIsCompleteWhenItsBodyIsAndNotMerelyItsConnection) {
  const Reading reading{.form = {.api = Api::kCustom, .stream = true, .text = {"t"}, .tokens = {}},
                        .secret = ""};
  const std::string body = "data: {\"t\":\"a\"}\n\ndata: {\"t\":\"b\"}\n\n";
  const RequestRecord framed =
      read_whole(reading, plain_response(200, "OK", "text/event-stream", body), 0);
  EXPECT_EQ(framed.outcome, Outcome::kOk) << framed.detail;
  EXPECT_EQ(framed.events, 2);
  Exchange open;
  open.use(&reading);
  open.start(0, 0, 0, nullptr);
  open.read("HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + body, 1, std::nullopt);
  open.finish(open.peer_closed(true), 2, "");
  EXPECT_EQ(open.record().outcome, Outcome::kTruncated);
}

TEST(Exchange, AnEndThatIsNotCleanEndsNoBodyOfItsOwn) {
  const std::string bytes = whole("until_eof", 4);
  for (const bool clean : {true, false}) {
    Exchange exchange;
    exchange.start(0, 0, 4, nullptr);
    EXPECT_FALSE(exchange.read(bytes, 1, std::nullopt));
    exchange.finish(exchange.peer_closed(clean), 2, "");
    EXPECT_EQ(exchange.record().outcome, clean ? Outcome::kOk : Outcome::kTruncated);
  }
}

TEST(Exchange, NeverRepeatsTheTokenThatAServerQuotes) {
  const Reading reading{.form = {}, .secret = "sk-very-secret"};
  const std::string quote = R"({"error":{"message":"no such key: sk-very-secret"}})";
  for (const int status : {200, 401}) {
    const RequestRecord record =
        read_whole(reading, plain_response(status, "sk-very-secret", "application/json", quote), 0);
    EXPECT_NE(record.outcome, Outcome::kOk);
    EXPECT_NE(record.detail.find("no such key: ***"), std::string::npos) << record.detail;
    EXPECT_EQ(record.detail.find("secret"), std::string::npos) << record.detail;
  }
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
