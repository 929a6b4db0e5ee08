// The probe http_ready against a server that lives in the test.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "probes/probe.h"

namespace mixproof {

extern const ProbeSpec http_ready_probe;

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Rows final : RowSink {
  std::vector<Json> seen;
  void row(const Json& row) override { seen.push_back(row); }
};

// A port of 127.0.0.1 that is bound and, from listen() on, answers each connection with the next of
// its answers; the last one is repeated. An empty answer keeps the connection open without a word.
class Server {
 public:
  explicit Server(std::vector<std::string> answers) : answers_(std::move(answers)) {
    socket_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    socklen_t size = sizeof address;
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~Server() {
    if (thread_.joinable()) {
      thread_.request_stop();
      thread_.join();
    }
    for (const int held : held_) close(held);
    close(socket_);
  }

  void listen_after(milliseconds delay) {
    thread_ = std::jthread([this, delay](const std::stop_token& stop) {
      std::this_thread::sleep_for(delay);
      listen(socket_, 16);
      while (!stop.stop_requested()) serve_one();
    });
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/health"; }
  int asked() const { return asked_; }

 private:
  void serve_one() {
    pollfd waiting{socket_, POLLIN, 0};
    if (poll(&waiting, 1, 20) <= 0) return;
    const int connection = accept(socket_, nullptr, nullptr);
    char request[1024];
    const ssize_t got = recv(connection, request, sizeof request, 0);
    EXPECT_GT(got, 0);
    const auto turn = static_cast<std::size_t>(asked_++);
    const std::string answer = answers_.at(std::min(turn, answers_.size() - 1));
    if (answer.empty()) {
      held_.push_back(connection);
      return;
    }
    EXPECT_GT(send(connection, answer.data(), answer.size(), MSG_NOSIGNAL), 0);
    close(connection);
  }

  std::vector<std::string> answers_;
  std::vector<int> held_;
  int socket_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<int> asked_{0};
  std::jthread thread_;
};

constexpr const char* kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
constexpr const char* kUnavailableAnswer =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";

struct Outcome {
  Status prepared = ok(), ran = ok(), checked = ok();
  std::vector<Json> rows;
};

Outcome run_probe(const Json& params, std::stop_token stop = {}) {
  const std::unique_ptr<Probe> probe = http_ready_probe.create();
  Rows rows;
  ProbeContext context{.rows = rows, .stop = std::move(stop), .info = Json::object()};
  Outcome out;
  out.prepared = read_params(params, probe->params(), "/params");
  if (out.prepared.ok()) out.prepared = probe->prepare(context);
  if (!out.prepared.ok()) return out;
  out.ran = probe->run(context);
  out.checked = probe->check(context);
  out.rows = rows.seen;
  return out;
}

TEST(HttpReady, WaitsForAServerThatDoesNotListenYet) {
  Server server({kOk});
  server.listen_after(milliseconds(300));
  const Outcome out = run_probe({{"url", server.url()}, {"interval_s", 0.02}, {"deadline_s", 10}});
  ASSERT_TRUE(out.ran.ok()) << out.ran.error().message;
  EXPECT_TRUE(out.checked.ok());
  ASSERT_EQ(out.rows.size(), 1u);
  EXPECT_EQ(out.rows[0]["row"], "sample");
  EXPECT_EQ(out.rows[0]["metric"], "service.ready_time");
  EXPECT_EQ(out.rows[0]["unit"], "s");
  EXPECT_GE(out.rows[0]["value"].get<double>(), 0.25);
  EXPECT_LT(out.rows[0]["value"].get<double>(), 5);
}

TEST(HttpReady, TakesOnly200ForReady) {
  Server server({kUnavailableAnswer, "HTTP/1.1 204 No Content\r\n\r\n", "garbage\n", kOk});
  server.listen_after(milliseconds(0));
  const Outcome out = run_probe({{"url", server.url()}, {"interval_s", 0.01}, {"deadline_s", 10}});
  ASSERT_TRUE(out.ran.ok()) << out.ran.error().message;
  EXPECT_EQ(server.asked(), 4);
  EXPECT_EQ(out.rows.size(), 1u);
}

TEST(HttpReady, SaysWhatItLastSawWhenTheServerNeverGetsReady) {
  Server busy({kUnavailableAnswer});
  busy.listen_after(milliseconds(0));
  const Outcome refused_later =
      run_probe({{"url", busy.url()}, {"interval_s", 0.02}, {"deadline_s", 0.4}});
  ASSERT_FALSE(refused_later.ran.ok());
  EXPECT_EQ(refused_later.ran.error().code, Code::kTimeout);
  EXPECT_EQ(refused_later.ran.error().message,
            busy.url() + " did not answer 200 within 0.4 s; last seen: status 503");
  EXPECT_FALSE(refused_later.checked.ok());
  EXPECT_TRUE(refused_later.rows.empty());

  const Server absent({kOk});  // bound, never listening
  const Outcome refused =
      run_probe({{"url", absent.url()}, {"interval_s", 0.02}, {"deadline_s", 0.2}});
  ASSERT_FALSE(refused.ran.ok());
  EXPECT_EQ(refused.ran.error().message,
            absent.url() + " did not answer 200 within 0.2 s; last seen: connection refused");

  Server silent({""});
  silent.listen_after(milliseconds(0));
  const Outcome hung =
      run_probe({{"url", silent.url()}, {"interval_s", 0.02}, {"deadline_s", 0.3}});
  ASSERT_FALSE(hung.ran.ok());
  EXPECT_NE(hung.ran.error().message.find("no answer"), std::string::npos)
      << hung.ran.error().message;
}

TEST(HttpReady, EndsSoonAfterAStop) {
  Server silent({""});
  silent.listen_after(milliseconds(0));
  std::stop_source stop;
  Clock::time_point asked;
  const std::jthread stopper([&] {
    std::this_thread::sleep_for(milliseconds(200));
    asked = Clock::now();
    stop.request_stop();
  });
  const Outcome out = run_probe({{"url", silent.url()}, {"deadline_s", 30}}, stop.get_token());
  EXPECT_LT(Clock::now() - asked, milliseconds(10'000));
  EXPECT_TRUE(out.ran.ok());
  EXPECT_FALSE(out.checked.ok());
  EXPECT_TRUE(out.rows.empty());
}

TEST(HttpReady, RefusesUrlsItCannotAsk) {
  for (const char* url : {"https://127.0.0.1/health", "127.0.0.1:80", "http://", "http://:80/",
                          "http://127.0.0.1:x/", "http://127.0.0.1:80/a b", "http://[::1/"}) {
    const Outcome out = run_probe({{"url", url}});
    ASSERT_FALSE(out.prepared.ok()) << url;
    EXPECT_EQ(out.prepared.error().code, Code::kInvalid) << url;
  }
  EXPECT_TRUE(run_probe({{"url", "http://[::1]:1/"}, {"deadline_s", 0.05}}).prepared.ok());
  EXPECT_FALSE(run_probe(Json::object()).prepared.ok());
}

}  // namespace
}  // namespace mixproof
