// The collector of signals against small servers over loopback.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "probes/inference/clock.h"
#include "probes/probe.h"
#include "tests/fake/page_server.h"
#include "tests/fake/row_list.h"

namespace mixproof {
extern const ProbeSpec signals_probe;
namespace {

using fake::http_answer;
using fake::PageServer;
using inference::kMillisecond;
using inference::monotonic_ns;

Json signal_json(const std::string& name, const std::vector<Json>& sources, Json more = {}) {
  Json out = {{"name", name}, {"every_s", 0.1}, {"timeout_s", 1}, {"sources", sources}};
  out.update(more);
  return out;
}

Json source(const std::string& instance, const std::string& url) {
  return {{"instance", instance}, {"url", url}};
}

struct Outcome {
  std::vector<Json> rows;
  Json info;
  Status prepared = ok();
  // Rows of one instance of a signal, in order.
  std::vector<Json> of(const std::string& signal, const std::string& instance) const {
    std::vector<Json> out;
    for (const Json& row : rows)
      if (text_at(row, "signal") == signal && text_at(row, "instance") == instance)
        out.push_back(row);
    return out;
  }
};

// One phase of that length, from now.
Outcome collect(const std::vector<Json>& signals, std::int64_t length_ms) {
  const auto probe = signals_probe.create();
  EXPECT_TRUE(read_params({{"signals", signals}}, probe->params()).ok());
  fake::RowList rows;
  ProbeContext context{.rows = rows};
  context.info = Json::object();
  Outcome out;
  out.prepared = probe->prepare(context);
  out.info = context.info;
  if (!out.prepared.ok()) return out;
  const std::int64_t begin = monotonic_ns();
  context.phases = {{"only", begin, begin + length_ms * kMillisecond}};
  EXPECT_TRUE(probe->run(context).ok());
  EXPECT_TRUE(probe->check(context).ok());
  out.rows = rows.rows();
  return out;
}

TEST(SignalsProbe, SamplesAPageFromTheBeginToTheEnd) {
  const PageServer server([](const std::string& target) {
    return target == "/metrics" ? http_answer("depth{q=\"a\"} 2\ndepth{q=\"b\"} 3\n")
                                : http_answer("", "404 Not Found");
  });
  const Outcome out =
      collect({signal_json("all", {source("s", server.url() + "/metrics")}, {{"series", "depth"}}),
               signal_json("one", {source("s", server.url() + "/metrics")},
                           {{"series", "depth"}, {"labels", {{"q", "b"}}}}),
               signal_json("wrong", {source("s", server.url() + "/other")}, {{"series", "depth"}})},
              500);
  const auto all = out.of("all", "s");
  ASSERT_GE(all.size(), 6u) << "one at the begin, one each 100 ms, one at the end";
  EXPECT_LE(all.size(), 7u);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(integer_at(all[i], "tick"), static_cast<std::int64_t>(i));
    EXPECT_EQ(text_at(all[i], "row"), "signal");
  }
  EXPECT_EQ(number_at(all.back(), "value"), 5);
  EXPECT_EQ(number_at(out.of("one", "s").back(), "value"), 3);
  EXPECT_EQ(text_at(out.of("wrong", "s").back(), "no_data"), "status 404");
  EXPECT_FALSE(out.of("wrong", "s").back().contains("value"));
  EXPECT_EQ(number_at(out.info["first_readings"], "all of s"), 5);
  EXPECT_EQ(text_at(out.info["first_readings"], "wrong of s"), "status 404");
}

TEST(SignalsProbe, SignalsOnOnePageShareItsAnswer) {
  std::atomic<int> asked = 0;
  const PageServer server([&](const std::string&) {
    ++asked;
    return http_answer("a 1\nb 2\n");
  });
  const Json sources = source("s", server.url() + "/metrics");
  const Outcome out = collect({signal_json("a", {sources}, {{"series", "a"}}),
                               signal_json("b", {sources}, {{"series", "b"}})},
                              300);
  int values = 0;  // a sample that came too late has none
  for (const Json& row : out.rows) values += row.contains("value") ? 1 : 0;
  EXPECT_GE(values, 4);
  EXPECT_EQ(asked - 2, values / 2) << "besides the two first readings";
}

TEST(SignalsProbe, CountersGiveTheirIncrease) {
  std::atomic<int> count = 0;
  const PageServer server([&](const std::string&) {
    return http_answer("done_total " + std::to_string(count += 10) + "\n");
  });
  const Outcome out = collect({signal_json("done", {source("s", server.url() + "/m")},
                                           {{"series", "done_total"}, {"counter", true}})},
                              250);
  const auto rows = out.of("done", "s");
  ASSERT_GE(rows.size(), 3u);
  for (const Json& row : rows) {
    if (row.contains("no_data")) continue;  // a busy machine may be late for a sample
    EXPECT_EQ(number_at(row, "value"), 10);
    EXPECT_GT(integer_at(row, "since"), 0);
    EXPECT_LT(integer_at(row, "since"), integer_at(row, "at"));
  }
  EXPECT_EQ(number_at(rows.front(), "value"), 10) << "compared with the first reading";
}

TEST(SignalsProbe, AQueryIsAskedAsPromQl) {
  const PageServer server([](const std::string& target) {
    if (target == "/base/api/v1/query?query=up%20%3E%200")
      return http_answer(
          R"({"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"7"]}]}})");
    if (target == "/api/v1/query?query=none")
      return http_answer(R"({"status":"success","data":{"resultType":"vector","result":[]}})");
    return http_answer(R"({"status":"error","errorType":"bad_data","error":"parse error"})",
                       "400 Bad Request");
  });
  const Outcome out =
      collect({signal_json("up", {source("p", server.url() + "/base")}, {{"query", "up > 0"}}),
               signal_json("none", {source("p", server.url())}, {{"query", "none"}}),
               signal_json("bad", {source("p", server.url())}, {{"query", "(("}})},
              150);
  EXPECT_EQ(number_at(out.of("up", "p").front(), "value"), 7);
  EXPECT_EQ(text_at(out.of("none", "p").front(), "no_data"), "the query has no result");
  EXPECT_EQ(text_at(out.of("bad", "p").front(), "no_data"), "status 400: bad_data: parse error");
}

