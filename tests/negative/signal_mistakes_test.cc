// Mistakes in the sections signals and aborts of a suite, and in limits on signals: the exact
// words.
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "suites/plan.h"
#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

Json suite_with_signals() {
  Json suite = fake_suite();
  suite["signals"] = {
      {"queue", {{"page", "llm"}, {"series", "depth"}}},
      {"done", {{"page", "http://10.0.0.9:9100"}, {"series", "n_total"}, {"as", "increase"}}},
      {"errors", {{"prometheus", "http://10.0.0.9:9090/"}, {"query", "sum(rate(x[1m]))"}}}};
  suite["aborts"] = Json::array(
      {{{"id", "busy"}, {"signal", "queue"}, {"at_most", 50}, {"for_s", 3}, {"why", "w"}},
       {{"id", "users"}, {"load", "users"}, {"good_share_at_least", 0.5}, {"why", "w"}}});
  suite["limits"].push_back({{"id", "depth"},
                             {"metric", "signal.value"},
                             {"signal", "queue"},
                             {"phase", "stall"},
                             {"quantile", "max"},
                             {"method", "direct"},
                             {"at_most", 20},
                             {"why", "w"}});
  return suite;
}

struct Mistake {
  std::string message;
  std::function<void(Json&)> make;
};

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> kMistakes = {
      {"/signals/queue: needs either \"page\" or \"prometheus\"",
       [](Json& s) { s["signals"]["queue"].erase("page"); }},
      {"/signals/queue: needs either \"page\" or \"prometheus\"",
       [](Json& s) { s["signals"]["queue"]["prometheus"] = "http://x"; }},
      {"/signals/queue/page: there is no service \"lm\"; did you mean \"llm\"?",
       [](Json& s) { s["signals"]["queue"]["page"] = "lm"; }},
      {"/signals/queue/page: \"https://x/metrics\" is not http://host[:port][/path]",
       [](Json& s) { s["signals"]["queue"]["page"] = "https://x/metrics"; }},
      {"/signals/queue: \"series\" is missing",
       [](Json& s) { s["signals"]["queue"].erase("series"); }},
      {"/signals/queue/query: belongs to a \"prometheus\"",
       [](Json& s) { s["signals"]["queue"]["query"] = "up"; }},
      {"/signals/queue/serie: unknown key; did you mean \"series\"?",
       [](Json& s) { s["signals"]["queue"]["serie"] = "up"; }},
      {"/signals/queue/labels/q: must be text",
       [](Json& s) {
         s["signals"]["queue"]["labels"] = {{"q", 1}};
       }},
      {"/signals/queue/on: there is no role \"egde\"; did you mean \"edge\"?",
       [](Json& s) { s["signals"]["queue"]["on"] = "egde"; }},
      {"/signals/queue/path: must begin with / and hold no space",
       [](Json& s) { s["signals"]["queue"]["path"] = "metrics"; }},
      {"/signals/queue/every_s: 0 is out of range (0.1 to 3600)",
       [](Json& s) { s["signals"]["queue"]["every_s"] = 0; }},
      {"/signals/done/combine: what counters have grown by is summed",
       [](Json& s) { s["signals"]["done"]["combine"] = "max"; }},
      {"/signals/errors: \"query\" is missing",
       [](Json& s) { s["signals"]["errors"].erase("query"); }},
      {"/signals/errors/as: a query says itself what it counts: use rate() or increase() in it",
       [](Json& s) { s["signals"]["errors"]["as"] = "rate"; }},
      {"/signals/errors/labels: belongs to a \"page\"",
       [](Json& s) {
         s["signals"]["errors"]["labels"] = {{"a", "b"}};
       }},
      {"/aborts/0: needs either \"signal\" or \"load\"",
       [](Json& s) { s["aborts"][0]["load"] = "users"; }},
      {"/aborts/0/signal: there is no signal \"queues\"; did you mean \"queue\"?",
       [](Json& s) { s["aborts"][0]["signal"] = "queues"; }},
      {"/aborts/0: needs \"at_most\", \"at_least\" or \"no_data_s\"",
       [](Json& s) {
         s["aborts"][0].erase("at_most");
         s["aborts"][0].erase("for_s");
       }},
      {"/aborts/0/for_s: needs \"at_most\" or \"at_least\"",
       [](Json& s) {
         s["aborts"][0].erase("at_most");
         s["aborts"][0]["no_data_s"] = 5;
       }},
      {"/aborts/0: nothing is at least 60 and at most 50",
       [](Json& s) { s["aborts"][0]["at_least"] = 60; }},
      {"/aborts/0/no_data_s: must be at least twice the signal's every_s (1 s)",
       [](Json& s) { s["aborts"][0]["no_data_s"] = 1; }},
      {"/aborts/0/over_s: belongs to a \"load\"", [](Json& s) { s["aborts"][0]["over_s"] = 5; }},
      {"/aborts/0/phases/0: there is no phase \"stal\"; did you mean \"stall\"?",
       [](Json& s) { s["aborts"][0]["phases"] = Json::array({"stal"}); }},
      {"/aborts/1/id: a second abort \"busy\"", [](Json& s) { s["aborts"][1]["id"] = "busy"; }},
      {"/aborts/1: \"good_share_at_least\" is missing",
       [](Json& s) { s["aborts"][1].erase("good_share_at_least"); }},
      {"/aborts/1/load: load \"trainer\" has no \"slo\" that says what is good",
       [](Json& s) { s["aborts"][1]["load"] = "trainer"; }},
      {"/aborts/1/for_s: belongs to a \"signal\"", [](Json& s) { s["aborts"][1]["for_s"] = 5; }},
      {"/aborts/0: the checks of aborts are called abort/..., so no phase may be called abort",
       [](Json& s) {
         s["phases"].push_back({{"name", "abort"}, {"run", {"users"}}, {"measure_s", 5}});
       }},
      {"/limits/5: \"signal\" is missing", [](Json& s) { s["limits"][5].erase("signal"); }},
      {"/limits/5/signal: there is no signal \"queu\"; did you mean \"queue\"?",
       [](Json& s) { s["limits"][5]["signal"] = "queu"; }},
      {"/limits/5/load: signal.value belongs to a signal, not to a load",
       [](Json& s) { s["limits"][5]["load"] = "users"; }},
      {"/limits/5: signal.value needs a \"quantile\"",
       [](Json& s) { s["limits"][5].erase("quantile"); }},
      {"/limits/5/signal: signal \"queue\" is read as it is: signal.increase needs \"as\": "
       "\"increase\" or \"rate\"",
       [](Json& s) {
         s["limits"][5]["metric"] = "signal.increase";
         s["limits"][5].erase("quantile");
       }},
      {"/limits/0/signal: inference.attainment is not taken from a signal",
       [](Json& s) { s["limits"][0]["signal"] = "queue"; }},
      {"/loads/spare/probe: there is no load \"signals\" (known: inference, training)",
       [](Json& s) {
         s["loads"]["spare"] = {{"probe", "signals"}, {"on", "edge"}};
       }},
  };
  return kMistakes;
}

