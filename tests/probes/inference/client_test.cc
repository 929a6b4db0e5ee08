// The real client against the null server over loopback.
#include "probes/inference/client.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <thread>

#include "tests/probes/inference/running_null_server.h"

namespace mixproof::inference {
namespace {

constexpr std::int64_t kTokens = 6;
// Where no deadline is tested: a busy machine may be slow, and every answer ends by itself.
constexpr std::int64_t kPatience = 20 * kSecond;
constexpr Timeouts kPatient{kPatience, kPatience, kPatience};

class Collector final : public ClientEvents {
 public:
  Collector(const Endpoint& endpoint, std::string model)
      : endpoint_(endpoint), model_(std::move(model)) {}

  std::map<std::int64_t, std::string> models;  // by request, instead of the common one
  std::vector<RequestRecord> records;
  std::vector<std::int64_t> receive_errors;  // our stamp minus the server's, of every token
  std::int64_t seconds = 0, dropped = 0;
  std::atomic<int> finished_so_far = 0;  // for other threads

  std::string_view request(std::int64_t i) override {
    const auto own = models.find(i);
    RequestWriter writer(endpoint_, {.model = own == models.end() ? model_ : own->second});
    text_ = writer.write("0000 able", kTokens);
    return text_;
  }
  void finished(const RequestRecord& record) override {
    records.push_back(record);
    ++finished_so_far;
  }
  void second(const ClientSecond& second) override {
    ++seconds;
    dropped += second.dropped;
  }
  void token(const RequestRecord&, std::int64_t at, std::string_view text) override {
    receive_errors.push_back(at - std::atoll(std::string(text).c_str()));
  }

