// Every kind of mistake in a suite: the exact words, with the place. Nothing is started by a suite
// that is refused.
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "suites/plan.h"
#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

struct Mistake {
  std::string message;
  std::function<void(Json&)> make;
};

Json pause(double at_s, double for_s, const char* target = "llm[0]") {
  return {{"fault", "process_pause"}, {"target", target}, {"at_s", at_s}, {"for_s", for_s}};
}

Json kill(double at_s) { return {{"fault", "process_kill"}, {"target", "llm[0]"}, {"at_s", at_s}}; }

Json drop(const char* target, const Json& peers) {
  return {{"fault", "net_drop"}, {"target", target}, {"peers", peers}, {"at_s", 4}, {"for_s", 4}};
}

void set_fault(Json& suite, Json fault) {
  suite["phases"][3]["faults"] = Json::array({std::move(fault)});
}

Json ratio_limit(const char* quantile, double at_most) {
  return {{"id", "slower"},
          {"metric", "inference.ttft_ratio"},
          {"load", "users"},
          {"phase", "contention"},
          {"reference", "baseline"},
          {"quantile", quantile},
          {"method", "interval"},
          {"at_most", at_most},
          {"why", "w"}};
}

Json change_limit(const char* id) {
  return {{"id", id},
          {"metric", "inference.attainment_change"},
          {"load", "users"},
          {"phase", "contention"},
          {"reference", "baseline"},
          {"method", "interval"},
          {"at_least", -0.01},
          {"why", "w"}};
}

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> kMistakes = {
      {"/limit: unknown key; did you mean \"limits\"?",
       [](Json& s) { s["limit"] = Json::array(); }},
      {"/phases/0/measures: unknown key; did you mean \"measure_s\"?",
       [](Json& s) { s["phases"][0]["measures"] = 3; }},
      {"/phases/0: \"measure_s\" is missing", [](Json& s) { s["phases"][0].erase("measure_s"); }},
      {"/schema_version: \"0.9\" is not one of: 0.1", [](Json& s) { s["schema_version"] = "0.9"; }},
      {"/: \"claim\" is missing", [](Json& s) { s.erase("claim"); }},
      {"/name: \"a b\" is not a name (1 to 64 letters, digits, _ and -)",
       [](Json& s) { s["name"] = "a b"; }},
      {"/nodes: is empty", [](Json& s) { s["nodes"] = Json::object(); }},
      {"/nodes/serve: 0 is out of range (1 to 1024)", [](Json& s) { s["nodes"]["serve"] = 0; }},
      {"/nodes/serve: must be a whole number", [](Json& s) { s["nodes"]["serve"] = "2"; }},
      {"/renew_s: must be below lease_s", [](Json& s) { s["lease_s"] = 4; }},
      {"/services/llm/start: there is no kind of service \"lama_cpp\"; did you mean \"llama_cpp\"?",
       [](Json& s) { s["services"]["llm"]["start"] = "lama_cpp"; }},
      {"/services/llm: needs either \"start\" or \"url\"",
       [](Json& s) { s["services"]["llm"]["url"] = "http://x"; }},
      {"/services/llm/on: there is no role \"server\"; did you mean \"serve\"?",
       [](Json& s) { s["services"]["llm"]["on"] = "server"; }},
      {"/services/front/before: there is no service \"lm\"; did you mean \"llm\"?",
       [](Json& s) { s["services"]["front"]["before"] = "lm"; }},
      {"/services/front: haproxy needs \"before\": the service that it stands in front of",
       [](Json& s) { s["services"]["front"].erase("before"); }},
      {"/services: stand in front of each other in a circle",
       [](Json& s) { s["services"]["llm"]["before"] = "front"; }},
      {"/services/other/port: other[0] and llm[0] both listen on port 8080 of serve-0",
       [](Json& s) {
         s["services"]["other"] = {{"start", "llama_cpp"}, {"on", "serve"}};
       }},
      {"/loads/users/probe: there is no load \"inferense\"; did you mean \"inference\"?",
       [](Json& s) { s["loads"]["users"]["probe"] = "inferense"; }},
      {"/loads/users/probe: there is no load \"process_progress\" (known: inference, training)",
       [](Json& s) { s["loads"]["users"]["probe"] = "process_progress"; }},
      {"/loads/users/target: there is no service \"font\"; did you mean \"front\"?",
       [](Json& s) { s["loads"]["users"]["target"] = "font"; }},
      {"/loads/users: \"target\" is missing", [](Json& s) { s["loads"]["users"].erase("target"); }},
      {"/loads/users/params/arrivals/poisson/rate: unknown key; did you mean \"rate_per_s\"?",
       [](Json& s) {
         s["loads"]["users"]["params"]["arrivals"] = {{"poisson", {{"rate", 6}}}};
       }},
      {"/loads/users/on_loss: \"resume\" is for loads with ranks; inference has none",
       [](Json& s) { s["loads"]["users"]["on_loss"] = "resume"; }},
      {"/limits/1/metric: training.checkpoint_time is not measured: load \"trainer\" makes no checkpoints "
       "(checkpoint_every_steps, checkpoint_every_s)",
       [](Json& s) { s["limits"][1]["metric"] = "training.checkpoint_time"; }},
      {"/limits/1/metric: training.steps_lost is not measured: load \"trainer\" does not resume (on_loss)",
       [](Json& s) { s["limits"][1]["metric"] = "training.steps_lost"; }},
      {"/loads/trainer/slo: belongs to load inference",
       [](Json& s) {
         s["loads"]["trainer"]["slo"] = {{"ttft_s", 1}};
       }},
      {"/loads/front: a service has that name too",
       [](Json& s) {
         s["loads"]["front"] = {{"probe", "training"}, {"on", "train"}};
       }},
      {"/loads/spare: no phase runs it",
       [](Json& s) {
         s["loads"]["spare"] = {{"probe", "training"}, {"on", "train"}};
       }},
      {"/phases: is empty", [](Json& s) { s["phases"] = Json::array(); }},
      {"/phases/1/name: a second phase \"baseline\"",
       [](Json& s) { s["phases"][1]["name"] = "baseline"; }},
      {"/phases/0/run: runs no load", [](Json& s) { s["phases"][0]["run"] = Json::array(); }},
      {"/phases/0/run/0: there is no load \"user\"; did you mean \"users\"?",
       [](Json& s) { s["phases"][0]["run"] = {"user"}; }},
      {"/phases/0/run/0: \"users\" is named twice",
       [](Json& s) {
         s["phases"][0]["run"] = {"users", "users"};
       }},
      {"/phases/3/faults/0/fault: there is no fault \"process_paus\"; did you mean \"process_pause\"?",
       [](Json& s) { s["phases"][3]["faults"][0]["fault"] = "process_paus"; }},
      {"/phases/3/faults/0/params/x: unknown key (known: )",
       [](Json& s) {
         s["phases"][3]["faults"][0]["params"] = {{"x", 1}};
       }},
      {"/phases/3/faults/0: ends 22 s after the begin of phase \"stall\", which is 20 s long",
       [](Json& s) { s["phases"][3]["faults"][0] = pause(18, 4); }},
      {"/phases/3/faults/0/target: there is no target \"llm[2]\"; did you mean \"llm[0]\"?",
       [](Json& s) { s["phases"][3]["faults"][0] = pause(3, 4, "llm[2]"); }},
      {"/phases/1/faults/0/target: \"users[0]\" does not run in phase \"alone\"",
       [](Json& s) { s["phases"][1]["faults"] = {pause(3, 4, "users[0]")}; }},
      {"/phases/3/faults/1: overlaps fault stall/0 on the same node: one fault a node at a time",
       [](Json& s) {
         s["phases"][3]["faults"] = {pause(3, 4), pause(6, 4)};
       }},
      {"/limits: no required limit: nothing would be judged",
       [](Json& s) { s["limits"] = Json::array(); }},
      {"/limits: no required limit: nothing would be judged",
       [](Json& s) {
         for (Json& limit : s["limits"]) limit["required"] = false;
       }},
      {"/limits/0: \"why\" is missing", [](Json& s) { s["limits"][0].erase("why"); }},
      {"/limits/1/id: a second limit \"contention/sla\"",
       [](Json& s) { s["limits"][1]["id"] = "sla"; }},
      {"/limits/0/metric: nothing measures \"inference.atainment\"; did you mean \"inference.attainment\"?",
       [](Json& s) { s["limits"][0]["metric"] = "inference.atainment"; }},
      {"/limits/0/load: there is no load \"user\"; did you mean \"users\"?",
       [](Json& s) { s["limits"][0]["load"] = "user"; }},
      {"/limits/0: \"load\" is missing", [](Json& s) { s["limits"][0].erase("load"); }},
      {"/limits/0/metric: load \"trainer\" is \"training\" and does not measure inference.attainment",
       [](Json& s) { s["limits"][0]["load"] = "trainer"; }},
      {"/limits/0/phase: there is no phase \"contetion\"; did you mean \"contention\"?",
       [](Json& s) { s["limits"][0]["phase"] = "contetion"; }},
      {"/limits/0/phase: phase \"alone\" does not run load \"users\"",
       [](Json& s) { s["limits"][0]["phase"] = "alone"; }},
      {"/limits/0: inference.attainment needs an \"slo\" on load \"users\"",
       [](Json& s) { s["loads"]["users"].erase("slo"); }},
      {"/limits/0: method binomial needs a \"confidence\"",
       [](Json& s) { s["limits"][0].erase("confidence"); }},
      {"/limits/0: method binomial needs a \"dependence\"",
       [](Json& s) { s["limits"][0].erase("dependence"); }},
      {"/limits/0/at_least: must lie between 0 and 1, both excluded",
       [](Json& s) { s["limits"][0]["at_least"] = 1; }},
      {"/limits/0/at_most: method binomial takes \"at_least\" only",
       [](Json& s) { s["limits"][0]["at_most"] = 1; }},
      {"/limits/0/method: \"trend\" is not one of: direct, binomial, interval",
       [](Json& s) { s["limits"][0]["method"] = "trend"; }},
      {"/limits/0/method: interval judges ratios to a reference phase, inference.attainment_change "
       "and training.goodput, not inference.attainment",
       [](Json& s) { s["limits"][0]["method"] = "interval"; }},
      {"/limits/1/at_least: a margin of method interval lies above 0 and is 1 at most",
       [](Json& s) {
         s["limits"][1].update({{"method", "interval"}, {"at_least", 1.2}});
       }},
      {"/limits/1/at_most: method interval takes \"at_least\" of training.retained",
       [](Json& s) {
         s["limits"][1].update({{"method", "interval"}, {"at_most", 2}});
       }},
      {"/limits/1/phase: is the first that runs \"trainer\": nothing to compare with",
       [](Json& s) {
         s["limits"][1] = {{"id", "g"},        {"metric", "training.goodput"}, {"load", "trainer"},
                           {"phase", "alone"}, {"method", "interval"},         {"at_least", 0.7},
                           {"why", "w"}};
       }},
      {"/limits/4/quantile: method interval cannot bound a maximum; name a quantile below it",
       [](Json& s) { s["limits"][4] = ratio_limit("max", 1.5); }},
      {"/limits/4/at_most: a margin of method interval is 1 or more",
       [](Json& s) { s["limits"][4] = ratio_limit("p50", 0.9); }},
      {"/limits/1/method: binomial judges inference.attainment only, not training.retained",
       [](Json& s) { s["limits"][1]["method"] = "binomial"; }},
      {"/limits/1/confidence: belongs to methods binomial and interval",
       [](Json& s) { s["limits"][1]["confidence"] = 0.95; }},
      {"/limits/1: training.retained needs a \"reference\" phase",
       [](Json& s) { s["limits"][1].erase("reference"); }},
      {"/limits/1/reference: is the judged phase itself",
       [](Json& s) { s["limits"][1]["reference"] = "contention"; }},
      {"/limits/1/reference: phase \"baseline\" does not run load \"trainer\"",
       [](Json& s) { s["limits"][1]["reference"] = "baseline"; }},
      {"/limits/1: needs \"at_most\" or \"at_least\"",
       [](Json& s) { s["limits"][1].erase("at_least"); }},
      {"/limits/1: nothing is at least 0.7 and at most 0.5",
       [](Json& s) { s["limits"][1]["at_most"] = 0.5; }},
      {"/limits/2/reference: inference.longest_wait takes no reference phase",
       [](Json& s) { s["limits"][2]["reference"] = "baseline"; }},
      {"/limits/2/clean_requests: belongs to inference.time_to_recover and "
       "inference.time_to_normal_latency",
       [](Json& s) { s["limits"][2]["clean_requests"] = 20; }},
      {"/limits/3/quantile: inference.time_to_recover takes no quantile",
       [](Json& s) { s["limits"][3]["quantile"] = "p50"; }},
      {"/limits/3/phase: phase \"contention\" has no fault to recover from",
       [](Json& s) { s["limits"][3]["phase"] = "contention"; }},
      {"/phases/3/faults/0/for_s: process_kill is over at once",
       [](Json& s) {
         set_fault(s, kill(4));
         s["phases"][3]["faults"][0]["for_s"] = 1;
       }},
      {"/phases/3/faults/0/at_s: phase \"stall\" is 20 s long",
       [](Json& s) { set_fault(s, kill(20)); }},
      {"/phases/3/faults/0: \"for_s\" is missing: how long is it to stay in effect?",
       [](Json& s) { s["phases"][3]["faults"][0].erase("for_s"); }},
      {"/phases/3/faults/0: net_drop needs \"peers\": from whom train-0 is to be cut off",
       [](Json& s) { set_fault(s, drop("train-0", Json::array())); }},
      {"/phases/3/faults/0/peers/0: train-0 would be cut off from itself",
       [](Json& s) { set_fault(s, drop("train-0", Json::array({"train"}))); }},
      {"/phases/3/faults/0/target: there is no node or role \"trains\"; did you mean \"train\"?",
       [](Json& s) { set_fault(s, drop("trains", Json::array({"serve-0"}))); }},
      {"/phases/3/faults/0/peers: process_kill has no peers",
       [](Json& s) {
         set_fault(s, kill(4));
         s["phases"][3]["faults"][0]["peers"] = Json::array({"train-0"});
       }},
      {"/limits/2/phase: process_kill in phase \"stall\" is over at once; nothing reverts it",
       [](Json& s) {
         set_fault(s, kill(4));
         s["limits"][2] = {{"id", "undone"},   {"metric", "fault.revert_delay"},
                           {"phase", "stall"}, {"method", "direct"},
                           {"at_most", 5},     {"why", "w"}};
       }},
      {"/limits/3/margin: belongs to inference.time_to_normal_latency",
       [](Json& s) { s["limits"][3]["margin"] = 2; }},
      {"/limits/3/phase: phase \"contention\" has no fault to recover from",
       [](Json& s) {
         s["limits"][3]["metric"] = "inference.time_to_impact";
         s["limits"][3].erase("clean_requests");
         s["limits"][3]["phase"] = "contention";
       }},
      {"/limits/0/dependence: \"days\" is not one of: requests, blocks",
       [](Json& s) { s["limits"][0]["dependence"] = "days"; }},
      {"/limits/0/dependence: blocks are as long as the baseline says, and no phase without a "
       "fault runs \"users\"",
       [](Json& s) {
         s["limits"][0]["dependence"] = "blocks";
         s["limits"][0]["phase"] = "stall";
         s["limits"].erase(4);
         for (const int phase : {0, 2}) s["phases"][phase]["run"] = {"trainer"};
       }},
      {"/limits/0/at_least: a margin of inference.attainment_change lies above -1 and is 0 at most",
       [](Json& s) {
         s["limits"][0] = change_limit("change");
         s["limits"][0]["at_least"] = 0.01;
       }},
      {"/limits/0: inference.attainment_change needs a \"reference\" phase",
       [](Json& s) {
         s["limits"][0] = change_limit("change");
         s["limits"][0].erase("reference");
       }},
      {"/limits/8: phase \"contention\" has 3 required limits of method interval already, and each "
       "takes evidence from the others; give this one \"required\": false",
       [](Json& s) {
         for (const char* id : {"a", "b", "c", "d"}) s["limits"].push_back(change_limit(id));
       }},
      {"/limits/4: inference.ttft needs a \"quantile\"",
       [](Json& s) { s["limits"][4].erase("quantile"); }},
      {"/limits/4/quantile: \"p42\" is not one of: p50, p90, p95, p99, p99.9, max",
       [](Json& s) { s["limits"][4]["quantile"] = "p42"; }},
  };
  return kMistakes;
}

