#include "harness/controller/agent_link.h"

#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/simulation/simulation.h"

namespace mixproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A World whose child is played by the test.
class Stage final : public World {
 public:
  class Actor final : public Child {
   public:
    explicit Actor(Stage& stage) : stage_(stage) {}
    Status send(std::string_view line) override {
      const Json request = *parse_json(line, "controller");
      stage_.asked.push_back(text_at(request, "do"));
      if (stage_.answers)
        stage_.simulation.at(stage_.simulation.now() + milliseconds(1),
                             [this, request] { stage_.answer(request); });
      return ok();
    }
    void close_input() override { stage_.input_closed = true; }
    void kill(int signal) override { stage_.killed_by = signal; }
    ProcessId id() const override { return {}; }

   private:
    Stage& stage_;
  };

  Stage() {
    simulation.add_node("c");
    inner_ = &simulation.start_root("c", "controller");
  }
  Time now(Clock clock) override { return inner_->now(clock); }
  std::string boot_id() override { return inner_->boot_id(); }
  std::uint64_t random() override { return inner_->random(); }
  ProcessId self() override { return inner_->self(); }
  TimerId at(Clock clock, Time when, std::function<void()> task) override {
    return inner_->at(clock, when, std::move(task));
  }
  void cancel(TimerId timer) override { inner_->cancel(timer); }
  Result<std::unique_ptr<Child>> spawn(const ChildSpec& spec, ChildEvents events) override {
    argv = spec.argv;
    if (no_program) return Error{Code::kSystem, "start ssh: No such file or directory"};
    agent = std::move(events);
    return std::unique_ptr<Child>(std::make_unique<Actor>(*this));
  }
  void listen(ParentEvents) override {}
  Status tell_parent(std::string_view) override { return ok(); }
  Status signal(const ProcessId&, int) override { return ok(); }
  Status clear_cgroup(const std::string&) override { return ok(); }
  Files& files() override { return inner_->files(); }
  const HostView& host() override { return inner_->host(); }

  void greet(const std::string& build = "b") {
    agent.on_line(line_of({{"mixproof", "agent"}, {"build", build}}));
  }
  void answer(const Json& request) {
    agent.on_line(
        line_of({{"re", integer_at(request, "id")},
                 {"ok", {{"mono_ns", (now(Clock::kMonotonic) - milliseconds(700)).count()}}}}));
  }
  void pass(Time time) {
    simulation.run_until([] { return false; }, simulation.now() + time);
  }

  Simulation simulation{1};
  ChildEvents agent;
  std::vector<std::string> argv, asked;
  bool no_program = false, answers = true, input_closed = false;
  int killed_by = 0;

 private:
  SimProcess* inner_ = nullptr;
};

struct Linked {
  explicit Linked(const std::string& log = "")
      : link(stage,
             {.name = "n0",
              .role = "",
              .address = "10.0.0.9",
              .prefix = {"ssh", "10.0.0.9"},
              .agent = "mixproof"},
             {.build = "b", .run = "r", .log = log},
             {.on_ready = [this] { ++ready; },
              .on_event = [](const Json&) {},
              .on_lost = [this](const Error& error) { lost.push_back(error); },
              .on_clock = [] {}}) {}
  Stage stage;
  int ready = 0;
  std::vector<Error> lost;
  AgentLink link;
};

TEST(AgentLink, IsReadyWhenGreetedAndItsClockIsKnown) {
  Linked one;
  one.link.connect();
  EXPECT_EQ(one.stage.argv, (std::vector<std::string>{"ssh", "10.0.0.9", "mixproof", "agent"}));
  one.stage.agent.on_line("Last login: yesterday");
  one.stage.greet();
  one.stage.pass(seconds(1));
  EXPECT_EQ(one.ready, 1);
  EXPECT_TRUE(one.link.alive());
  EXPECT_EQ(one.stage.asked[0], "hello");
  EXPECT_NEAR(static_cast<double>(one.link.clock().offset.count()), 0.7e9, 1e6);
  EXPECT_LE(one.link.clock().uncertainty, milliseconds(1));
}

TEST(AgentLink, RefusesAnotherBuildAndLetsItGo) {
  Linked one;
  one.link.connect();
  one.stage.greet("old");
  one.stage.pass(seconds(60));
  ASSERT_EQ(one.lost.size(), 1u);
  EXPECT_EQ(one.lost[0].code, Code::kInvalid);
  EXPECT_NE(one.lost[0].message.find("n0 is of another build (old, ours is b)"), std::string::npos)
      << one.lost[0].message;
  EXPECT_TRUE(one.stage.input_closed);
  EXPECT_TRUE(one.stage.asked.empty()) << "it is not even greeted";
  EXPECT_EQ(one.ready, 0);
}

