// Signals of a made-up run: samples from rows, and the limits on them.
#include "suites/signals.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "suites/judge.h"
#include "suites/timeline_series.h"
#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

constexpr const char* kCollector = "edge-0";

// Seconds of the run to the collector's clock.
std::int64_t node_time(double at_s) {
  return FakeRows::kStart + FakeRows::ns(at_s) - FakeRows::offset(kCollector);
}

Json sample(const char* signal, const char* instance, std::int64_t tick, double at_s) {
  return {{"row", "signal"},      {"load", "signals@edge"}, {"node", kCollector},
          {"signal", signal},     {"instance", instance},   {"tick", tick},
          {"at", node_time(at_s)}};
}

Json limit(const char* metric, Json more) {
  Json out = {{"id", "signal"},        {"metric", metric},   {"signal", "queue"},
              {"phase", "contention"}, {"method", "direct"}, {"why", "w"}};
  out.update(more);
  return out;
}

// The window of contention is 36 to 56 s: 20 samples at one a second.
struct SignalRun {
  Json signal = {{"page", "llm"}, {"series", "depth"}};
  Json judged = limit("signal.value", {{"quantile", "max"}, {"at_most", 10}});
  // Of an instance at a time: a value, or a reason why there is none.
  std::function<Json(const std::string& instance, double at_s)> value = [](const std::string&,
                                                                           double) { return 3; };
  std::function<bool(double at_s)> sampled = [](double) { return true; };
  bool counter = false;
  std::int64_t reset_at = -1;
  std::vector<Json> extra;

  FakeRun run() const {
    FakeRun out;
    out.suite["signals"] = {{"queue", signal}};
    out.suite["limits"] = Json::array({judged});
    out.extra = extra;
    double before_s = -1;
    for (std::int64_t tick = 0; tick <= 76; ++tick) {
      const double at_s = static_cast<double>(tick) + 0.25;
      if (!sampled(at_s)) continue;
      for (const char* instance : {"llm[0]", "llm[1]"}) {
        Json row = sample("queue", instance, tick, at_s);
        const Json value_or_reason = value(instance, at_s);
        row[value_or_reason.is_string() ? "no_data" : "value"] = value_or_reason;
        if (counter) row["since"] = node_time(before_s);
        if (tick == reset_at) row["resets"] = 1;
        out.extra.push_back(std::move(row));
      }
      before_s = at_s;
    }
    return out;
  }
  Json check() const {
    const FakeRun made = run();
    return judge(made.plan(), made.rows()).checks.at(0);
  }
};

void expect(const Json& check, const char* status, const char* reason) {
  EXPECT_EQ(text_at(check, "status"), status) << check.dump(1);
  EXPECT_EQ(text_at(check, "reason"), reason) << check.dump(1);
}

TEST(Signals, AMaximumWithinItsBoundPassesAndOneBeyondFails) {
  SignalRun run;
  expect(run.check(), "pass", "within_limit");
  EXPECT_EQ(number_at(run.check()["observed"], "value"), 6) << "the sum of two instances";
  EXPECT_EQ(integer_at(run.check()["observed"], "n"), 20);
  EXPECT_EQ(text_at(run.check(), "signal"), "queue");
  EXPECT_EQ(text_at(run.check(), "rule"), "signal.value max of queue in contention <= 10");
  run.value = [](const std::string&, double at_s) { return at_s > 50 && at_s < 51 ? 6 : 3; };
  expect(run.check(), "fail", "outside_limit");
  run.value = [](const std::string&, double at_s) { return at_s < 36 || at_s > 56 ? 600 : 3; };
  expect(run.check(), "pass", "within_limit");  // the settle time and other phases do not count
}