TEST(SuiteMistakes, AreRefusedWithThePlaceAndTheWayOut) {
  for (const Mistake& mistake : mistakes()) {
    Json suite = fake_suite();
    mistake.make(suite);
    const auto plan = make_plan(suite, fake_catalogue(), 1);
    ASSERT_FALSE(plan.ok()) << mistake.message;
    EXPECT_EQ(plan.error().message, mistake.message);
    EXPECT_EQ(plan.error().code, Code::kInvalid);
  }
}

TEST(SuiteMistakes, MetricsThatCannotBeJudgedComeWithThoseThatCan) {
  for (const auto& [metric, words] :
       {std::pair{"inference.event_gap",
                  "is measured but cannot be judged (limits may name: inference.ttft, "},
        {"inference.outcomes", "is reported and takes no limit (limits may name: inference.ttft, "},
        {"weather", "nothing measures \"weather\" (limits may name: inference.ttft, "}}) {
    Json suite = fake_suite();
    suite["limits"][0]["metric"] = metric;
    const auto plan = make_plan(suite, fake_catalogue(), 1);
    ASSERT_FALSE(plan.ok());
    EXPECT_NE(plan.error().message.find(words), std::string::npos) << plan.error().message;
  }
}

TEST(SuiteMistakes, LimitsBeyondThreeInOnePhaseMayBeInformation) {
  Json suite = fake_suite();
  for (const char* id : {"a", "b", "c", "d"}) suite["limits"].push_back(change_limit(id));
  suite["limits"].back()["required"] = false;
  const auto plan = make_plan(suite, fake_catalogue(), 1);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
}

TEST(SuiteMistakes, TheSuiteThatTheyStartFromIsGood) {
  EXPECT_TRUE(make_plan(fake_suite(), fake_catalogue(), 1).ok());
}

TEST(SuiteMistakes, FaultsThatAreRightAreGood) {
  for (const Json& fault : {kill(0), kill(19.5), drop("train-0", Json::array({"train-1"})),
                            drop("edge", Json::array({"serve", "train-1"}))}) {
    Json suite = fake_suite();
    set_fault(suite, fault);
    const auto plan = make_plan(suite, fake_catalogue(), 1);
    EXPECT_TRUE(plan.ok()) << plan.error().message;
  }
}

}  // namespace
}  // namespace mixproof
