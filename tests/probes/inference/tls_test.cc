// The client over TLS: certificates, ends of connections, and the kernel's stamps as without it.
#include "probes/inference/tls.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "probes/inference/client.h"
#include "tests/probes/inference/canned_server.h"
#include "tests/probes/inference/running_null_server.h"
#include "tests/probes/inference/tls_front.h"

namespace mixproof::inference {
namespace {

constexpr std::int64_t kTokens = 6;

class OneModel final : public ClientEvents {
 public:
  OneModel(const Endpoint& endpoint, const std::string& model)
      : writer_(endpoint, {.model = model}) {}
  std::string_view request(std::int64_t) override { return writer_.write("0000 able", kTokens); }
  void finished(const RequestRecord& record) override { records.push_back(record); }

  std::vector<RequestRecord> records;

 private:
  RequestWriter writer_;
};

class Tls : public testing::Test {
 protected:
  Tls() { authority_.write_to(ca_file_); }
  ~Tls() override { std::filesystem::remove(ca_file_); }

  TlsOptions trusted() const { return {.verify = true, .ca_file = ca_file_}; }
  Certificate good() const { return Certificate({.issuer = &authority_}); }

  // Why the pool does not open; empty when it does.
  static std::string refusal(const Endpoint& endpoint, const TlsOptions& options) {
    auto client = Client::create(endpoint, {.connections = 2, .tls = options}).value();
    const Status status = client->open_pool(monotonic_ns() + 5 * kSecond, {});
    return status.ok() ? "" : status.error().message;
  }
  std::string refusal(const Certificate& certificate) const {
    const TlsFront front(certificate, server_.port());
    return refusal(*resolve_endpoint(front.url()), trusted());
  }

  std::vector<RequestRecord> ask(const TlsFront& front, const std::string& model, int count = 1,
                                 std::int64_t spacing_ns = 0) const {
    const Endpoint endpoint = *resolve_endpoint(front.url());
    auto client = Client::create(endpoint, {.connections = 1, .tls = trusted()}).value();
    const Status open = client->open_pool(monotonic_ns() + 5 * kSecond, {});
    EXPECT_TRUE(open.ok()) << open.error().message;
    OneModel events(endpoint, model);
    std::vector<Send> sends;
    const std::int64_t now = monotonic_ns();
    for (int i = 0; i < count; ++i) sends.push_back({i, now + i * spacing_ns, kTokens});
    const Timeouts timeouts{5 * kSecond, 5 * kSecond, 5 * kSecond};
    EXPECT_TRUE(client->run(sends, now, timeouts, {}, events).ok());
    EXPECT_EQ(events.records.size(), static_cast<std::size_t>(count));
    return events.records;
  }

  RunningNullServer server_;
  const Certificate authority_{{.subject = "authority", .alternative = ""}};
  const std::string ca_file_ =
      testing::TempDir() + "mixproof_ca_" + std::to_string(::getpid()) + ".pem";
};

TEST_F(Tls, AnswersComeAsWithoutItAndWithTheStampsOfTheKernel) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    const TlsFront front(good(), server_.port(), {.max_version = version});
    for (const RequestRecord& record : ask(front, "mixproof", 3, 40 * kMillisecond)) {
      EXPECT_EQ(record.outcome, Outcome::kOk) << record.detail;
      EXPECT_EQ(record.events, kTokens);
      EXPECT_TRUE(record.lag.has_value());
      EXPECT_LE(record.send, record.sent);
      EXPECT_EQ(record.reconnects, 0);
    }
  }
}

TEST_F(Tls, ACertificateThatDoesNotHoldIsRefusedWithPlaceAndReason) {
  const Certificate other({.subject = "another authority", .alternative = ""});
  const TlsFront expired(Certificate({.from_days = -3, .until_days = -1, .issuer = &authority_}),
                         server_.port());
  EXPECT_EQ(refusal(*resolve_endpoint(expired.url()), trusted()),
            "connect to " + expired.url() + ": TLS: certificate: certificate has expired");
  EXPECT_NE(refusal(Certificate({.issuer = &other})).find("unable to get local issuer certificate"),
            std::string::npos);
  EXPECT_NE(refusal(Certificate({.alternative = "IP:127.0.0.9", .issuer = &authority_}))
                .find("IP address mismatch"),
            std::string::npos);
  EXPECT_NE(refusal(Certificate({})).find("self-signed certificate"), std::string::npos);
  EXPECT_EQ(refusal(good()), "");
}

