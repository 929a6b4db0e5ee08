#include "probes/signal/http_get.h"

#include <gtest/gtest.h>

#include <chrono>

#include "probes/inference/clock.h"
#include "tests/fake/page_server.h"

namespace mixproof::signal {
namespace {

using fake::http_answer;
using fake::PageServer;
using inference::kMillisecond;
using inference::monotonic_ns;

Result<Page> get(const PageServer& server, const std::string& path, std::int64_t within_ms = 2000,
                 const std::stop_token& stop = {}) {
  const Url url = *resolve_url(server.url() + path);
  return http_get(url.endpoint, url.path, monotonic_ns() + within_ms * kMillisecond, stop);
}

TEST(HttpGet, GivesStatusAndBodyOfTheTarget) {
  const PageServer server([](const std::string& target) {
    return target == "/a/b" ? http_answer("page") : http_answer("none", "404 Not Found");
  });
  const auto page = get(server, "/a/b");
  ASSERT_TRUE(page.ok()) << page.error().message;
  EXPECT_EQ(page->status, 200);
  EXPECT_EQ(page->body, "page");
  EXPECT_EQ(get(server, "")->status, 404);
}

TEST(HttpGet, ABodyMayEndWithTheConnectionButNotBeforeItsLength) {
  const PageServer open([](const std::string&) { return "HTTP/1.0 200 OK\r\n\r\nall of it"; });
  ASSERT_TRUE(get(open, "/").ok());
  EXPECT_EQ(get(open, "/")->body, "all of it");
  const PageServer cut(
      [](const std::string&) { return "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome"; });
  ASSERT_FALSE(get(cut, "/").ok());
  EXPECT_EQ(get(cut, "/").error().message, "the answer was cut short");
  const PageServer closes([](const std::string&) { return ""; });
  EXPECT_FALSE(get(closes, "/").ok());
  const PageServer other([](const std::string&) { return "SSH-2.0-OpenSSH_9.2\r\n"; });
  EXPECT_EQ(get(other, "/").error().code, Code::kCorrupt);
}

TEST(HttpGet, APageThatIsTooLargeIsAnError) {
  const PageServer server(
      [](const std::string&) { return http_answer(std::string(kPageLimitBytes + 1, 'x')); });
  const auto page = get(server, "/", 5000);
  ASSERT_FALSE(page.ok());
  EXPECT_EQ(page.error().code, Code::kCorrupt);
  EXPECT_NE(page.error().message.find("larger"), std::string::npos);
}

TEST(HttpGet, ASilentServerCostsTheDeadlineAndAStopEndsItAtOnce) {
  const PageServer silent([](const std::string&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    return "";
  });
  const std::int64_t begin = monotonic_ns();
  EXPECT_EQ(get(silent, "/", 150).error().code, Code::kTimeout);
  EXPECT_GE(monotonic_ns() - begin, 149 * kMillisecond);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(get(silent, "/", 5000, stop.get_token()).error().code, Code::kRefused);
}

TEST(HttpGet, NobodyThereIsUnavailable) {
  std::string url;
  {
    const PageServer server([](const std::string&) { return ""; });
    url = server.url();
  }
  const auto page = http_get(resolve_url(url)->endpoint, "/", monotonic_ns() + 1'000'000'000, {});
  ASSERT_FALSE(page.ok());
  EXPECT_EQ(page.error().code, Code::kUnavailable);
}

TEST(HttpGet, UrlsNeedAHost) {
  EXPECT_EQ(resolve_url("http://127.0.0.1:9/m?x=1")->path, "/m?x=1");
  EXPECT_EQ(resolve_url("http://127.0.0.1:9")->path, "/");
  for (const char* wrong : {"", "x", "https://127.0.0.1/", "http://", "http:///metrics"})
    EXPECT_FALSE(resolve_url(wrong).ok()) << wrong;
}

}  // namespace
}  // namespace mixproof::signal