// A server that hangs loses its own samples, each with a reason, and nobody else's; there is never
// more than one question under way.
TEST(SignalsProbe, ASlowServerLosesOnlyItsOwnSamples) {
  std::atomic<int> asked = 0;
  const PageServer slow([&](const std::string&) {
    ++asked;
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    return http_answer("x 1\n");
  });
  const PageServer quick([](const std::string&) { return http_answer("x 1\n"); });
  const Outcome out = collect(
      {signal_json("x", {source("slow", slow.url() + "/m"), source("quick", quick.url() + "/m")},
                   {{"series", "x"}, {"timeout_s", 0.2}})},
      600);
  const auto from_slow = out.of("x", "slow");
  ASSERT_EQ(from_slow.size(), 7u) << "every sample has its row";
  std::map<std::string, int> reasons;
  for (const Json& row : from_slow) {
    EXPECT_FALSE(row.contains("value"));
    ++reasons[text_at(row, "no_data")];
  }
  EXPECT_GE(reasons["not asked: the answer before took too long"], 2);
  EXPECT_LE(asked, 5);
  int good = 0;
  for (const Json& row : out.of("x", "quick")) good += row.contains("value") ? 1 : 0;
  EXPECT_GE(good, 1);  // all of them, unless the machine is busy
}

TEST(SignalsProbe, AServerThatIsAwayIsNoDataAndAWrongUrlAnError) {
  std::string away;
  {
    const PageServer server([](const std::string&) { return ""; });
    away = server.url();
  }
  const Outcome out = collect({signal_json("x", {source("s", away)}, {{"series", "x"}})}, 100);
  ASSERT_FALSE(out.rows.empty());
  EXPECT_EQ(text_at(out.rows.front(), "no_data"), "Connection refused");
  EXPECT_FALSE(
      collect({signal_json("x", {source("s", "ftp://x")}, {{"series", "x"}})}, 100).prepared.ok());
}

TEST(SignalsProbe, EndsSoonAfterAStop) {
  const PageServer server([](const std::string&) { return http_answer("x 1\n"); });
  const auto probe = signals_probe.create();
  ASSERT_TRUE(
      read_params({{"signals", {signal_json("x", {source("s", server.url())}, {{"series", "x"}})}}},
                  probe->params())
          .ok());
  fake::RowList rows;
  std::stop_source stop;
  ProbeContext context{.rows = rows, .stop = stop.get_token()};
  ASSERT_TRUE(probe->prepare(context).ok());
  std::atomic<std::int64_t> asked = 0;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    asked = monotonic_ns();
    stop.request_stop();
  });
  EXPECT_TRUE(probe->run(context).ok());  // by hand: without phases, until stopped
  EXPECT_LT(monotonic_ns() - asked, 10'000 * kMillisecond);
  EXPECT_GE(rows.rows().size(), 1u);
}

}  // namespace
}  // namespace mixproof
