#include "probes/inference/request.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace mixproof::inference {
namespace {

TEST(Endpoint, TakesBaseUrlsWithAndWithoutThePathOfTheApi) {
  EXPECT_EQ(resolve_endpoint("http://127.0.0.1:8000")->path, "/v1/chat/completions");
  EXPECT_EQ(resolve_endpoint("http://127.0.0.1:8000/v1/")->path, "/v1/chat/completions");
  EXPECT_EQ(resolve_endpoint("http://127.0.0.1/models/a")->path, "/models/a/v1/chat/completions");
  EXPECT_EQ(resolve_endpoint("http://127.0.0.1")->host, "127.0.0.1:80");
  EXPECT_EQ(resolve_endpoint("http://[::1]:90")->host, "[::1]:90");
}

TEST(Endpoint, RefusesWhatItCannotReach) {
  for (const char* url :
       {"", "127.0.0.1:80", "https://127.0.0.1", "http://", "http://127.0.0.1:0",
        "http://127.0.0.1:99999", "http://127.0.0.1:x", "http://[::1", "http://127.0.0.1/?a=b"}) {
    const Result<Endpoint> endpoint = resolve_endpoint(url);
    ASSERT_FALSE(endpoint.ok()) << url;
    EXPECT_EQ(endpoint.error().code, Code::kInvalid) << url;
  }
}

TEST(RequestWriter, WritesWhatTheApiWants) {
  RequestWriter writer(*resolve_endpoint("http://127.0.0.1:8000"), {.model = "a \"b\""});
  const std::string text(writer.write("0123 able", 24));
  const std::size_t body_at = text.find("\r\n\r\n") + 4;
  const std::string body = text.substr(body_at);
  EXPECT_EQ(text.find("POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n"), 0u);
  EXPECT_NE(text.find("Content-Length: " + std::to_string(body.size()) + "\r\n"),
            std::string::npos);
  const auto json = nlohmann::json::parse(body);
  EXPECT_EQ(json["model"], "a \"b\"");
  EXPECT_EQ(json["messages"][0]["content"], "0123 able");
  EXPECT_EQ(json["max_tokens"], 24);
  EXPECT_EQ(json["stream"], true);
  EXPECT_EQ(json["stream_options"]["include_usage"], true);
  EXPECT_EQ(json["ignore_eos"], true);
  EXPECT_EQ(json["cache_prompt"], false);
  EXPECT_EQ(json["temperature"], 0);
}

TEST(RequestWriter, LeavesTheServerFreeToStopWhenAsked) {
  RequestWriter writer(*resolve_endpoint("http://127.0.0.1:8000"),
                       {.model = "m", .ignore_eos = false});
  EXPECT_EQ(std::string(writer.write("a", 1)).find("ignore_eos"), std::string::npos);
}

}  // namespace
}  // namespace mixproof::inference