TEST(Signals, InstancesAreCombinedAsTheSignalSays) {
  SignalRun run;
  run.value = [](const std::string& instance, double) { return instance == "llm[0]" ? 2 : 5; };
  for (const auto& [how, value] : {std::pair{"sum", 7}, {"max", 5}, {"min", 2}}) {
    run.signal["combine"] = how;
    EXPECT_EQ(number_at(run.check()["observed"], "value"), value) << how;
  }
}

TEST(Signals, WithoutDataNothingPasses) {
  SignalRun run;
  run.value = [](const std::string&, double) { return "status 404"; };
  expect(run.check(), "error", "no_samples");
  EXPECT_EQ(text_at(run.check()["observed"]["evidence"], "no_data"), "llm[0]: status 404");
  run.sampled = [](double) { return false; };
  expect(run.check(), "error", "no_samples");
}

TEST(Signals, FourOfFiveSamplesMustHaveData) {
  SignalRun run;
  run.value = [](const std::string& instance, double at_s) {
    return instance == "llm[1]" && at_s > 36 && at_s < 40 ? Json("gone") : Json(3);
  };
  expect(run.check(), "pass", "within_limit");  // 16 of 20
  run.value = [](const std::string& instance, double at_s) {
    return instance == "llm[1]" && at_s > 36 && at_s < 41 ? Json("gone") : Json(3);
  };
  expect(run.check(), "inconclusive", "signal_gaps");
  run.value = SignalRun{}.value;
  run.sampled = [](double at_s) { return at_s < 36 || at_s > 41; };
  expect(run.check(), "inconclusive", "signal_gaps");
}

TEST(Signals, OneInstanceThatSaysNothingIsNoDataOfTheWhole) {
  const Plan plan = SignalRun{}.run().plan();
  const SignalPlan& queue = *plan.signal("queue");
  SignalPart there{.at = 5, .value = 3.0, .no_data = ""},
      gone{.at = 6, .value = {}, .no_data = "x"};
  EXPECT_EQ(combine_parts(queue, 0, {{"llm[0]", there}, {"llm[1]", there}}).value, 6);
  EXPECT_FALSE(combine_parts(queue, 0, {{"llm[0]", there}, {"llm[1]", gone}}).value.has_value());
  const SignalSample half = combine_parts(queue, 0, {{"llm[0]", there}});
  EXPECT_FALSE(half.value.has_value());
  EXPECT_EQ(half.no_data, "llm[1]: no sample");
}

TEST(Signals, RatesAndIncreasesComeFromTheTimesBetweenReadings) {
  SignalRun run;
  run.counter = true;
  run.signal["as"] = "rate";
  run.sampled = [](double at_s) { return static_cast<int>(at_s) % 2 == 0; };
  run.signal["every_s"] = 2;
  EXPECT_EQ(number_at(run.check()["observed"], "value"), 3) << "3 each in 2 s, twice";
  run.signal["as"] = "increase";
  EXPECT_EQ(number_at(run.check()["observed"], "value"), 6);
  run.counter = false;  // rows that do not say since when
  expect(run.check(), "error", "no_samples");
}

SignalRun increases() {
  SignalRun run;
  run.counter = true;
  run.signal["as"] = "increase";
  run.judged = limit("signal.increase", {{"at_most", 200}});
  return run;
}

// Samples at 36.25, 37.25 ... 55.25; those within the window reach from 36.25 to 55.25.
TEST(Signals, AnIncreaseLiesBetweenWhatItsSamplesProve) {
  SignalRun run = increases();
  Json check = run.check();
  expect(check, "pass", "within_limit");
  EXPECT_EQ(number_at(check["observed"]["interval"], "low"), 19 * 6);
  EXPECT_EQ(number_at(check["observed"]["interval"], "high"), 21 * 6);
  run.judged["at_most"] = 120;
  expect(run.check(), "inconclusive", "interval_straddles_limit");
  run.judged["at_most"] = 100;
  expect(run.check(), "fail", "outside_limit");
}

