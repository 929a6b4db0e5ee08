#include "probes/inference/http.h"

#include <gtest/gtest.h>

#include <vector>

namespace mixproof::inference {
namespace {

// Feeds the bytes in pieces of `step` and returns the body.
std::string feed(HttpResponse& response, const std::string& bytes, std::size_t step) {
  std::string body;
  for (std::size_t at = 0; at < bytes.size(); at += step)
    EXPECT_TRUE(response.feed(bytes.substr(at, step), body));
  return body;
}

const std::string kChunked =
    "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\nTransfer-Encoding: "
    "chunked\r\n\r\n"
    "5\r\ndata:\r\n4;x=y\r\n a\n\n\r\n0\r\nTrailer: yes\r\nContent-Type: text/html\r\n\r\n";

TEST(Http, ChunkedBodiesAreTheSameInAnySplit) {
  for (const std::size_t step : {1000, 1, 2, 3, 7, 50}) {
    HttpResponse response;
    EXPECT_EQ(feed(response, kChunked, step), "data: a\n\n") << step;
    EXPECT_TRUE(response.done());
    EXPECT_TRUE(response.reusable());
    EXPECT_EQ(response.status(), 200);
    EXPECT_EQ(response.content_type(), "text/event-stream");  // a trailer does not replace it
  }
}

TEST(Http, LengthAndKeepAliveDecideReuse) {
  HttpResponse keeps;
  EXPECT_EQ(feed(keeps, "HTTP/1.1 503 Busy\r\nRetry-After: 2\r\nContent-Length: 2\r\n\r\nno", 4),
            "no");
  EXPECT_TRUE(keeps.reusable());
  EXPECT_EQ(keeps.status(), 503);
  EXPECT_EQ(keeps.reason(), "Busy");
  EXPECT_EQ(keeps.retry_after(), "2");
  HttpResponse closes;
  feed(closes, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno", 1000);
  EXPECT_TRUE(closes.done());
  EXPECT_FALSE(closes.reusable());
  HttpResponse surplus;
  feed(surplus, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno and more", 1000);
  EXPECT_TRUE(surplus.done());
  EXPECT_FALSE(surplus.reusable());
}

TEST(Http, ABodyWithoutLengthEndsWithTheConnection) {
  HttpResponse response;
  EXPECT_EQ(feed(response, "HTTP/1.0 200 OK\r\n\r\nabc", 5), "abc");
  EXPECT_FALSE(response.done());
  EXPECT_TRUE(response.end_of_connection());
  EXPECT_FALSE(response.reusable());
}

TEST(Http, ACutBodyIsNotComplete) {
  for (const std::size_t kept :
       {std::size_t{0}, std::size_t{10}, kChunked.size() - 5, kChunked.size() - 60}) {
    HttpResponse response;
    feed(response, kChunked.substr(0, kept), 1000);
    EXPECT_FALSE(response.end_of_connection()) << kept;
  }
  HttpResponse whole;
  feed(whole, kChunked, 1000);
  EXPECT_TRUE(whole.end_of_connection());
}

TEST(Http, WhatIsNotHttpIsAnError) {
  HttpResponse response;
  std::string body;
  EXPECT_FALSE(response.feed("SSH-2.0-OpenSSH_9.2\r\n\r\n", body));
  EXPECT_FALSE(response.error().empty());
  HttpResponse chunk;
  EXPECT_FALSE(chunk.feed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", body));
}

TEST(Http, InterimResponsesAreSkipped) {
  const std::string interim = "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n";
  for (const std::size_t step : {1000, 1, 5}) {
    HttpResponse response;
    EXPECT_EQ(feed(response, interim + interim + kChunked, step), "data: a\n\n") << step;
    EXPECT_EQ(response.status(), 200);
    EXPECT_TRUE(response.reusable());
  }
  HttpResponse only;
  feed(only, interim, 1000);
  EXPECT_FALSE(only.head_done());
  EXPECT_FALSE(only.end_of_connection());
}

TEST(Http, AnEmptyChunkedBodyMayComeByteByByte) {
  for (const std::size_t step : {1000, 1, 2, 3}) {
    HttpResponse response;
    EXPECT_EQ(
        feed(response, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", step), "");
    EXPECT_TRUE(response.reusable()) << step;
  }
}

TEST(Http, ABrokenOrEndlessHeadIsAnErrorHoweverItIsCut) {
  const std::string broken = "HTTP/1.1 200 OK\r\nA: b\r\n\rc: d\r\n\r\n";
  for (const std::size_t step : {1000, 1, 5}) {
    HttpResponse response;
    std::string body;
    bool good = true;
    for (std::size_t at = 0; at < broken.size() && good; at += step)
      good = response.feed(broken.substr(at, step), body);
    EXPECT_FALSE(good) << step;
  }
  HttpResponse endless;
  std::string body;
  EXPECT_TRUE(endless.feed("HTTP/1.1 200 OK\r\nA: ", body));
  EXPECT_FALSE(endless.feed(std::string(70'000, 'a'), body));
}

TEST(Http, SaysWhetherTheBodyHasAnEndOfItsOwn) {
  HttpResponse chunks, length, until_eof;
  feed(chunks, kChunked.substr(0, 100), 1000);
  EXPECT_TRUE(chunks.framed());
  feed(length, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", 1000);
  EXPECT_TRUE(length.framed());
  feed(until_eof, "HTTP/1.1 200 OK\r\n\r\nab", 1000);
  EXPECT_FALSE(until_eof.framed());
}

TEST(Http, ResetForgetsTheLastResponse) {
  HttpResponse response;
  feed(response, kChunked.substr(0, 130), 1000);
  response.reset();
  EXPECT_EQ(response.status(), 0);
  EXPECT_EQ(feed(response, kChunked, 3), "data: a\n\n");
}

}  // namespace
}  // namespace mixproof::inference
