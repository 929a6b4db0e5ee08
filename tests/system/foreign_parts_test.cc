// The client and the signals against servers that nobody here wrote: llama.cpp's, HAProxy, nginx
// and Prometheus. Their own counts are the oracle.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "probes/inference/client.h"
#include "probes/probe.h"
#include "probes/signal/http_get.h"
#include "probes/signal/prometheus_text.h"
#include "suites/services/run_program.h"
#include "tests/fake/row_list.h"
#include "tests/system/engine_fixture.h"

namespace mixproof {
extern const ProbeSpec signals_probe;
}

namespace mixproof::engines {
namespace {

using inference::kMillisecond;
using inference::kSecond;
using inference::monotonic_ns;
using inference::Outcome;
using inference::outcome_name;
using inference::RequestRecord;

constexpr const char* kTokensTotal = "llamacpp:tokens_predicted_total";

std::string url_of(int port) { return "http://" + endpoint_of(port); }

std::string page(const std::string& url) {
  const signal::Url at = *signal::resolve_url(url);
  const auto got = signal::http_get(at.endpoint, at.path, monotonic_ns() + 5 * kSecond, {});
  EXPECT_TRUE(got.ok()) << got.error().message;
  return got.ok() ? got->body : "";
}

double metric(int port, const char* name) {
  const auto samples = signal::samples_of(page(url_of(port) + "/metrics"), name, {});
  EXPECT_TRUE(samples.ok() && samples->size() == 1) << name;
  return samples.ok() && samples->size() == 1 ? samples->front().value : -1;
}

bool has_scraped(int port) {
  const std::int64_t deadline = monotonic_ns() + 20 * kSecond;
  while (monotonic_ns() < deadline) {
    if (page(url_of(port) + "/api/v1/query?query=up").find("\"job\":\"engine\"") !=
        std::string::npos)
      return true;
    std::this_thread::sleep_for(milliseconds(100));
  }
  return false;
}

// Requests of our own client, from a thread of their own.
class Users final : public inference::ClientEvents {
 public:
  Users(const std::string& url, int connections)
      : endpoint_(*inference::resolve_endpoint(url)),
        writer_(endpoint_, {.model = "any"}),
        client_(inference::Client::create(endpoint_, {.connections = connections}).value()) {}

  void open_pool() {
    const Status opened = client_->open_pool(monotonic_ns() + 5 * kSecond, {});
    ASSERT_TRUE(opened.ok()) << opened.error().message;
  }

  // `count` requests that far apart; join() waits for their ends.
  void begin(int count, std::int64_t spacing_ns, std::int64_t tokens) {
    tokens_ = tokens;
    std::vector<inference::Send> sends;
    const std::int64_t first = monotonic_ns() + 10 * kMillisecond;
    for (int i = 0; i < count; ++i) sends.push_back({i, first + i * spacing_ns, tokens});
    thread_ = std::jthread([this, sends] {
      const auto end = client_->run(sends, sends.back().at_ns,
                                    {15 * kSecond, 15 * kSecond, 15 * kSecond}, {}, *this);
      EXPECT_TRUE(end.ok());
    });
  }
  const std::vector<RequestRecord>& join() {
    thread_.join();
    return records_;
  }

  std::string_view request(std::int64_t i) override {
    return writer_.write("tell me about place " + std::to_string(i), tokens_);
  }
  void finished(const RequestRecord& record) override { records_.push_back(record); }