TEST(Signals, AnIncreaseAfterAResetIsALowerBoundOnly) {
  SignalRun run = increases();
  run.reset_at = 45;
  expect(run.check(), "inconclusive", "signal_reset");
  run.judged["at_most"] = number_at(run.check()["observed"]["interval"], "low");
  expect(run.check(), "inconclusive", "signal_reset");  // by so much, it may be no more
  run.judged["at_most"] = 100;
  expect(run.check(), "fail", "outside_limit");  // so much it was in any case
  run.judged.erase("at_most");
  run.judged["at_least"] = 100;
  expect(run.check(), "pass", "within_limit");
}

TEST(Signals, AnIncreaseThatIsNotCoveredToTheEndIsNeverAPassBelowABound) {
  SignalRun run = increases();
  run.sampled = [](double at_s) { return at_s < 54; };
  expect(run.check(), "inconclusive", "signal_reset");
}

TEST(Signals, ASteppedClockOfTheCollectorIsNotTrusted) {
  SignalRun run;
  run.extra.push_back({{"row", "clock"},
                       {"node", kCollector},
                       {"at", FakeRows::kStart + FakeRows::ns(90)},
                       {"offset_ns", FakeRows::offset(kCollector) + FakeRows::ns(3)},
                       {"uncertainty_ns", 200'000}});
  expect(run.check(), "inconclusive", "measurement_invalid");
}

TEST(Signals, TheReportHasTheirFiguresOfEachPhase) {
  SignalRun run = increases();
  run.value = [](const std::string&, double at_s) { return at_s < 22 ? Json("away") : Json(1); };
  const FakeRun made = run.run();
  const Judgement judged = judge(made.plan(), made.rows());
  int values = 0, grown = 0, missing = 0;
  for (const Json& row : judged.metrics) {
    if (text_at(row, "id") == "signal.value") ++values;
    if (text_at(row, "id") == "signal.increase") ++grown;
    if (text_at(row, "id") == "signal.value" && text_at(row, "missing_reason") == "no_samples")
      ++missing;
  }
  EXPECT_EQ(values, 4);
  EXPECT_EQ(grown, 4);
  EXPECT_EQ(missing, 1);
}

TEST(Signals, ThePictureHasAHoleWhereThereWasNoData) {
  SignalRun run;
  run.value = [](const std::string& instance, double at_s) {
    return instance == "llm[0]" && at_s > 40 && at_s < 42 ? Json("away") : Json(2);
  };
  const FakeRun made = run.run();
  const TimelineSeries series = timeline_series(made.plan(), made.rows());
  ASSERT_EQ(series.signals.size(), 1u);
  EXPECT_EQ(series.signals[0].signal, "queue");
  ASSERT_EQ(series.signals[0].points.size(), 77u);
  for (const auto& point : series.signals[0].points) {
    const bool away = point.at_s > 40 && point.at_s < 42;
    EXPECT_EQ(point.value.has_value(), !away) << point.at_s;
    if (!away) {
      EXPECT_EQ(point.value, 4);
    }
  }
}

// What collects may die; then only what needs it is lost.
TEST(Signals, ALostCollectorIsNoErrorOfOtherChecks) {
  SignalRun run;
  run.judged = fake_suite()["limits"][0];
  run.extra = {{{"row", "exit"},
                {"what", "signals@edge[0]"},
                {"node", kCollector},
                {"at", FakeRows::kStart + FakeRows::ns(40)},
                {"status", "signal 9"},
                {"expected", false}},
               {{"row", "error"},
                {"what", "signals@edge"},
                {"node", kCollector},
                {"code", "peer_lost"},
                {"message", "gone"},
                {"at", FakeRows::kStart + FakeRows::ns(40)}}};
  expect(run.check(), "pass", "within_limit");
  const FakeRun made = run.run();
  EXPECT_EQ(text_at(judge(made.plan(), made.rows()).verdict, "status"), "error")
      << "no check accounts for it";
}

}  // namespace
}  // namespace mixproof
