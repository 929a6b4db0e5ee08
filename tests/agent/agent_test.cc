#include "harness/agent/agent.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/agent/simulated_node.h"

namespace mixproof {
namespace {

// An agent below a shell below an sshd, as `boss` plays it, asked to plan a pause of processes.
class AgentOnNode : public testing::Test {
 protected:
  void SetUp() override {
    child_ = node_.boss
                 ->spawn({.argv = {"mixproof", "agent"}},
                         {.on_line =
                              [this](std::string_view line) {
                                Json message = *parse_json(line, "agent");
                                if (message.contains("re")) replies_.push_back(std::move(message));
                              },
                          .on_exit = {}})
                 .value();
    ask({{"do", "hello"}, {"run", "r"}, {"node", "n0"}});
  }

  Json ask(Json request) {
    const std::size_t before = replies_.size();
    request["id"] = 1;
    EXPECT_TRUE(child_->send(line_of(request)).ok());
    node_.simulation.run_until([&] { return replies_.size() > before; },
                               node_.simulation.now() + std::chrono::seconds(5));
    if (replies_.size() == before) return Json::object();
    return replies_.back();
  }

  // The error's message; empty when it is planned.
  std::string pause(const std::vector<int>& pids, const std::string& order = "plan_fault") {
    const Json reply = ask({{"do", order},
                            {"fault", "process_pause"},
                            {"fault_id", "p/0"},
                            {"params", Json::object()},
                            {"target", "processes"},
                            {"lease_ms", 15000},
                            {"pids", pids}});
    const Json* error = member(reply, "error");
    if (error == nullptr) return reply.contains("ok") ? "" : "no answer";
    EXPECT_EQ(error_from_json(*error).code, Code::kInvalid);
    return text_at(*error, "message");
  }

  SimulatedNode node_;
  std::unique_ptr<Child> child_;
  std::vector<Json> replies_;
};

TEST_F(AgentOnNode, PlansAPauseOfAnotherProcess) {
  EXPECT_EQ(pause({node_.one->pid()}), "");
  EXPECT_EQ(node_.paused(), 0) << "planning changes nothing";
}

TEST_F(AgentOnNode, ProtectsItselfAndAllThatItLivesThrough) {
  EXPECT_NE(pause({child_->id().pid}), "");
  const std::string refusal = pause({node_.one->pid(), node_.boss->pid()});
  EXPECT_NE(refusal.find("process " + std::to_string(node_.boss->pid()) + " is protected"),
            std::string::npos)
      << refusal;
}

TEST_F(AgentOnNode, LooksAgainBeforeItInjects) {
  EXPECT_NE(pause({node_.boss->pid()}, "inject"), "");
  EXPECT_FALSE(node_.guard_lives());
  EXPECT_EQ(pause({node_.one->pid()}, "inject"), "");
  EXPECT_TRUE(node_.guard_lives());
}

TEST_F(AgentOnNode, StaysForAsLongAsItsControllerIsHeard) {
  EXPECT_EQ(pause({node_.one->pid()}, "inject"), "");
  for (int i = 0; i < 12; ++i) {
    node_.pass(std::chrono::seconds(5));
    EXPECT_TRUE(ask({{"do", "renew"}, {"fault_id", "p/0"}, {"lease_ms", 15000}}).contains("ok"));
  }
  EXPECT_EQ(node_.paused(), 1);
  EXPECT_NE(node_.simulation.find("agent", "n0"), nullptr);
}

TEST_F(AgentOnNode, LeavesAndRevertsWhenItsControllerSaysNothing) {
  EXPECT_EQ(pause({node_.one->pid()}, "inject"), "");
  EXPECT_TRUE(ask({{"do", "renew"}, {"fault_id", "p/0"}, {"lease_ms", 300000}}).contains("ok"));
  node_.pass(std::chrono::seconds(10));
  EXPECT_EQ(node_.paused(), 1) << "its lease is long";
  node_.pass(std::chrono::seconds(30));
  EXPECT_EQ(node_.paused(), 0);
  EXPECT_EQ(node_.simulation.find("agent", "n0"), nullptr);
  EXPECT_FALSE(node_.guard_lives());
}

}  // namespace
}  // namespace mixproof
