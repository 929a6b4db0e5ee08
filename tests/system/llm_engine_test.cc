// Two real engines behind a real proxy: tokens can be counted, the proxy neither delays them nor
// hides a stall.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "harness/base/text.h"
#include "suites/services/haproxy.h"
#include "suites/services/service.h"

namespace mixproof {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using std::chrono::milliseconds;

double since(Clock::time_point begin) { return Seconds(Clock::now() - begin).count(); }

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

int free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(probe, reinterpret_cast<sockaddr*>(&address), size), 0);
  getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size);
  close(probe);
  return ntohs(address.sin_port);
}

// A child that ends with this object or, at the latest, with this process. A stopped one is ended
// too.
class Child {
 public:
  Child(const std::vector<std::string>& argv, const std::string& log) {
    std::vector<char*> arguments;
    for (const std::string& argument : argv)
      arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    const int output = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(output, STDOUT_FILENO);
      dup2(output, STDERR_FILENO);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
    close(output);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (status_) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  // Its wait status when it ends within the time.
  std::optional<int> ended_within(milliseconds time) {
    const Clock::time_point until = Clock::now() + time;
    int status = 0;
    while (!status_ && Clock::now() < until) {
      if (waitpid(pid_, &status, WNOHANG) == pid_)
        status_ = status;
      else
        std::this_thread::sleep_for(milliseconds(5));
    }
    return status_;
  }

 private:
  pid_t pid_ = -1;
  std::optional<int> status_;
};

// Sends one request and hands on what comes back, with a deadline of 20 s. False when the deadline
// passed.
bool exchange(int port, const std::string& request,
              const std::function<void(const char*, std::size_t)>& take) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval deadline{20, 0};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof deadline);
  const sockaddr_in address = loopback(port);
  bool whole =
      connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      send(connection, request.data(), request.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(request.size());
  char buffer[8192];
  while (whole) {
    const ssize_t count = recv(connection, buffer, sizeof buffer, 0);
    if (count == 0) break;
    whole = count > 0;
    if (whole) take(buffer, static_cast<std::size_t>(count));
  }
  close(connection);
  return whole;
}

std::string get(int port, const std::string& path) {
  std::string answer;
  exchange(port, "GET " + path + " HTTP/1.0\r\nHost: x\r\n\r\n",
           [&](const char* bytes, std::size_t count) { answer.append(bytes, count); });
  return answer;
}

bool answers_200(int port, const std::string& path) {
  const std::string answer = get(port, path);
  return answer.size() > 12 && answer.compare(9, 3, "200") == 0;
}

bool ready_within(int port, const std::string& path, milliseconds time) {
  for (const Clock::time_point until = Clock::now() + time; Clock::now() < until;) {
    if (answers_200(port, path)) return true;
    std::this_thread::sleep_for(milliseconds(20));
  }
  return false;
}

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

// A folder of this process, which also caches the weights.
std::string folder() {
  const std::string path = testing::TempDir() + "mixproof_llm_engine_" + std::to_string(getpid());
  std::filesystem::create_directories(path);
  return path;
}

ServiceCommand command_of(const std::string& kind, int port,
                          const std::vector<std::string>& backends = {}) {
  const Result<ServiceCommand> command = service_kind(kind)->command({.name = kind,
                                                                      .address = "127.0.0.1",
                                                                      .port = port,
                                                                      .params = Json::object(),
                                                                      .backends = backends});
  EXPECT_TRUE(command.ok()) << command.error().message;
  return *command;
}

std::unique_ptr<Child> start(const ServiceCommand& command, const std::string& name) {
  for (const auto& [file, content] : command.files) std::ofstream(folder() + "/" + file) << content;
  std::vector<std::string> argv = command.argv;
  for (std::string& argument : argv)
    if (const std::size_t at = argument.find("{dir}"); at != std::string::npos)
      argument.replace(at, 5, folder());
  return std::make_unique<Child>(argv, folder() + "/" + name + ".log");
}

std::string endpoint_of(int port) { return "127.0.0.1:" + std::to_string(port); }

class LlmEngine : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* kind : {"llama_cpp", "haproxy"})
      if (const Status status = service_kind(kind)->available(); !status.ok()) {
        GTEST_SKIP() << status.error().message;
      }
    setenv("MIXPROOF_CACHE", folder().c_str(), 1);
  }
  void TearDown() override {
    proxy_.reset();
    for (auto& engine : engines_) engine.reset();
    unsetenv("MIXPROOF_CACHE");
    std::filesystem::remove_all(folder());
  }

  void start_engine(std::size_t index) {
    engines_.at(index) =
        start(command_of("llama_cpp", ports_.at(index)), "engine" + std::to_string(index));
  }
  void start_proxy() {
    const ServiceCommand command =
        command_of("haproxy", proxy_port_, {endpoint_of(ports_[0]), endpoint_of(ports_[1])});
    proxy_ = start(command, "proxy");
  }
  // Both engines at once (so that both write the weights), then the proxy.
  void start_all() {
    start_engine(0);
    start_engine(1);
    for (const int port : ports_) ASSERT_TRUE(ready_within(port, "/health", milliseconds(30000)));
    start_proxy();
    ASSERT_TRUE(ready_within(proxy_port_, kHaproxyReadyPath, milliseconds(10000)));
  }

  std::array<int, 2> ports_{free_port(), free_port()};
  int proxy_port_ = free_port();
  std::array<std::unique_ptr<Child>, 2> engines_;
  std::unique_ptr<Child> proxy_;
};

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

// SIGSTOP, taken back whatever happens.
class Stopped {
 public:
  explicit Stopped(pid_t pid) : pid_(pid) { kill(pid_, SIGSTOP); }
  ~Stopped() { kill(pid_, SIGCONT); }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;

 private:
  pid_t pid_;
};

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
}  // namespace mixproof
