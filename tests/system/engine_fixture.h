// Servers that a test starts as processes of its own, real engines and a real proxy among them:
// they end with their objects, or at the latest with the test.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "harness/base/text.h"
#include "suites/services/haproxy.h"
#include "suites/services/service.h"

namespace mixproof::engines {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using std::chrono::milliseconds;

inline double since(Clock::time_point begin) { return Seconds(Clock::now() - begin).count(); }

inline sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

inline int free_port() {
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
inline bool exchange(int port, const std::string& request,
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

inline std::string get(int port, const std::string& path) {
  std::string answer;
  exchange(port, "GET " + path + " HTTP/1.0\r\nHost: x\r\n\r\n",
           [&](const char* bytes, std::size_t count) { answer.append(bytes, count); });
  return answer;
}

inline bool answers_200(int port, const std::string& path) {
  const std::string answer = get(port, path);
  return answer.size() > 12 && answer.compare(9, 3, "200") == 0;
}

inline bool ready_within(int port, const std::string& path, milliseconds time) {
  for (const Clock::time_point until = Clock::now() + time; Clock::now() < until;) {
    if (answers_200(port, path)) return true;
    std::this_thread::sleep_for(milliseconds(20));
  }
  return false;
}

// A folder of this process, which also caches the weights.
inline std::string folder() {
  const std::string path = testing::TempDir() + "mixproof_llm_engine_" + std::to_string(getpid());
  std::filesystem::create_directories(path);
  return path;
}

inline ServiceCommand command_of(const std::string& kind, int port,
                                 const std::vector<std::string>& backends = {}) {
  const Result<ServiceCommand> command = service_kind(kind)->command({.name = kind,
                                                                      .address = "127.0.0.1",
                                                                      .port = port,
                                                                      .params = Json::object(),
                                                                      .backends = backends});
  EXPECT_TRUE(command.ok()) << command.error().message;
  return *command;
}

inline std::unique_ptr<Child> start(const ServiceCommand& command, const std::string& name) {
  for (const auto& [file, content] : command.files) std::ofstream(folder() + "/" + file) << content;
  std::vector<std::string> argv = command.argv;
  for (std::string& argument : argv)
    if (const std::size_t at = argument.find("{dir}"); at != std::string::npos)
      argument.replace(at, 5, folder());
  return std::make_unique<Child>(argv, folder() + "/" + name + ".log");
}

inline std::string endpoint_of(int port) { return "127.0.0.1:" + std::to_string(port); }

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

class EngineTest : public testing::Test {
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

}  // namespace mixproof::engines