TEST(AgentLink, QuotesTheBannerWhenNoAgentAnswers) {
  Linked one;
  one.link.connect();
  one.stage.agent.on_line("Permission denied (publickey).");
  one.stage.pass(seconds(19));
  EXPECT_TRUE(one.lost.empty());
  one.stage.pass(seconds(2));
  ASSERT_EQ(one.lost.size(), 1u);
  EXPECT_EQ(one.lost[0].code, Code::kTimeout);
  EXPECT_EQ(one.lost[0].message,
            "no agent answered on n0 (it said: Permission denied (publickey).)");
}

TEST(AgentLink, QuotesTheBannerWhenTheTransportEnds) {
  Linked one;
  one.link.connect();
  one.stage.agent.on_line("ssh: connect to host 10.0.0.9 port 22: No route to host");
  one.stage.agent.on_exit(255 << 8);
  ASSERT_EQ(one.lost.size(), 1u);
  EXPECT_EQ(one.lost[0].code, Code::kPeerLost);
  EXPECT_NE(one.lost[0].message.find("ended with status 255 (it said: ssh: connect"),
            std::string::npos);
  one.stage.pass(seconds(60));
  EXPECT_EQ(one.lost.size(), 1u) << "told once";
}

TEST(AgentLink, QuotesWhatTheTransportWroteToItsLogSinceItWasStarted) {
  Linked one("agent.log");
  Files& files = one.stage.files();
  ASSERT_TRUE(files.append("agent.log", "words of an earlier connection\n").ok());
  one.link.connect();
  ASSERT_TRUE(
      files.append("agent.log", "\nroot@10.0.0.9: Permission denied (publickey).\r\n").ok());
  one.stage.agent.on_exit(255 << 8);
  ASSERT_EQ(one.lost.size(), 1u);
  EXPECT_EQ(one.lost[0].code, Code::kInvalid) << "trying again would not help";
  EXPECT_EQ(one.lost[0].message,
            "the agent on n0 ended with status 255 (it said: root@10.0.0.9: Permission denied "
            "(publickey).)");
}

TEST(AgentLink, AnAgentThatHasAnsweredAndEndsIsLostWhateverItsStatus) {
  Linked one("agent.log");
  one.link.connect();
  one.stage.greet();
  one.stage.pass(seconds(1));
  ASSERT_TRUE(one.stage.files().append("agent.log", "Permission denied\n").ok());
  one.stage.agent.on_exit(255 << 8);
  ASSERT_EQ(one.lost.size(), 1u);
  EXPECT_EQ(one.lost[0].code, Code::kPeerLost);
  EXPECT_NE(one.lost[0].message.find("(it said: Permission denied)"), std::string::npos);
}

TEST(AgentLink, ATransportThatCannotBeStartedIsLostLater) {
  Linked one;
  one.stage.no_program = true;
  one.link.connect();
  EXPECT_TRUE(one.lost.empty()) << "never from within the call";
  one.stage.pass(seconds(1));
  ASSERT_EQ(one.lost.size(), 1u);
  EXPECT_NE(one.lost[0].message.find("No such file"), std::string::npos);
}

TEST(AgentLink, SilenceIsNoticedAndEndsEveryRequest) {
  Linked one;
  one.link.connect();
  one.stage.greet();
  one.stage.pass(seconds(1));
  one.stage.answers = false;
  std::vector<Result<Json>> replies;
  one.link.ask({{"do", "faults"}}, seconds(100),
               [&replies](const Result<Json>& reply) { replies.push_back(reply); });
  one.stage.pass(seconds(8));
  ASSERT_EQ(one.lost.size(), 1u);
  EXPECT_EQ(one.lost[0].code, Code::kTimeout);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].error().code, Code::kPeerLost);
  EXPECT_TRUE(one.stage.input_closed) << "an agent that only seems dead reverts and leaves";
  EXPECT_FALSE(one.link.alive());
}

TEST(AgentLink, ADamagedLineEndsIt) {
  Linked one;
  one.link.connect();
  one.stage.greet();
  one.stage.pass(seconds(1));
  one.stage.agent.on_line("{\"event\":\"ro");
  ASSERT_EQ(one.lost.size(), 1u);
  EXPECT_EQ(one.lost[0].code, Code::kCorrupt);
}

TEST(AgentLink, LeavingIsNotALoss) {
  Linked one;
  one.link.connect();
  one.stage.greet();
  one.stage.pass(seconds(1));
  int left = 0;
  one.link.leave(seconds(5), [&left] { ++left; });
  one.stage.agent.on_exit(0);
  one.stage.pass(seconds(60));
  EXPECT_EQ(left, 1);
  EXPECT_TRUE(one.lost.empty());
  EXPECT_EQ(one.stage.killed_by, 0);
}

TEST(AgentLink, OneThatDoesNotLeaveIsKilled) {
  Linked one;
  one.link.connect();
  one.stage.greet();
  one.stage.pass(seconds(1));
  int left = 0;
  one.link.leave(seconds(5), [&left] { ++left; });
  one.stage.pass(seconds(6));
  EXPECT_EQ(left, 1);
  EXPECT_EQ(one.stage.killed_by, SIGKILL);
  EXPECT_TRUE(one.lost.empty());
}

}  // namespace
}  // namespace mixproof
