#include "probes/inference/request.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace mixproof::inference {
namespace {

std::string path_of(const std::string& url, Api api = Api::kChat) {
  return RequestWriter(*resolve_endpoint(url), {.model = "m", .api = api}).path();
}

TEST(Endpoint, TakesBaseUrlsWithAndWithoutThePathOfTheApi) {
  EXPECT_EQ(path_of("http://127.0.0.1:8000"), "/v1/chat/completions");
  EXPECT_EQ(path_of("http://127.0.0.1:8000/v1/"), "/v1/chat/completions");
  EXPECT_EQ(path_of("http://127.0.0.1/models/a"), "/models/a/v1/chat/completions");
  EXPECT_EQ(path_of("http://127.0.0.1/v1", Api::kEmbeddings), "/v1/embeddings");
  EXPECT_EQ(path_of("http://127.0.0.1", Api::kCompletions), "/v1/completions");
  EXPECT_EQ(resolve_endpoint("http://127.0.0.1")->host, "127.0.0.1:80");
  EXPECT_EQ(resolve_endpoint("http://[::1]:90")->host, "[::1]:90");
  EXPECT_EQ(resolve_endpoint("http://[::1]:90")->name, "::1");
}

TEST(Endpoint, HttpsMeansTlsAndItsPort) {
  const Endpoint endpoint = *resolve_endpoint("https://127.0.0.1/v1");
  EXPECT_TRUE(endpoint.tls);
  EXPECT_EQ(endpoint.host, "127.0.0.1:443");
  EXPECT_FALSE(resolve_endpoint("http://127.0.0.1")->tls);
}

TEST(Endpoint, RefusesWhatItCannotReach) {
  for (const char* url :
       {"", "127.0.0.1:80", "ftp://127.0.0.1", "http://", "https://", "http://127.0.0.1:0",
        "http://127.0.0.1:99999", "http://127.0.0.1:x", "http://[::1", "http://127.0.0.1/?a=b"}) {
    const Result<Endpoint> endpoint = resolve_endpoint(url);
    ASSERT_FALSE(endpoint.ok()) << url;
    EXPECT_EQ(endpoint.error().code, Code::kInvalid) << url;
  }
}

TEST(Endpoint, APasswordInAUrlIsRefusedAndNotRepeated) {
  const Result<Endpoint> endpoint = resolve_endpoint("https://me:hunter2@127.0.0.1");
  ASSERT_FALSE(endpoint.ok());
  EXPECT_EQ(endpoint.error().message.find("hunter2"), std::string::npos);
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

nlohmann::json body_of(const RequestShape& shape, const std::string& prompt = "0123 able") {
  RequestWriter writer(*resolve_endpoint("http://127.0.0.1:8000"), shape);
  const std::string text(writer.write(prompt, 24));
  return nlohmann::json::parse(text.substr(text.find("\r\n\r\n") + 4));
}

TEST(RequestWriter, EachApiHasItsBody) {
  const auto completions = body_of({.model = "m", .api = Api::kCompletions});
  EXPECT_EQ(completions["prompt"], "0123 able");
  EXPECT_EQ(completions.count("messages"), 0u);
  const auto embeddings = body_of({.model = "m", .api = Api::kEmbeddings, .stream = false});
  EXPECT_EQ(embeddings, (nlohmann::json{{"model", "m"}, {"input", "0123 able"}}));
  const auto whole = body_of({.model = "m", .stream = false});
  EXPECT_EQ(whole["stream"], false);
  EXPECT_EQ(whole.count("stream_options"), 0u);  // servers refuse it without a stream
}

TEST(RequestWriter, FillsInTheTemplateOfACustomApi) {
  const RequestShape shape{
      .model = "a \"{prompt}\"",
      .api = Api::kCustom,
      .path = "generate",
      .body =
          R"({"in":"<{prompt}>","id":"{salt}-{answer_tokens}","max":"{answer_tokens}","model":"{model}","x":"{y}"})"};
  const auto body = body_of(shape);
  EXPECT_EQ(body["in"], "<0123 able>");
  EXPECT_EQ(body["id"], "0123-24");
  EXPECT_EQ(body["max"], 24);
  EXPECT_EQ(body["model"], "a \"{prompt}\"");
  EXPECT_EQ(body["x"], "{y}");
  EXPECT_EQ(RequestWriter(*resolve_endpoint("http://127.0.0.1/a"), shape).path(), "/a/generate");
}

TEST(RequestWriter, TheTokenGoesIntoTheHeaderAndOnlyWhenThereIsOne) {
  const Endpoint endpoint = *resolve_endpoint("http://127.0.0.1");
  RequestWriter with(endpoint, {.model = "m", .bearer = "abc"});
  EXPECT_NE(std::string(with.write("a", 1)).find("\r\nAuthorization: Bearer abc\r\n"),
            std::string::npos);
  RequestWriter without(endpoint, {.model = "m"});
  EXPECT_EQ(std::string(without.write("a", 1)).find("Authorization"), std::string::npos);
}

}  // namespace
}  // namespace mixproof::inference
