// The whole load against the null server.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "probes/inference/clock.h"
#include "probes/inference/row_writer.h"
#include "probes/probe.h"
#include "tests/fake/paths.h"
#include "tests/probes/inference/canned_server.h"
#include "tests/probes/inference/running_null_server.h"

namespace mixproof {

extern const ProbeSpec inference_probe;

namespace {

using inference::CannedServer;
using inference::kMillisecond;
using inference::kSecond;
using inference::monotonic_ns;
using inference::RunningNullServer;

class Rows final : public RowSink {
 public:
  void row(const Json& row) override {
    const std::lock_guard lock(mutex_);
    rows_.push_back(row);
  }
  std::string text() {
    const std::lock_guard lock(mutex_);
    return line_of(Json(rows_));
  }
  std::vector<Json> of(const std::string& kind) {
    const std::lock_guard lock(mutex_);
    std::vector<Json> out;
    for (const Json& row : rows_)
      if (row["row"] == kind) out.push_back(row);
    return out;
  }

 private:
  std::mutex mutex_;
  std::vector<Json> rows_;
};

// A load with two phases that touch and one apart.
struct Load {
  explicit Load(const std::string& url, const Json& changes = Json::object(),
                std::uint64_t seed = 5) {
    Json params = {{"url", url},
                   {"arrivals", {{"poisson", {{"rate_per_s", 60}}}}},
                   {"answer_tokens", 6},
                   {"connections", 2}};
    params.update(changes);
    const Status status = read_params(params, probe->params());
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
    context.seed = seed;
    context.name = "users";
    context.phases = {{"baseline", 0, 200 * kMillisecond},
                      {"contention", 200 * kMillisecond, 400 * kMillisecond},
                      {"after", 500 * kMillisecond, 600 * kMillisecond}};
  }
  void be_short() { context.phases = {{"only", 0, 100 * kMillisecond}}; }
  Status prepare() { return probe->prepare(context); }
  Status run(std::int64_t begin = monotonic_ns() + 20 * kMillisecond) {
    for (PhaseSpan& phase : context.phases) {
      phase.begin_ns += begin;
      phase.end_ns += begin;
    }
    return probe->run(context);
  }

