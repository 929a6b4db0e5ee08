// Two real engines behind a real proxy: tokens can be counted, the proxy neither delays them nor
// hides a stall.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "tests/system/engine_fixture.h"

namespace mixproof::engines {
namespace {

struct Answer {
  bool complete = false;                  // status 200 and [DONE]
  double ttft_s = 0, longest_wait_s = 0;  // longest wait: for the first token or between two
  std::int64_t usage_tokens = -1, cached_tokens = -1;
  std::vector<std::string> tokens;  // content of the events that have some, empty ones included
  std::vector<double> at_s;
};

void take_event(const std::string& line, double now_s, Answer& answer) {
  if (line == "data: [DONE]") answer.complete = true;
  if (!starts_with(line, "data: {")) return;
  const Result<Json> event = parse_json(std::string_view(line).substr(6), "event");
  ASSERT_TRUE(event.ok()) << line;
  if (const Json* usage = member(*event, "usage"); usage != nullptr && usage->is_object()) {
    answer.usage_tokens = integer_at(*usage, "completion_tokens", -1);
    if (const Json* details = member(*usage, "prompt_tokens_details"); details != nullptr)
      answer.cached_tokens = integer_at(*details, "cached_tokens", -1);
  }
  for (const Json& choice : (*event)["choices"]) {
    const Json* content = member(choice["delta"], "content");
    if (content == nullptr || !content->is_string()) continue;
    answer.tokens.push_back(content->get<std::string>());
    answer.at_s.push_back(now_s);
  }
}

// One line an event is enough here: whether the harness's own parser takes every legal stream is
// tested elsewhere.
Answer chat(int port, const std::string& prompt, int max_tokens) {
  const Json body = {{"messages", {{{"role", "user"}, {"content", prompt}}}},
                     {"max_tokens", max_tokens},
                     {"temperature", 0},
                     {"stream", true},
                     {"stream_options", {{"include_usage", true}}}};
  const std::string text = line_of(body);
  const std::string request =
      "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
      "Content-Type: application/json\r\nContent-Length: " +
      std::to_string(text.size()) + "\r\n\r\n" + text;
  Answer answer;
  std::string pending, head;
  const Clock::time_point begin = Clock::now();
  const bool whole = exchange(port, request, [&](const char* bytes, std::size_t count) {
    const double now_s = since(begin);
    if (head.empty()) head.assign(bytes, std::min<std::size_t>(count, 12));
    pending.append(bytes, count);
    for (std::size_t end = pending.find('\n'); end != std::string::npos; end = pending.find('\n')) {
      std::string line = pending.substr(0, end);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      pending.erase(0, end + 1);
      take_event(line, now_s, answer);
    }
  });
  answer.complete = answer.complete && whole && head == "HTTP/1.1 200";
  double before_s = 0;
  for (const double at_s : answer.at_s) {
    answer.longest_wait_s = std::max(answer.longest_wait_s, at_s - before_s);
    before_s = at_s;
  }
  if (!answer.complete) answer.longest_wait_s = std::max(answer.longest_wait_s, since(begin));
  answer.ttft_s = answer.at_s.empty() ? 0 : answer.at_s.front();
  return answer;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.at(values.size() / 2);
}

using LlmEngine = EngineTest;

constexpr const char* kPrintable =
    " 0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

TEST_F(LlmEngine, SendsAsManyTokenEventsAsItsUsageCounts) {
  start_engine(0);
  ASSERT_TRUE(ready_within(ports_[0], "/health", milliseconds(30000)));
  const std::vector<std::string> prompts = {
      "tell me about the water", "<b>[1]</b> {\"a\": 1} <think> </think>",
      "\xc3\xbc\xe2\x82\xac\xf0\x9f\x99\x82 42", "", "a b c d e f g h i j k l m n o p q r s t"};
  for (const std::string& prompt : prompts)
    for (const int wanted : {1, 2, 24, 64}) {
      const Answer answer = chat(ports_[0], prompt, wanted);
      ASSERT_TRUE(answer.complete) << prompt;
      EXPECT_EQ(answer.usage_tokens, wanted) << prompt;
      EXPECT_EQ(static_cast<std::int64_t>(answer.tokens.size()), answer.usage_tokens) << prompt;
      EXPECT_EQ(answer.cached_tokens, 0) << prompt;
      for (const std::string& token : answer.tokens) {
        EXPECT_FALSE(token.empty());
        EXPECT_EQ(token.find_first_not_of(kPrintable), std::string::npos) << token;
      }
    }
  EXPECT_NE(get(ports_[0], "/metrics").find("llamacpp:tokens_predicted_total"), std::string::npos);
}

TEST_F(LlmEngine, LeavesWith6WhenItsPortIsTaken) {
  start_engine(0);
  ASSERT_TRUE(ready_within(ports_[0], "/health", milliseconds(30000)));
  const std::unique_ptr<Child> second = start(command_of("llama_cpp", ports_[0]), "second");
  const std::optional<int> status = second->ended_within(milliseconds(20000));
  ASSERT_TRUE(status && WIFEXITED(*status));
  EXPECT_EQ(WEXITSTATUS(*status), 6);
  EXPECT_TRUE(answers_200(ports_[0], "/health"));
}

TEST_F(LlmEngine, RefusesALibraryOfAnotherDigest) {
  ServiceCommand command = command_of("llama_cpp", ports_[0]);
  const auto flag = std::find(command.argv.begin(), command.argv.end(), "--native-sha256");
  ASSERT_NE(flag, command.argv.end());
  *(flag + 1) = std::string(64, '0');
  const std::optional<int> status = start(command, "other")->ended_within(milliseconds(20000));
  ASSERT_TRUE(status && WIFEXITED(*status));
  EXPECT_EQ(WEXITSTATUS(*status), 4);
}

TEST_F(LlmEngine, EndsOnSigterm) {
  start_engine(0);
  ASSERT_TRUE(ready_within(ports_[0], "/health", milliseconds(30000)));
  kill(engines_[0]->pid(), SIGTERM);
  const std::optional<int> status = engines_[0]->ended_within(milliseconds(3000));
  ASSERT_TRUE(status);
  EXPECT_TRUE(WIFSIGNALED(*status) && WTERMSIG(*status) == SIGTERM);
}

TEST_F(LlmEngine, ProxyIsNotReadyBeforeEveryReplicaIs) {
  start_engine(0);
  ASSERT_TRUE(ready_within(ports_[0], "/health", milliseconds(30000)));
  start_proxy();
  // Long enough for the first checks; a readiness that only says "I listen" would show here.
  EXPECT_FALSE(ready_within(proxy_port_, kHaproxyReadyPath, milliseconds(1500)));
  start_engine(1);
  EXPECT_TRUE(ready_within(proxy_port_, kHaproxyReadyPath, milliseconds(20000)));
}

TEST_F(LlmEngine, ProxyDoesNotDelayTokensAndCountsRequests) {
  start_all();
  for (const int port : ports_) chat(port, "warm up", 8);
  std::vector<double> direct, proxied;
  constexpr int kTokens =
      128;  // a proxy that gathers small pieces lets go at the end of an answer: so a long one
  constexpr int kRequests = 12;  // in turns, so that whatever else the machine does hits both alike
  for (int i = 0; i < kRequests; ++i) {
    const std::string prompt = "tell me about place number " + std::to_string(i);
    const Answer one = chat(ports_.at(static_cast<std::size_t>(i % 2)), prompt, kTokens);
    const Answer other = chat(proxy_port_, prompt, kTokens);
    ASSERT_TRUE(one.complete && other.complete);
    direct.push_back(one.ttft_s);
    proxied.push_back(other.ttft_s);
  }
  RecordProperty("direct_ttft_p50_us", static_cast<int>(median(direct) * 1e6));
  RecordProperty("proxied_ttft_p50_us", static_cast<int>(median(proxied) * 1e6));
  std::printf("TTFT p50: direct %.1f ms, proxied %.1f ms\n", median(direct) * 1e3,
              median(proxied) * 1e3);
  EXPECT_LT(median(proxied) - median(direct), 0.015);

  const std::string statistics = get(proxy_port_, std::string(kHaproxyStatsPath) + ";csv");
  const std::size_t row = statistics.find("replicas,BACKEND,");
  ASSERT_NE(row, std::string::npos) << statistics;
  EXPECT_EQ(split(statistics.substr(row), ',').at(7),
            std::to_string(kRequests));  // stot: one session a request
}

TEST_F(LlmEngine, ProxyDoesNotHideAStall) {
  start_all();
  constexpr int kRequests = 30;
  std::vector<Answer> answers(kRequests);
  {
    std::vector<std::jthread> users;
    for (std::size_t i = 0; i < kRequests; ++i)  // open loop, six a second
      users.emplace_back([&, i] {
        std::this_thread::sleep_for(milliseconds(167 * i));
        answers[i] = chat(proxy_port_, "tell me about place number " + std::to_string(i), 24);
      });
    std::this_thread::sleep_for(milliseconds(1000));
    const Stopped stopped(engines_[0]->pid());
    std::this_thread::sleep_for(milliseconds(2000));
  }
  double longest_s = 0, longest_before_s = 0;
  int waited = 0;
  for (std::size_t i = 0; i < kRequests; ++i) {
    EXPECT_TRUE(answers[i].complete) << i;
    longest_s = std::max(longest_s, answers[i].longest_wait_s);
    if (i < 4) longest_before_s = std::max(longest_before_s, answers[i].longest_wait_s);
    if (answers[i].longest_wait_s > 0.5) ++waited;
  }
  std::printf("longest wait %.2f s (before the stall %.2f s), %d of %d waited over 0.5 s\n",
              longest_s, longest_before_s, waited, kRequests);
  EXPECT_GE(longest_s, 1.5);
  EXPECT_LT(longest_before_s, 1.0);
  EXPECT_GE(waited, 3);
  EXPECT_LE(waited, 12);  // only the stopped one's share
}

}  // namespace
}  // namespace mixproof::engines