 private:
  inference::Endpoint endpoint_;
  inference::RequestWriter writer_;
  std::unique_ptr<inference::Client> client_;
  std::int64_t tokens_ = 0;
  std::vector<RequestRecord> records_;
  std::jthread thread_;
};

std::map<std::string, int> outcomes_of(const std::vector<RequestRecord>& records) {
  std::map<std::string, int> out;
  for (const RequestRecord& record : records) ++out[std::string(outcome_name(record.outcome))];
  return out;
}

std::string words(const std::map<std::string, int>& counts) {
  std::string out;
  for (const auto& [name, count] : counts) out += name + " " + std::to_string(count) + " ";
  return out;
}

using ForeignEngine = EngineTest;

// llama.cpp's server says keep-alive, closes after each streamed answer all the same, and closes
// idle connections after 5 s. Neither may cost a request.
TEST_F(ForeignEngine, TokensAreThoseOfTheEnginesOwnCountAndNoRequestIsLost) {
  start_engine(0);
  ASSERT_TRUE(ready_within(ports_[0], "/health", milliseconds(30000)));
  Users users(url_of(ports_[0]), 4);
  users.open_pool();
  std::this_thread::sleep_for(milliseconds(5600));  // the pool stands idle
  const double before = metric(ports_[0], kTokensTotal);
  constexpr int kRequests = 24;
  constexpr std::int64_t kTokens = 20;
  users.begin(kRequests, 80 * kMillisecond, kTokens);
  const auto& records = users.join();
  ASSERT_EQ(records.size(), static_cast<std::size_t>(kRequests));
  std::int64_t tokens = 0, reconnects = 0;
  for (const RequestRecord& record : records) {
    EXPECT_EQ(record.outcome, Outcome::kOk) << record.detail;
    EXPECT_EQ(record.events, record.tokens);
    EXPECT_FALSE(record.estimated);
    tokens += record.tokens;
    reconnects += record.reconnects;
  }
  EXPECT_EQ(tokens, kRequests * kTokens);
  EXPECT_EQ(static_cast<double>(tokens), metric(ports_[0], kTokensTotal) - before);
  std::printf("%lld tokens, %lld reconnects\n", static_cast<long long>(tokens),
              static_cast<long long>(reconnects));
}

TEST_F(ForeignEngine, AStoppedServerShowsAsLongAsItStood) {
  start_engine(0);
  ASSERT_TRUE(ready_within(ports_[0], "/health", milliseconds(30000)));
  Users users(url_of(ports_[0]), 8);
  users.begin(33, 166 * kMillisecond, 24);  // six a second
  std::this_thread::sleep_for(milliseconds(1000));
  {
    const Stopped stopped(engines_[0]->pid());
    std::this_thread::sleep_for(milliseconds(4000));
  }
  const auto& records = users.join();
  std::vector<std::int64_t> ttft;
  std::int64_t gap = 0;
  for (const RequestRecord& record : records) {
    EXPECT_EQ(record.outcome, Outcome::kOk) << record.detail;
    ttft.push_back(record.first - record.sched);
    gap = std::max(gap, record.max_gap);
  }
  std::sort(ttft.begin(), ttft.end());
  ASSERT_EQ(ttft.size(), 33u);
  const std::int64_t p99 = ttft[static_cast<std::size_t>(std::ceil(0.99 * 33)) - 1];
  std::printf("p99 TTFT %.2f s, worst gap %.2f s\n", static_cast<double>(p99) * 1e-9,
              static_cast<double>(gap) * 1e-9);
  EXPECT_GE(std::max(p99, gap), 3500 * kMillisecond);
}

// Kills the engine while answers run; every request that was open then must have failed, in one of
// the ways that are allowed. What the engine had sent whole before may still have been on its way.
void kill_while_answers_run(const std::string& url, Child& engine,
                            const std::set<Outcome>& allowed) {
  constexpr std::int64_t kOnItsWay = 50 * kMillisecond;
  Users users(url, 8);
  users.begin(60, 20 * kMillisecond, 120);
  std::this_thread::sleep_for(milliseconds(700));
  const std::int64_t killed = monotonic_ns();
  kill(engine.pid(), SIGKILL);
  ASSERT_TRUE(engine.ended_within(milliseconds(2000)));
  const std::int64_t gone = monotonic_ns();
  const auto& records = users.join();
  ASSERT_EQ(records.size(), 60u);
  int open = 0, streaming = 0;
  std::map<std::string, int> seen;
  for (const RequestRecord& record : records) {
    if (record.send > gone) {
      EXPECT_NE(record.outcome, Outcome::kOk) << "nobody was left to answer";
    }
    const bool was_open = record.send > 0 && record.send < killed && record.end > killed;
    if (!was_open || (record.outcome == Outcome::kOk && record.end < killed + kOnItsWay)) continue;
    ++open;
    streaming += record.first > 0 ? 1 : 0;
    ++seen[std::string(outcome_name(record.outcome))];
    EXPECT_TRUE(allowed.contains(record.outcome))
        << outcome_name(record.outcome) << " " << record.detail;
  }
  std::printf("%d open at the kill, %d of them streaming: %s\n", open, streaming,
              words(seen).c_str());
  EXPECT_GE(streaming, 1) << words(outcomes_of(records));
}

TEST_F(ForeignEngine, AKilledServerTruncatesAndNothingOpenIsOk) {
  start_engine(0);
  ASSERT_TRUE(ready_within(ports_[0], "/health", milliseconds(30000)));
  kill_while_answers_run(url_of(ports_[0]), *engines_[0],
                         {Outcome::kTruncated, Outcome::kConnectError});
}

TEST_F(ForeignEngine, AKilledServerBehindAProxyIsNoSuccessEither) {
  start_engine(0);
  ASSERT_TRUE(ready_within(ports_[0], "/health", milliseconds(30000)));
  proxy_ = start(command_of("haproxy", proxy_port_, {endpoint_of(ports_[0])}), "proxy");
  ASSERT_TRUE(ready_within(proxy_port_, kHaproxyReadyPath, milliseconds(10000)));
  kill_while_answers_run(url_of(proxy_port_), *engines_[0],
                         {Outcome::kTruncated, Outcome::kHttpError, Outcome::kConnectError});
}

TEST_F(ForeignEngine, TheProxyCountsAsManyRequestsAsWeSent) {
  start_all();
  const auto counted = [this] {
    const std::string text = page(url_of(proxy_port_) + kHaproxyStatsPath + ";csv");
    const std::size_t row = text.find("replicas,BACKEND,");
    EXPECT_NE(row, std::string::npos) << text;
    return row == std::string::npos ? -1 : std::stoi(split(text.substr(row), ',').at(7));
  };
  const int before = counted();
  const double tokens_before = metric(ports_[0], kTokensTotal) + metric(ports_[1], kTokensTotal);
  Users users(url_of(proxy_port_), 8);
  users.open_pool();
  users.begin(40, 50 * kMillisecond, 16);
  std::int64_t sent = 0, tokens = 0;
  for (const RequestRecord& record : users.join()) {
    EXPECT_EQ(record.outcome, Outcome::kOk) << record.detail;
    sent += record.sent > 0 ? 1 : 0;
    tokens += record.tokens;
  }
  EXPECT_EQ(sent, 40);
  EXPECT_EQ(counted() - before, sent);
  EXPECT_EQ(metric(ports_[0], kTokensTotal) + metric(ports_[1], kTokensTotal) - tokens_before,
            static_cast<double>(tokens));
}

Json signal_of(const char* name, const std::string& url, Json more) {
  Json out = {{"name", name},
              {"every_s", 0.5},
              {"timeout_s", 0.5},
              {"sources", Json::array({{{"instance", "i"}, {"url", url}}})}};
  out.update(more);
  return out;
}

// A real Prometheus scrapes the engine; what it answers to our queries is what the page says.
TEST_F(ForeignEngine, APrometheusThatScrapesTheEngineAgreesWithItsPage) {
  const std::string program = find_program("prometheus");
  if (program.empty()) GTEST_SKIP() << "prometheus is not installed (Debian package prometheus)";
  start_engine(0);
  const int port = free_port();
  std::ofstream(folder() + "/prometheus.yml")
      << "global: {scrape_interval: 500ms, scrape_timeout: 500ms}\n"
         "scrape_configs:\n  - job_name: engine\n    static_configs:\n      - targets: ['"
      << endpoint_of(ports_[0]) << "']\n";
  const Child prometheus({program, "--config.file=" + folder() + "/prometheus.yml",
                          "--storage.tsdb.path=" + folder() + "/tsdb",
                          "--web.listen-address=" + endpoint_of(port), "--log.level=warn"},
                         folder() + "/prometheus.log");
  ASSERT_TRUE(ready_within(ports_[0], "/health", milliseconds(30000)));
  ASSERT_TRUE(ready_within(port, "/-/ready", milliseconds(15000)));
  ASSERT_TRUE(has_scraped(port)) << "Prometheus looks at its targets every 5 s at most";

  const std::string metrics = url_of(ports_[0]) + "/metrics";
  const auto probe = signals_probe.create();
  const Json signals =
      Json::array({signal_of("page", metrics, {{"series", kTokensTotal}}),
                   signal_of("grown", metrics, {{"series", kTokensTotal}, {"counter", true}}),
                   signal_of("query", url_of(port), {{"query", kTokensTotal}}),
                   signal_of("up", url_of(port), {{"query", "sum(up{job=\"engine\"})"}}),
                   signal_of("none", url_of(port), {{"query", "no_such_series"}}),
                   signal_of("bad", url_of(port), {{"query", "sum("}})});
  ASSERT_TRUE(read_params({{"signals", signals}}, probe->params()).ok());
  fake::RowList rows;
  ProbeContext context{.rows = rows};
  context.info = Json::object();
  ASSERT_TRUE(probe->prepare(context).ok());
  const double before = metric(ports_[0], kTokensTotal);
  const std::int64_t now = monotonic_ns();
  context.phases = {{"only", now, now + 4 * kSecond}};
  Users users(url_of(ports_[0]), 4);
  users.begin(10, 50 * kMillisecond, 12);
  ASSERT_TRUE(probe->run(context).ok());
  std::int64_t tokens = 0;
  for (const RequestRecord& record : users.join()) tokens += record.tokens;
  EXPECT_EQ(tokens, 120);

  std::map<std::string, std::vector<Json>> by_signal;
  for (const Json& row : rows.rows()) by_signal[text_at(row, "signal")].push_back(row);
  const double after = before + static_cast<double>(tokens);
  EXPECT_EQ(number_at(by_signal["page"].back(), "value"), after) << by_signal["page"].back();
  EXPECT_EQ(number_at(by_signal["query"].back(), "value"), after) << by_signal["query"].back();
  EXPECT_EQ(number_at(by_signal["up"].back(), "value"), 1);
  double grown = 0;
  for (const Json& row : by_signal["grown"]) grown += number_at(row, "value");
  EXPECT_EQ(grown, static_cast<double>(tokens));
  for (const Json& row : by_signal["none"]) EXPECT_FALSE(row.contains("value"));
  EXPECT_EQ(text_at(by_signal["none"].back(), "no_data"), "the query has no result");
  EXPECT_NE(text_at(by_signal["bad"].back(), "no_data").find("bad_data"), std::string::npos);
}

// nginx: plain HTTP/1.1 with keep-alive. What it sends instead of a stream is none, whatever its
// status; a stream that it sends whole is good, and comes over one connection.
TEST(ForeignNginx, AnswersThatAreNoStreamAreMalformedAndConnectionsAreUsedAgain) {
  const std::string program = find_program("nginx");
  if (program.empty()) GTEST_SKIP() << "nginx is not installed (Debian package nginx-light)";
  const int port = free_port();
  const std::string place = folder();
  std::string temporary;
  for (const char* kind : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"})
    temporary += std::string("  ") + kind + "_temp_path " + place + "/" + kind + ";\n";
  std::ofstream(place + "/nginx.conf")
      << "daemon off;\nmaster_process off;\npid " << place << "/nginx.pid;\nerror_log stderr;\n"
      << "events {}\nhttp {\n"
      << temporary << "  log_format one '$connection $status $uri';\n"
      << "  access_log " << place << "/access.log one;\n  server {\n    listen "
      << endpoint_of(port) << ";\n"
      << "    location /html { default_type text/html; return 200 '<html>hello</html>'; }\n"
      << "    location /json { default_type application/json; return 200 '{\"id\": 1}'; }\n"
      << "    location /stream { default_type text/event-stream; return 200 "
         "'data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"
         "data: {\"choices\":[],\"usage\":{\"completion_tokens\":1}}\n\ndata: [DONE]\n\n'; }\n"
      << "  }\n}\n";
  const Child nginx({program, "-c", place + "/nginx.conf", "-p", place}, place + "/nginx.log");
  ASSERT_TRUE(ready_within(port, "/html", milliseconds(10000)));
  for (const auto& [path, outcome] : {std::pair{"/html", Outcome::kMalformed},
                                      {"/json", Outcome::kMalformed},
                                      {"/stream", Outcome::kOk}}) {
    Users users(url_of(port) + path, 1);
    users.open_pool();
    users.begin(5, 20 * kMillisecond, 1);
    const auto& records = users.join();
    ASSERT_EQ(records.size(), 5u);
    for (const RequestRecord& record : records) {
      EXPECT_EQ(outcome_name(record.outcome), outcome_name(outcome))
          << path << " " << record.detail;
      EXPECT_EQ(record.reconnects, 0);
    }
  }
  std::map<std::string, std::set<std::string>> connections;  // by path
  std::map<std::string, int> asked;
  std::ifstream log(place + "/access.log");
  for (std::string line; std::getline(log, line);) {
    const std::vector<std::string> parts = split(line, ' ');
    if (parts.size() != 3 || parts[2].find("/v1/") == std::string::npos) continue;
    ++asked[parts[2]];
    connections[parts[2]].insert(parts[0]);
  }
  EXPECT_EQ(asked["/stream/v1/chat/completions"], 5);
  EXPECT_EQ(asked["/html/v1/chat/completions"], 5);
  EXPECT_EQ(connections["/stream/v1/chat/completions"].size(), 1u);
  std::filesystem::remove_all(place);
}

}  // namespace
}  // namespace mixproof::engines
