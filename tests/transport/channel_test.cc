#include "harness/transport/channel.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/simulation/simulation.h"

namespace mixproof {
namespace {

using std::chrono::seconds;

class RecordedChild final : public Child {
 public:
  Status send(std::string_view line) override {
    if (gone) return Error{Code::kPeerLost, "the other side is gone"};
    sent.emplace_back(line);
    return ok();
  }
  void close_input() override {}
  void kill(int) override {}
  ProcessId id() const override { return {}; }

  std::vector<std::string> sent;
  bool gone = false;
};

struct Line {
  Line() {
    simulation.add_node("c");
    world = &simulation.start_root("c", "controller");
    channel = std::make_unique<Channel>(
        *world, "agent x",
        Channel::Events{.on_handshake = [this](const Json& json) { handshakes.push_back(json); },
                        .on_event = [this](const Json& json) { events.push_back(json); },
                        .on_broken = [this](const Error& error) { broken.push_back(error); }});
    channel->attach(&child);
  }
  void greet() { channel->line(R"({"mixproof":"agent","build":"b"})"); }
  void ask(const std::string& what, Time deadline = seconds(5)) {
    channel->ask({{"do", what}}, deadline,
                 [this](const Result<Json>& reply) { replies.push_back(reply); });
  }
  void pass(Time time) {
    simulation.run_until([] { return false; }, simulation.now() + time);
  }

  Simulation simulation{1};
  SimProcess* world = nullptr;
  RecordedChild child;
  std::vector<Json> handshakes, events;
  std::vector<Error> broken;
  std::vector<Result<Json>> replies;
  std::unique_ptr<Channel> channel;
};

TEST(Channel, BannersBeforeTheHandshakeAreKeptForErrors) {
  Line line;
  for (const char* text : {"Welcome", "", "{not json", "{\"a\":1}", "[1]", "last one"})
    line.channel->line(text);
  EXPECT_TRUE(line.handshakes.empty());
  EXPECT_EQ(line.channel->banner(), "{not json | {\"a\":1} | [1] | last one") << "the last lines";
  line.greet();
  ASSERT_EQ(line.handshakes.size(), 1u);
  EXPECT_TRUE(line.channel->greeted());
  EXPECT_TRUE(line.broken.empty());
}

TEST(Channel, ABannerWithoutEndIsBroken) {
  Line line;
  for (int i = 0; i < 300; ++i) line.channel->line("motd " + std::string(100'000, 'x'));
  ASSERT_EQ(line.broken.size(), 1u);
  EXPECT_NE(line.broken[0].message.find("no handshake"), std::string::npos);
  EXPECT_LE(line.channel->banner().size(), 2000u) << "long lines are cut";
  line.greet();
  EXPECT_TRUE(line.handshakes.empty()) << "nothing counts after that";
}

TEST(Channel, RepliesFindTheirRequests) {
  Line line;
  line.greet();
  line.ask("one");
  line.ask("two");
  EXPECT_EQ(line.child.sent,
            (std::vector<std::string>{R"({"do":"one","id":1})", R"({"do":"two","id":2})"}));
  line.channel->line(R"({"re":2,"ok":{"x":5}})");
  line.channel->line(R"({"re":1,"error":{"code":"refused","message":"not now"}})");
  ASSERT_EQ(line.replies.size(), 2u);
  EXPECT_EQ(integer_at(*line.replies[0], "x"), 5);
  EXPECT_EQ(line.replies[1].error().code, Code::kRefused);
  line.channel->line(R"({"event":"row"})");
  EXPECT_EQ(line.events.size(), 1u);
}

TEST(Channel, ALateReplyIsATimeoutOnceAndNothingMore) {
  Line line;
  line.greet();
  line.ask("slow", seconds(2));
  line.pass(seconds(1));
  EXPECT_TRUE(line.replies.empty());
  line.pass(seconds(2));
  ASSERT_EQ(line.replies.size(), 1u);
  EXPECT_EQ(line.replies[0].error().code, Code::kTimeout);
  EXPECT_NE(line.replies[0].error().message.find("agent x did not answer 'slow'"),
            std::string::npos);
  line.channel->line(R"({"re":1,"ok":{}})");
  line.channel->line(R"({"re":77,"ok":{}})");
  line.pass(seconds(10));
  EXPECT_EQ(line.replies.size(), 1u);
  EXPECT_TRUE(line.broken.empty());
  line.ask("next");
  line.channel->line(R"({"re":2,"ok":{}})");
  EXPECT_TRUE(line.replies.at(1).ok()) << "the channel goes on";
}

TEST(Channel, ADamagedLineAfterTheHandshakeBreaksIt) {
  for (const char* damaged :
       {"Connection closed", "", "{\"re\":1,", "{\"re\":1}{\"re\":2}", "\x80\xff"}) {
    Line line;
    line.greet();
    line.ask("one");
    line.channel->line(damaged);
    ASSERT_EQ(line.broken.size(), 1u) << damaged;
    EXPECT_EQ(line.broken[0].code, Code::kCorrupt);
    line.channel->line(R"({"re":1,"ok":{}})");
    EXPECT_TRUE(line.replies.empty()) << "what comes after it is not believed";
    line.channel->line("again");
    EXPECT_EQ(line.broken.size(), 1u);
  }
}

TEST(Channel, ALineThatWasCutIsBrokenAndQuotedInShort) {
  Line line;
  line.greet();
  const std::string whole = line_of({{"event", "row"}, {"text", std::string(5 << 20, 'x')}});
  line.channel->line(whole.substr(0, 4 << 20));
  ASSERT_EQ(line.broken.size(), 1u);
  EXPECT_LE(line.broken[0].message.size(), 200u);
  EXPECT_TRUE(line.events.empty());
}

TEST(Channel, ARequestToNobodyFailsButNotFromWithinTheCall) {
  Line line;
  line.greet();
  line.child.gone = true;
  line.ask("one");
  EXPECT_TRUE(line.replies.empty());
  line.pass(seconds(1));
  ASSERT_EQ(line.replies.size(), 1u);
  EXPECT_EQ(line.replies[0].error().code, Code::kPeerLost);
  line.channel->attach(nullptr);
  line.ask("two");
  line.pass(seconds(20));
  ASSERT_EQ(line.replies.size(), 2u);
  EXPECT_EQ(line.replies[1].error().code, Code::kPeerLost);
}

TEST(Channel, FailAllAnswersEveryOpenRequestOnce) {
  Line line;
  line.greet();
  line.ask("one");
  line.ask("two");
  line.channel->fail_all({Code::kPeerLost, "gone"});
  EXPECT_EQ(line.replies.size(), 2u);
  line.pass(seconds(20));
  EXPECT_EQ(line.replies.size(), 2u);
}

TEST(Channel, AChannelThatIsGoneCallsNobody) {
  Line line;
  line.greet();
  line.ask("one");
  line.channel.reset();
  line.pass(seconds(20));
  EXPECT_TRUE(line.replies.empty());
}

}  // namespace
}  // namespace mixproof