  Rows rows;
  ProbeContext context{.rows = rows};
  std::unique_ptr<Probe> probe = inference_probe.create();
};

TEST(Inference, RecordsEveryRequestOnceAndDrains) {
  RunningNullServer server(5, 4);
  Load load(server.url());
  ASSERT_TRUE(load.prepare().ok());
  EXPECT_EQ(server.counts.requests, 2);  // warm-up, not recorded
  ASSERT_TRUE(load.run().ok());
  const auto requests = load.rows.of("request");
  EXPECT_EQ(requests.size(), load.context.info["arrivals"]["scheduled"].get<std::size_t>());
  EXPECT_GT(requests.size(), 10u);
  EXPECT_EQ(server.counts.requests, 2 + static_cast<std::int64_t>(requests.size()));
  std::set<std::int64_t> ids;
  for (const Json& row : requests) {
    EXPECT_TRUE(ids.insert(row["i"].get<std::int64_t>()).second);
    EXPECT_EQ(row["outcome"], "OK") << row;
    EXPECT_EQ(row["tokens"], 6);
    EXPECT_EQ(row["events"], 6);
    EXPECT_GE(row["first"].get<std::int64_t>() - row["sched"].get<std::int64_t>(),
              5 * kMillisecond);
    bool in_a_phase = false;
    for (const PhaseSpan& phase : load.context.phases)
      in_a_phase = in_a_phase || (row["sched"] >= phase.begin_ns && row["sched"] < phase.end_ns);
    EXPECT_TRUE(in_a_phase) << row;
  }
  ASSERT_FALSE(load.rows.of("client").empty());
  EXPECT_EQ(load.rows.of("client").back()["dropped"], 0);
  EXPECT_TRUE(load.rows.of("note").empty());
  EXPECT_TRUE(load.probe->check(load.context).ok());
  std::int64_t tested = 0;
  for (const Json& row : load.rows.of("arrivals")) tested += row["n"].get<std::int64_t>();
  EXPECT_EQ(load.rows.of("arrivals").size(), 3u);
  EXPECT_EQ(tested, std::ssize(requests));
}

TEST(Inference, AsksForTheLengthsOfItsTrace) {
  RunningNullServer server;
  const std::string path = std::string(kSourceDir) + "/tests/probes/inference/traces/own.jsonl";
  Load load(server.url(), {{"arrivals", {{"trace", {{"path", path}, {"time_scale", 10}}}}},
                           {"prompt_lengths", {{"trace", Json::object()}}},
                           {"answer_lengths", {{"trace", Json::object()}}}});
  ASSERT_TRUE(load.prepare().ok());
  EXPECT_EQ(load.context.info["arrivals"]["trace"]["format"], "jsonl");
  EXPECT_EQ(load.context.info["arrivals"]["trace"]["sha256"].get<std::string>().size(), 64u);
  ASSERT_TRUE(load.run().ok());
  const auto requests = load.rows.of("request");
  ASSERT_EQ(requests.size(), 11u);  // all four in the phases of 200 ms, three in that of 100 ms
  const std::int64_t tokens[] = {4, 8, 2, 16};
  for (const Json& row : requests) {
    EXPECT_EQ(row["outcome"], "OK") << row;
    EXPECT_EQ(row["tokens"], tokens[row["i"].get<std::size_t>() % 4]) << row;
  }
  for (const Json& row : load.rows.of("arrivals")) EXPECT_EQ(row["deterministic"], true);
  Load absent(server.url(), {{"arrivals", {{"trace", {{"path", path + ".gone"}}}}}});
  const Status status = absent.prepare();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("own.jsonl.gone"), std::string::npos);
}

TEST(Inference, TheScheduleFollowsFromTheSeedAlone) {
  RunningNullServer server;
  Load one(server.url()), again(server.url()), other(server.url(), Json::object(), 6);
  ASSERT_TRUE(one.prepare().ok());
  ASSERT_TRUE(again.prepare().ok());
  ASSERT_TRUE(other.prepare().ok());
  EXPECT_EQ(one.context.info["schedule_hash"], again.context.info["schedule_hash"]);
  EXPECT_NE(one.context.info["schedule_hash"], other.context.info["schedule_hash"]);
  EXPECT_EQ(one.context.info["token_source"], "usage");
  EXPECT_EQ(one.context.info["url"], server.url());
  EXPECT_FALSE(one.context.info["scheduling"].get<std::string>().empty());
}

TEST(Inference, DoesNotStartAgainstAServerThatDoesNotAnswerProperly) {
  RunningNullServer server;
  const std::map<std::string, std::string> wrong = {
      {"http503", "HTTP_ERROR"}, {"short", "SHORT"}, {"html", "MALFORMED"}};
  for (const auto& [model, outcome] : wrong) {
    Load load(server.url(), {{"model", model}});
    const Status status = load.prepare();
    ASSERT_FALSE(status.ok()) << model;
    EXPECT_NE(status.error().message.find(server.url()), std::string::npos)
        << status.error().message;
    EXPECT_NE(status.error().message.find(outcome), std::string::npos) << status.error().message;
  }
  Load nowhere("");
  EXPECT_EQ(nowhere.prepare().error().code, Code::kInvalid);
  Load prefix(server.url() + "/other");
  EXPECT_FALSE(prefix.prepare().ok());
}

TEST(Inference, StopsSoonAndLeavesOutWhatIsInFlight) {
  RunningNullServer server;
  Load load(server.url(), {{"model", "stall_first:1500"}, {"deadline_s", 30}});
  load.context.phases = {{"baseline", 0, 20 * kSecond}};
  std::stop_source source;
  load.context.stop = source.get_token();
  ASSERT_TRUE(load.prepare().ok());
  const std::int64_t begin = monotonic_ns(), warm_ups = server.counts.requests;
  std::atomic<std::int64_t> asked = 0;
  std::jthread stopper([&] {
    while (server.counts.requests == warm_ups && monotonic_ns() < begin + 10 * kSecond)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    asked = monotonic_ns();
    source.request_stop();
  });
  ASSERT_TRUE(load.run(begin).ok());
  EXPECT_LT(monotonic_ns() - asked, 10 * kSecond);
  EXPECT_TRUE(load.rows.of("request").empty());
  ASSERT_EQ(load.rows.of("note").size(), 1u);
  EXPECT_NE(load.rows.of("note")[0]["message"].get<std::string>().find("in flight"),
            std::string::npos);
  EXPECT_TRUE(load.probe->check(load.context).ok());
}

TEST(Inference, CheckNoticesThatEventsAndCountedTokensDiffer) {
  RunningNullServer server;
  Load load(server.url(), {{"model", "miscount"}});
  load.be_short();
  ASSERT_TRUE(load.prepare().ok());
  ASSERT_TRUE(load.run().ok());
  const Status status = load.probe->check(load.context);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kCorrupt);
  Load lenient(server.url(), {{"model", "miscount"}, {"event_is_token", false}});
  lenient.be_short();
  ASSERT_TRUE(lenient.prepare().ok());
  ASSERT_TRUE(lenient.run().ok());
  EXPECT_TRUE(lenient.probe->check(lenient.context).ok());
}

TEST(Inference, CheckFailsWhenNothingWasRun) {
  RunningNullServer server;
  Load load(server.url());
  ASSERT_TRUE(load.prepare().ok());
  EXPECT_FALSE(load.probe->check(load.context).ok());
}

