// A process of the test's own that faults are tried on: some threads that work, and one that keeps
// making short-lived ones. It dies with the test.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <thread>
#include <vector>

#include "harness/base/epoll_world.h"

namespace mixproof {

// Looks every millisecond until it is so; false when the deadline came first.
inline bool eventually(const std::function<bool()>& so, std::chrono::milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!so()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// A forked process that runs a function; killed and collected with this object.
class Forked {
 public:
  explicit Forked(const std::function<void()>& body) {
    const int parent = ::getpid();
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() == parent) body();
    ::_exit(0);
  }
  ~Forked() { end(); }
  Forked(const Forked&) = delete;
  Forked& operator=(const Forked&) = delete;

  int pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  int pid_ = 0;
};

class Victim {
 public:
  struct Shared {
    std::atomic<long> turns{0}, signals{0}, threads_made{0};
  };

  explicit Victim(int workers = 6)
      : shared_(new (::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared),
        process_([this, workers] { live(workers); }),
        host_(make_real_host_view()) {
    EXPECT_TRUE(eventually([this] { return shared_->turns > 10 && shared_->threads_made > 10; },
                           std::chrono::seconds(10)));
    id_ = host_->identify(process_.pid()).value();
  }
  ~Victim() {
    process_.end();
    ::munmap(shared_, sizeof(Shared));
  }

  const ProcessId& id() const { return id_; }
  Forked& process() { return process_; }
  long turns() const { return shared_->turns; }
  long signals() const { return shared_->signals; }
  const HostView& host() const { return *host_; }

  std::vector<ThreadState> threads() const {
    const auto threads = host_->threads(id_);
    return threads.ok() ? *threads : std::vector<ThreadState>();
  }
  bool all_in(char state) const {
    const std::vector<ThreadState> all = threads();
    for (const ThreadState& thread : all)
      if (thread.state != state) return false;
    return !all.empty();
  }
  bool none_in(char state) const {
    for (const ThreadState& thread : threads())
      if (thread.state == state) return false;
    return true;
  }
  std::uint64_t switches() const {
    std::uint64_t sum = 0;
    for (const ThreadState& thread : threads()) sum += thread.switches;
    return sum;
  }
  bool moves() const {
    const long before = turns();
    return eventually([&] { return turns() > before + 3; }, std::chrono::seconds(5));
  }

 private:
  static inline Shared* in_child_ = nullptr;  // for the signal handler

  void live(int workers) {
    in_child_ = shared_;
    std::signal(SIGUSR1, [](int) { ++in_child_->signals; });
    std::vector<std::jthread> threads;
    for (int i = 0; i < workers; ++i)
      threads.emplace_back([this] {
        while (true) {
          ++shared_->turns;
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
      });
    while (true) {
      std::jthread brief([this] { ++shared_->threads_made; });
      brief.join();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  Shared* shared_;
  Forked process_;
  std::unique_ptr<HostView> host_;
  ProcessId id_;
};

}  // namespace mixproof