TEST_F(Tls, ANameIsSentAndMustBeNamed) {
  TlsFront front(Certificate({.alternative = "DNS:api.test", .issuer = &authority_}),
                 server_.port());
  Endpoint endpoint = *resolve_endpoint(front.url());
  endpoint.name = "api.test";
  EXPECT_EQ(refusal(endpoint, trusted()), "");
  EXPECT_EQ(front.server_name(), "api.test");
  endpoint.name = "other.test";
  EXPECT_NE(refusal(endpoint, trusted()).find("hostname mismatch"), std::string::npos);
}

TEST_F(Tls, WithoutVerificationAnyCertificateWillDo) {
  const TlsFront front(Certificate({.from_days = -3, .until_days = -1}), server_.port());
  EXPECT_EQ(refusal(*resolve_endpoint(front.url()), {.verify = false}), "");
}

TEST_F(Tls, ServersThatSpeakPlainTextAreToldApart) {
  const LoopbackListener plain([](int fd, const std::stop_token& stop) {
    while (!stop.stop_requested() && !LoopbackListener::readable(fd)) continue;
    constexpr std::string_view kAnswer = "HTTP/1.1 400 Bad Request\r\n\r\n";
    EXPECT_GT(::send(fd, kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL), 0);
  });
  const Endpoint endpoint = *resolve_endpoint("https://127.0.0.1:" + std::to_string(plain.port()));
  EXPECT_NE(refusal(endpoint, trusted()).find(": TLS: wrong version number"), std::string::npos)
      << refusal(endpoint, trusted());
}

TEST_F(Tls, AnAuthorityFileThatIsNoneIsAConfigurationError) {
  const Endpoint endpoint = *resolve_endpoint("https://127.0.0.1:1");
  const auto client = Client::create(endpoint, {.tls = {.ca_file = "/does/not/exist.pem"}});
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().code, Code::kInvalid);
  EXPECT_NE(client.error().message.find("/does/not/exist.pem"), std::string::npos);
}

TEST_F(Tls, AnEndWithoutGoodbyeEndsNoBodyOfItsOwn) {
  const TlsFront polite(good(), server_.port());
  EXPECT_EQ(ask(polite, "until_eof").at(0).outcome, Outcome::kOk);
  const TlsFront abrupt(good(), server_.port(), {.says_goodbye = false});
  EXPECT_EQ(ask(abrupt, "until_eof").at(0).outcome, Outcome::kTruncated);
  EXPECT_EQ(ask(abrupt, "cut").at(0).outcome, Outcome::kTruncated);
  EXPECT_EQ(ask(abrupt, "mixproof").at(0).outcome, Outcome::kOk);
}

TEST_F(Tls, AReusedConnectionThatIsClosedBeforeTheFirstByteIsOpenedAgain) {
  const TlsFront front(good(), server_.port());
  std::int64_t reconnects = 0;
  for (const RequestRecord& record : ask(front, "drop_reused", 3, 80 * kMillisecond)) {
    EXPECT_EQ(record.outcome, Outcome::kOk) << record.detail;
    reconnects += record.reconnects;
  }
  EXPECT_EQ(reconnects, 2);
}

TEST_F(Tls, LargeRequestsAndAnswersPass) {
  const std::string text(300'000, 'x');
  CannedServer backend([&](const std::string&) {
    return CannedServer::json(R"({"choices":[{"index":0,"text":")" + text + R"("}]})");
  });
  const TlsFront front(good(), backend.port());
  const Endpoint endpoint = *resolve_endpoint(front.url());
  auto client = Client::create(endpoint, {.connections = 1,
                                          .tls = trusted(),
                                          .reading = {.form = {.api = Api::kCompletions,
                                                               .stream = false,
                                                               .text = {},
                                                               .tokens = {}},
                                                      .secret = ""}})
                    .value();
  class Large final : public ClientEvents {
   public:
    explicit Large(const Endpoint& to) : writer_(to, {.api = Api::kCompletions, .stream = false}) {}
    std::string_view request(std::int64_t) override {
      return writer_.write(std::string(1'000'000, 'a'), 1);
    }
    void finished(const RequestRecord& record) override { last = record; }
    RequestRecord last;

   private:
    RequestWriter writer_;
  } events(endpoint);
  const std::vector<Send> sends = {{0, monotonic_ns(), 0}};
  ASSERT_TRUE(client->run(sends, 0, {5 * kSecond, 5 * kSecond, 5 * kSecond}, {}, events).ok());
  EXPECT_EQ(events.last.outcome, Outcome::kOk) << events.last.detail;
  EXPECT_GT(backend.requests().at(0).size(), 1'000'000u);
}

}  // namespace
}  // namespace mixproof::inference