TEST(Inference, SaysWhenSomethingBuffersTheStream) {
  RunningNullServer server;
  Load load(server.url(), {{"model", "at_once"}, {"answer_tokens", 12}});
  load.be_short();
  ASSERT_TRUE(load.prepare().ok());
  ASSERT_TRUE(load.run().ok());
  ASSERT_EQ(load.rows.of("note").size(), 1u);
  EXPECT_NE(load.rows.of("note")[0]["message"].get<std::string>().find("buffers"),
            std::string::npos);
}

TEST(Inference, RefusesPhasesItsScheduleWasNotDrawnFor) {
  RunningNullServer server;
  Load load(server.url());
  load.be_short();
  ASSERT_TRUE(load.prepare().ok());
  const std::vector<PhaseSpan> phases = load.context.phases;
  load.context.phases.pop_back();
  EXPECT_FALSE(load.run().ok());
  load.context.phases = phases;
  load.context.phases[0].end_ns += kMillisecond;
  EXPECT_FALSE(load.run().ok());
  load.context.phases = phases;
  load.context.phases[0].end_ns += 1;  // seconds rounded elsewhere
  EXPECT_TRUE(load.run().ok());
}

TEST(Inference, SeveralWorkersSendEachRequestOfOneScheduleOnce) {
  RunningNullServer server;
  std::set<std::int64_t> all;
  std::string hash;
  std::int64_t announced = 0, scheduled = 0;
  for (int worker = 0; worker < 3; ++worker) {
    Load load(server.url(), {{"workers", 3}});
    load.context.worker = worker;
    load.context.workers = 3;
    ASSERT_TRUE(load.prepare().ok());
    const Json& arrivals = load.context.info["arrivals"];
    scheduled = arrivals["scheduled"].get<std::int64_t>();
    for (const Json& count : arrivals["by_phase"]) announced += count.get<std::int64_t>();
    EXPECT_TRUE(hash.empty() || hash == load.context.info["schedule_hash"]);
    hash = load.context.info["schedule_hash"];
    ASSERT_TRUE(load.run().ok());
    EXPECT_TRUE(load.probe->check(load.context).ok());
    for (const Json& row : load.rows.of("request")) {
      EXPECT_TRUE(all.insert(row["i"].get<std::int64_t>()).second) << row;
      EXPECT_EQ(row["worker"], worker);
      EXPECT_EQ(row["i"].get<std::int64_t>() % 3, worker);
    }
    for (const char* kind : {"client", "arrivals"}) {
      EXPECT_FALSE(load.rows.of(kind).empty());
      for (const Json& row : load.rows.of(kind)) EXPECT_EQ(row["worker"], worker);
    }
  }
  EXPECT_EQ(std::ssize(all), scheduled);
  EXPECT_EQ(announced, scheduled);
  EXPECT_EQ(*all.rbegin(), scheduled - 1);
}

TEST(Inference, WorkersThatNobodyStartedAreNotReckonedWith) {
  RunningNullServer server;
  Load load(server.url(), {{"workers", 2}});
  const Status status = load.prepare();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kInvalid);
}

TEST(Inference, GoesRoundSeveralServersAndSaysWhichOne) {
  RunningNullServer one, two;
  Load load("", {{"urls", {one.url(), two.url()}}});
  ASSERT_TRUE(load.prepare().ok());
  EXPECT_EQ(one.counts.requests, 1);  // both are warmed up
  EXPECT_EQ(two.counts.requests, 1);
  EXPECT_EQ(load.context.info["urls"], (Json{one.url(), two.url()}));
  ASSERT_TRUE(load.run().ok());
  std::map<std::int64_t, int> rows;
  for (const Json& row : load.rows.of("request")) {
    EXPECT_EQ(row["target"], row["i"].get<std::int64_t>() % 2);
    ++rows[row["target"].get<std::int64_t>()];
  }
  EXPECT_EQ(one.counts.requests, 1 + rows[0]);
  EXPECT_EQ(two.counts.requests, 1 + rows[1]);
  EXPECT_TRUE(load.probe->check(load.context).ok());
}

