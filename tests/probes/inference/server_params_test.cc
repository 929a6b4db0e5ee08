#include "probes/inference/server_params.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace mixproof::inference {
namespace {

// The parameters read and prepared, or the error.
struct Prepared {
  explicit Prepared(const Json& json) {
    status = read_params(json, server.params());
    if (status.ok()) status = server.prepare();
  }
  ServerParams server;
  Status status = ok();
};

TEST(ServerParams, EachApiHasItsForm) {
  Prepared chat(Json{{"url", "http://127.0.0.1"}});
  ASSERT_TRUE(chat.status.ok());
  EXPECT_TRUE(chat.server.reading().form.stream);
  EXPECT_EQ(chat.server.forced_tokens(7), 7);
  EXPECT_TRUE(chat.server.events_are_tokens());
  Prepared embeddings({{"url", "http://127.0.0.1"}, {"api", {{"embeddings", Json::object()}}}});
  ASSERT_TRUE(embeddings.status.ok());
  EXPECT_FALSE(embeddings.server.reading().form.stream);
  EXPECT_EQ(embeddings.server.forced_tokens(7), 0);
  Prepared custom(
      {{"url", "http://127.0.0.1"},
       {"stream", false},
       {"api",
        {{"custom",
          {{"path", "/generate"}, {"body", {{"in", "{prompt}"}}}, {"text_at", "/out/text"}}}}}});
  ASSERT_TRUE(custom.status.ok()) << custom.status.error().message;
  EXPECT_EQ(custom.server.reading().form.text, (JsonPath{"out", "text"}));
  EXPECT_EQ(custom.server.shape().body, R"({"in":"{prompt}"})");
  EXPECT_FALSE(custom.server.events_are_tokens());
}

TEST(ServerParams, MistakesAreConfigurationErrors) {
  const Json custom = {{"path", "/x"}, {"body", Json::object()}, {"text_at", "out"}};
  for (const Json& json :
       {Json{{"url", "http://127.0.0.1"}, {"urls", {"http://127.0.0.2"}}},
        Json{{"urls", {"http://127.0.0.1", "127.0.0.2"}}}, Json::object(),
        Json{{"url", "http://127.0.0.1"}, {"api", {{"custom", custom}}}},
        Json{{"url", "http://127.0.0.1"}, {"api", {{"custom", Json::object()}}}},
        Json{{"url", "http://127.0.0.1"}, {"token_env", "MIXPROOF_NO_SUCH_VARIABLE"}}}) {
    const Prepared prepared(json);
    ASSERT_FALSE(prepared.status.ok()) << json;
    EXPECT_EQ(prepared.status.error().code, Code::kInvalid) << json;
  }
}

TEST(ServerParams, TheReportSaysWhenNobodyLooksAtTheCertificate) {
  Prepared loose({{"url", "https://127.0.0.1"}, {"tls_verify", false}});
  ASSERT_TRUE(loose.status.ok());
  EXPECT_TRUE(loose.server.unverified());
  EXPECT_EQ(loose.server.info()["tls"]["verify"], false);
  Prepared strict(Json{{"url", "https://127.0.0.1"}});
  EXPECT_FALSE(strict.server.unverified());
  EXPECT_EQ(strict.server.info()["tls"]["verify"], true);
  Prepared plain({{"url", "http://127.0.0.1"}, {"tls_verify", false}});
  EXPECT_FALSE(plain.server.unverified());
  EXPECT_EQ(plain.server.info().count("tls"), 0u);
}

TEST(Share, TheWorkersPartsAreTheWholeScheduleAndEveryTargetGetsItsPart) {
  for (const std::int64_t workers : {1, 2, 3, 4})
    for (const std::int64_t targets : {1, 2, 3, 5}) {
      std::map<std::int64_t, int> owners;
      std::map<std::pair<std::int64_t, std::uint32_t>, int> pairs;
      const std::int64_t n = workers * targets * 7;
      for (std::int64_t k = 0; k < workers; ++k) {
        const Share share{k, workers, targets};
        for (std::int64_t i = 0; i < n; ++i)
          if (share.has(i)) {
            ++owners[i];
            ++pairs[{k, share.target_of(i)}];
          }
      }
      EXPECT_EQ(std::ssize(owners), n);
      for (const auto& [i, count] : owners) EXPECT_EQ(count, 1) << i;
      EXPECT_EQ(std::ssize(pairs), workers * targets);
      for (const auto& [pair, count] : pairs) EXPECT_EQ(count, 7);
    }
}

}  // namespace
}  // namespace mixproof::inference