 private:
  const Endpoint& endpoint_;
  std::string model_, text_;
};

struct Setting {
  ClientOptions options{.connections = 1, .max_in_flight = 100};
  Timeouts timeouts = kPatient;
  bool open_pool = true;
};

// Sends `count` requests `spacing_ns` apart, the first one now, and waits for them.
void ask(const std::string& url, Collector& collector, int count, std::int64_t spacing_ns,
         const Endpoint& endpoint, const Setting& setting = {}) {
  auto client = Client::create(endpoint, setting.options).value();
  if (setting.open_pool) {
    ASSERT_TRUE(client->open_pool(monotonic_ns() + kPatience, {}).ok()) << url;
  }
  std::vector<Send> sends;
  const std::int64_t begin = monotonic_ns();
  for (int i = 0; i < count; ++i) sends.push_back({i, begin + i * spacing_ns, kTokens});
  const Result<RunEnd> end = client->run(sends, begin, setting.timeouts, {}, collector);
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_FALSE(end->stopped);
  EXPECT_EQ(collector.records.size(), static_cast<std::size_t>(count));
}

RequestRecord ask_one(const RunningNullServer& server, const std::string& model,
                      const Setting& setting = {}) {
  const Endpoint endpoint = *resolve_endpoint(server.url());
  Collector collector(endpoint, model);
  ask(server.url(), collector, 1, 0, endpoint, setting);
  return collector.records.empty() ? RequestRecord{} : collector.records.front();
}

void expect(const RequestRecord& record, Outcome outcome) {
  EXPECT_EQ(outcome_name(record.outcome), outcome_name(outcome)) << record.detail;
  EXPECT_EQ(record.detail.empty(), outcome == Outcome::kOk);
}

TEST(Client, PlainAnswersAreOkAndEveryTokenIsAnEvent) {
  RunningNullServer server;
  const RequestRecord record = ask_one(server, "mixproof");
  expect(record, Outcome::kOk);
  EXPECT_EQ(record.tokens, kTokens);
  EXPECT_EQ(record.events, kTokens);
  EXPECT_FALSE(record.estimated);
  EXPECT_LE(record.sched, record.send);
  EXPECT_LE(record.send, record.sent);
  EXPECT_LE(record.sent, record.head);
  // Reads of a busy client may hold several events, so that their times are equal.
  EXPECT_LE(record.head, record.first);
  EXPECT_LE(record.first, record.last);
  EXPECT_LE(record.last, record.end);
  // Not from `sent`: the server may have the request before the call that sent it has returned.
  EXPECT_GE(record.first - record.send, 2 * kMillisecond);
  EXPECT_TRUE(record.lag.has_value());
  EXPECT_EQ(record.reconnects, 0);
}

TEST(Client, OtherCompleteAnswersAreOkToo) {
  RunningNullServer server;
  for (const char* model : {"no_done", "no_finish", "until_eof", "at_once"}) {
    SCOPED_TRACE(model);
    expect(ask_one(server, model), Outcome::kOk);
  }
  const RequestRecord uncounted = ask_one(server, "no_usage");
  expect(uncounted, Outcome::kOk);
  EXPECT_TRUE(uncounted.estimated);
  EXPECT_EQ(uncounted.tokens, kTokens);
}

TEST(Client, EveryMisbehaviourHasItsClass) {
  RunningNullServer server;
  const std::pair<const char*, Outcome> cases[] = {
      {"cut", Outcome::kTruncated},        {"error", Outcome::kStreamError},
      {"http503", Outcome::kHttpError},    {"close", Outcome::kTruncated},
      {"empty", Outcome::kEmpty},          {"html", Outcome::kMalformed},
      {"short", Outcome::kShort},          {"garbage", Outcome::kMalformed},
      {"unfinished", Outcome::kTruncated},
  };
  for (const auto& [model, outcome] : cases) {
    SCOPED_TRACE(model);
    expect(ask_one(server, model), outcome);
  }
  EXPECT_EQ(ask_one(server, "http503").detail,
            "503 Service Unavailable, retry after 1: {\"error\":{\"message\":\"loading "
            "model\",\"code\":503}}");
}

TEST(Client, EachDeadlineHasItsClass) {
  RunningNullServer server;
  Setting first;
  first.timeouts.first_token_ns = 60 * kMillisecond;
  expect(ask_one(server, "stall_first:10000", first), Outcome::kTimeoutFirst);
  Setting idle;
  idle.timeouts.idle_ns = 150 * kMillisecond;
  const RequestRecord silent = ask_one(server, "stall:10000", idle);
  expect(silent, Outcome::kTimeoutIdle);
  EXPECT_LT(silent.end - silent.sched, 10 * kSecond);
  Setting total;
  total.timeouts = {300 * kMillisecond, 300 * kMillisecond, 300 * kMillisecond};
  expect(ask_one(server, "stall:10000", total), Outcome::kTimeoutTotal);
  idle.timeouts.idle_ns = 5 * kSecond;
  expect(ask_one(server, "stall:20", idle), Outcome::kOk);
}

TEST(Client, WhereNobodyListensIsAConnectError) {
  std::string url;
  {
    RunningNullServer gone;
    url = gone.url();
  }
  const Endpoint endpoint = *resolve_endpoint(url);
  Collector collector(endpoint, "mixproof");
  Setting setting;
  setting.open_pool = false;
  ask(url, collector, 1, 0, endpoint, setting);
  expect(collector.records.front(), Outcome::kConnectError);
  EXPECT_EQ(collector.records.front().detail, "Connection refused");
  auto client = Client::create(endpoint, {}).value();
  const Status status = client->open_pool(monotonic_ns() + kPatience, {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "connect to " + url + ": Connection refused");
}

TEST(Client, WhatItCannotSendIsDroppedByItsName) {
  RunningNullServer server(20, 1);
  const Endpoint endpoint = *resolve_endpoint(server.url());
  Collector collector(endpoint, "mixproof");
  Setting setting;
  setting.options.max_in_flight = 2;
  ask(server.url(), collector, 5, 0, endpoint, setting);
  std::map<Outcome, int> outcomes;
  for (const RequestRecord& record : collector.records) ++outcomes[record.outcome];
  EXPECT_EQ(outcomes[Outcome::kOk], 2);
  EXPECT_EQ(outcomes[Outcome::kClientDropped], 3);
  EXPECT_EQ(collector.dropped, 3);
  EXPECT_EQ(server.counts.requests, 2);
}

TEST(Client, ARequestItReachesAfterItsDeadlineIsDroppedAndNotBlamedOnTheServer) {
  RunningNullServer server;
  const Endpoint endpoint = *resolve_endpoint(server.url());
  Collector collector(endpoint, "mixproof");
  auto client = Client::create(endpoint, {.connections = 1}).value();
  const std::vector<Send> sends = {{0, monotonic_ns() - 3 * kSecond}};
  ASSERT_TRUE(client->run(sends, 0, {2 * kSecond, 2 * kSecond, 2 * kSecond}, {}, collector).ok());
  expect(collector.records.at(0), Outcome::kClientDropped);
}

TEST(Client, LatencyCountsFromTheScheduledTimeWhateverTheClientDid) {
  RunningNullServer server;
  const Endpoint endpoint = *resolve_endpoint(server.url());
  Collector collector(endpoint, "mixproof");
  auto client = Client::create(endpoint, {.connections = 1}).value();
  ASSERT_TRUE(client->open_pool(monotonic_ns() + kPatience, {}).ok());
  const std::vector<Send> sends = {{0, monotonic_ns() - 150 * kMillisecond, kTokens}};
  ASSERT_TRUE(client->run(sends, 0, kPatient, {}, collector).ok());
  const RequestRecord& record = collector.records.at(0);
  expect(record, Outcome::kOk);
  EXPECT_GE(record.first - record.sched, 150 * kMillisecond);
  EXPECT_GE(record.send - record.sched, 150 * kMillisecond);
}

TEST(Client, KeepsConnectionsAndOpensMoreWhenItNeedsThem) {
  RunningNullServer server(1, 0);
  const Endpoint endpoint = *resolve_endpoint(server.url());
  Setting setting;
  setting.options.connections = 2;
  Collector apart(endpoint, "mixproof");
  ask(server.url(), apart, 6, 100 * kMillisecond, endpoint, setting);
  for (const RequestRecord& record : apart.records) expect(record, Outcome::kOk);
  const std::int64_t opened = server.counts.connections;
  EXPECT_GE(opened, 2);
  EXPECT_LT(opened, 6);  // 2 unless the machine is busy
  Collector together(endpoint, "mixproof");
  ask(server.url(), together, 6, 0, endpoint, setting);
  for (const RequestRecord& record : together.records) expect(record, Outcome::kOk);
  EXPECT_EQ(server.counts.connections, opened + 6);
  EXPECT_EQ(server.counts.requests, 12);
}

TEST(Client, ReconnectsOnceWhenAReusedConnectionIsClosedBeforeTheFirstByte) {
  RunningNullServer server;
  const Endpoint endpoint = *resolve_endpoint(server.url());
  Collector collector(endpoint, "drop_reused");
  ask(server.url(), collector, 3, 300 * kMillisecond, endpoint);
  std::int64_t reconnects = 0;
  for (const RequestRecord& record : collector.records) {
    expect(record, Outcome::kOk);
    reconnects += record.reconnects;
  }
  EXPECT_EQ(reconnects, 2);
  const RequestRecord never =
      ask_one(server, "close");  // the second try is closed as well: no third one
  expect(never, Outcome::kTruncated);
  EXPECT_EQ(never.reconnects, 1);
}

TEST(Client, AStalledServerShowsInEveryRequestThatWasDueMeanwhile) {
  RunningNullServer server(2, 0);
  const Endpoint endpoint = *resolve_endpoint(server.url());
  Collector collector(endpoint, "mixproof");
  collector.models[10] = "freeze:1000";
  Setting setting;
  setting.options.connections = 4;
  ask(server.url(), collector, 50, 10 * kMillisecond, endpoint, setting);
  std::sort(collector.records.begin(), collector.records.end(),
            [](auto& a, auto& b) { return a.i < b.i; });
  const std::int64_t frozen_at = collector.records[10].send;
  for (const RequestRecord& record : collector.records) {
    expect(record, Outcome::kOk);
    const std::int64_t left = frozen_at + kSecond - record.sched;
    if (record.i > 10 && left > 0) {
      EXPECT_GE(record.first - record.sched, left) << record.i;
    }
  }
  EXPECT_GE(collector.records[13].first - collector.records[13].sched, 950 * kMillisecond);
  EXPECT_LT(collector.records[5].first - collector.records[5].sched, 950 * kMillisecond);
}

TEST(Client, ItsStampsFollowThoseOfTheServer) {
  RunningNullServer server;
  const Endpoint endpoint = *resolve_endpoint(server.url());
  Collector collector(endpoint, "mixproof");
  ask(server.url(), collector, 20, 5 * kMillisecond, endpoint);
  std::vector<std::int64_t>& errors = collector.receive_errors;
  ASSERT_EQ(errors.size(), 20u * kTokens);
  std::sort(errors.begin(), errors.end());
  EXPECT_GT(errors.front(), 0);
  // 20 us on an idle machine; on a busy one a few must be read at once.
  EXPECT_LT(errors[errors.size() / 10], 20 * kMillisecond);
}

TEST(Client, SpreadsOverSeveralServersAsTheScheduleSays) {
  RunningNullServer one, two;
  const std::vector<Endpoint> endpoints = {*resolve_endpoint(one.url()),
                                           *resolve_endpoint(two.url())};
  Collector collector(endpoints[0], "mixproof");
  auto client = Client::create(endpoints, {.connections = 2, .max_in_flight = 100}).value();
  ASSERT_TRUE(client->open_pool(monotonic_ns() + kPatience, {}).ok());
  std::vector<Send> sends;
  for (int i = 0; i < 9; ++i)
    sends.push_back({i, monotonic_ns(), kTokens, static_cast<std::uint32_t>(i % 3 == 0 ? 1 : 0)});
  ASSERT_TRUE(client->run(sends, 0, kPatient, {}, collector).ok());
  EXPECT_EQ(one.counts.requests, 6);
  EXPECT_EQ(two.counts.requests, 3);
  ASSERT_EQ(collector.records.size(), 9u);
  for (const RequestRecord& record : collector.records) {
    expect(record, Outcome::kOk);
    EXPECT_EQ(record.target, record.i % 3 == 0 ? 1u : 0u);
  }
}

TEST(Client, OneServerThatIsNotThereSpoilsOnlyItsOwnRequests) {
  std::string nowhere;
  {
    RunningNullServer gone;
    nowhere = gone.url();
  }
  RunningNullServer here;
  const std::vector<Endpoint> endpoints = {*resolve_endpoint(here.url()),
                                           *resolve_endpoint(nowhere)};
  Collector collector(endpoints[0], "mixproof");
  auto client = Client::create(endpoints, {.connections = 1, .max_in_flight = 100}).value();
  EXPECT_EQ(client->open_pool(monotonic_ns() + kPatience, {}).error().message,
            "connect to " + nowhere + ": Connection refused");
  const std::vector<Send> sends = {{0, monotonic_ns(), kTokens, 0},
                                   {1, monotonic_ns(), kTokens, 1}};
  ASSERT_TRUE(client->run(sends, 0, kPatient, {}, collector).ok());
  for (const RequestRecord& record : collector.records)
    expect(record, record.i == 0 ? Outcome::kOk : Outcome::kConnectError);
}

TEST(Client, StopsAtOnceAndLeavesOutWhatWasInFlight) {
  RunningNullServer server;
  const Endpoint endpoint = *resolve_endpoint(server.url());
  Collector collector(endpoint, "stall_first:10000");
  collector.models[0] = "mixproof";
  auto client = Client::create(endpoint, {.connections = 1}).value();
  const std::int64_t begin = monotonic_ns();
  const std::vector<Send> sends = {
      {0, begin}, {1, begin + 50 * kMillisecond}, {2, begin + 20 * kSecond}};
  std::stop_source source;
  std::atomic<std::int64_t> asked = 0;
  std::jthread stopper([&] {  // one answered, one in flight, one not yet due
    const std::int64_t deadline = begin + 10 * kSecond;
    while (monotonic_ns() < deadline &&
           (collector.finished_so_far < 1 || server.counts.requests < 2))
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    asked = monotonic_ns();
    source.request_stop();
  });
  const Result<RunEnd> end =
      client->run(sends, begin + 20 * kSecond, kPatient, source.get_token(), collector);
  EXPECT_LT(monotonic_ns() - asked, 5 * kSecond);
  ASSERT_TRUE(end.ok());
  EXPECT_TRUE(end->stopped);
  EXPECT_EQ(end->left_out, (std::vector<std::int64_t>{1}));
  ASSERT_EQ(collector.records.size(), 1u);
  expect(collector.records[0], Outcome::kOk);
}

}  // namespace
}  // namespace mixproof::inference