TEST(SignalMistakes, AreRefusedWithThePlaceAndTheWayOut) {
  Catalogue catalogue = fake_catalogue();
  catalogue.probes["signals"] = {.name = "signals", .load = true, .metrics = {}};
  for (const Mistake& mistake : mistakes()) {
    Json suite = suite_with_signals();
    mistake.make(suite);
    const auto plan = make_plan(suite, catalogue, 1);
    ASSERT_FALSE(plan.ok()) << mistake.message;
    EXPECT_EQ(plan.error().message, mistake.message);
    EXPECT_EQ(plan.error().code, Code::kInvalid);
  }
}

TEST(SignalMistakes, TheSuiteThatTheyStartFromIsGoodAndSurvivesTheWayThroughJson) {
  const auto plan = make_plan(suite_with_signals(), fake_catalogue(), 1);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->signal("queue")->on, "edge");
  EXPECT_EQ(plan->signal("queue")->instances, (std::vector<std::string>{"llm[0]", "llm[1]"}));
  EXPECT_EQ(plan->signal("errors")->instances, std::vector<std::string>{"10.0.0.9:9090"});
  EXPECT_EQ(plan->signal("queue")->timeout_s, 1);
  ASSERT_EQ(plan->collectors.size(), 1u);
  EXPECT_EQ(plan->collectors[0].name, "signals@edge");
  EXPECT_EQ(plan->collectors[0].nodes, std::vector<std::string>{"edge-0"});
  const auto again = plan_from_json(plan_to_json(*plan));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(plan_to_json(*again), plan_to_json(*plan));
  EXPECT_EQ(again->collectors.size(), 1u);
  Json cut = plan_to_json(*plan);
  cut["aborts"][0]["signal"] = "gone";
  EXPECT_FALSE(plan_from_json(cut).ok());
}

}  // namespace
}  // namespace mixproof