TEST(Inference, EveryApiIsAskedAndReadItsOwnWay) {
  struct Case {
    Json params;
    std::string path, answer;
  };
  const std::string usage = R"(,"usage":{"completion_tokens":6}})";
  const std::vector<Case> cases = {
      {{{"stream", false}},
       "/v1/chat/completions",
       R"({"choices":[{"message":{"content":"a b"},"finish_reason":"length"}])" + usage},
      {{{"stream", false}, {"api", {{"completions", Json::object()}}}},
       "/v1/completions",
       R"({"choices":[{"text":"a b","finish_reason":"length"}])" + usage},
      {{{"api", {{"embeddings", Json::object()}}}},
       "/v1/embeddings",
       R"({"data":[{"embedding":[0.1,0.2]}]})"},
      {{{"stream", false},
        {"api",
         {{"custom",
           {{"path", "/generate"},
            {"body", {{"inputs", "{prompt}"}, {"max", "{answer_tokens}"}}},
            {"text_at", "/0/generated_text"},
            {"tokens_at", "/n"}}}}}},
       "/generate",
       R"({"0":{"generated_text":"a"},"n":6})"}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.path);
    CannedServer server([&](const std::string&) { return CannedServer::json(one.answer); });
    Load load(server.url(), one.params);
    load.be_short();
    const Status prepared = load.prepare();
    ASSERT_TRUE(prepared.ok()) << prepared.error().message;
    ASSERT_TRUE(load.run().ok());
    EXPECT_TRUE(load.probe->check(load.context).ok());
    for (const Json& row : load.rows.of("request")) {
      EXPECT_EQ(row["outcome"], "OK") << row;
      EXPECT_EQ(row["first"], row["last"]);
      EXPECT_EQ(row["tokens"], one.path == "/v1/embeddings" ? 1 : 6);
    }
    for (const std::string& request : server.requests()) {
      EXPECT_EQ(request.find("POST " + one.path + " HTTP/1.1\r\n"), 0u);
      EXPECT_TRUE(Json::accept(CannedServer::body_of(request)));
    }
  }
}

TEST(Inference, ShowsTheTokenToTheServerAndToNobodyElse) {
  const std::string token = "sk-0123456789abcdef";
  ::setenv("MIXPROOF_TEST_TOKEN", token.c_str(), 1);
  const std::string good = R"({"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]})";
  int answered = 0;
  CannedServer server([&](const std::string& request) {
    const bool authorized = request.find("\r\nAuthorization: Bearer " + token) != std::string::npos;
    // From the third request on it complains, and quotes what it was given.
    if (authorized && ++answered <= 2) return CannedServer::json(good);
    return CannedServer::json(R"({"error":{"message":"key )" + token + R"( has expired"}})",
                              "401 " + token);
  });
  const Json params = {
      {"stream", false}, {"ignore_eos", false}, {"token_env", "MIXPROOF_TEST_TOKEN"}};
  Load load(server.url(), params);
  load.be_short();
  const Status prepared = load.prepare();
  ASSERT_TRUE(prepared.ok()) << prepared.error().message;
  ASSERT_TRUE(load.run().ok());
  ASSERT_FALSE(load.rows.of("request").empty());
  EXPECT_EQ(load.rows.of("request").back()["outcome"], "HTTP_ERROR");
  EXPECT_EQ(load.rows.text().find(token), std::string::npos) << load.rows.text();
  EXPECT_EQ(line_of(load.context.info).find(token), std::string::npos);
  EXPECT_EQ(load.context.info["authorization"], "bearer");
  Load refused(server.url(), params);
  const Status status = refused.prepare();
  ::unsetenv("MIXPROOF_TEST_TOKEN");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message.find(token), std::string::npos) << status.error().message;
  EXPECT_NE(status.error().message.find("401"), std::string::npos) << status.error().message;
}

TEST(Inference, CountsWhoAskedToComeBackLaterAndRetriesNothing) {
  int answered = 0;
  CannedServer server([&](const std::string&) {
    if (++answered <= 2)
      return CannedServer::json(
          R"({"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]})");
    return std::string("HTTP/1.1 429 Slow\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n");
  });
  Load load(server.url(), {{"stream", false}, {"ignore_eos", false}});
  load.be_short();
  ASSERT_TRUE(load.prepare().ok());
  ASSERT_TRUE(load.run().ok());
  const auto requests = load.rows.of("request");
  EXPECT_EQ(server.requests().size(), 2 + requests.size());
  for (const Json& row : requests) {
    EXPECT_EQ(row["status"], 429);
    EXPECT_EQ(row["retry_after"], true);
  }
  ASSERT_EQ(load.rows.of("note").size(), 1u);
  EXPECT_NE(load.rows.of("note")[0]["message"].get<std::string>().find("Retry-After"),
            std::string::npos);
}

TEST(RowWriter, HandsOnEveryRowInOrder) {
  Rows rows;
  {
    inference::RowWriter writer(rows);
    for (std::int64_t i = 0; i < 1000; ++i) {
      inference::RequestRecord record;
      record.i = i;
      writer.add(record);
    }
    writer.finish();
  }
  const auto requests = rows.of("request");
  ASSERT_EQ(requests.size(), 1000u);
  for (std::size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(requests[i]["i"], i);
  EXPECT_FALSE(requests[0].contains("lag"));  // not measured is not zero
}

}  // namespace
}  // namespace mixproof
