// Reactor: epoll, timers on two clocks and signals for one thread. What EpollWorld is made of.
#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>

#include "harness/base/unique_fd.h"
#include "harness/base/world.h"

namespace mixproof {

class Reactor {
 public:
  static Result<std::unique_ptr<Reactor>> create();
  ~Reactor();

  // `events` are EPOLLIN and the like. One handler a descriptor; watching again replaces it.
  Status watch(int fd, std::uint32_t events, std::function<void(std::uint32_t)> handler);
  void forget(int fd);

  TimerId at(Clock clock, Time when, std::function<void()> task);
  void cancel(TimerId timer);

  // One turn: waits for something and delivers it.
  void turn();

 private:
  struct Timer {
    TimerId id;
    std::function<void()> task;
  };
  struct TimerQueue {
    clockid_t clock;
    UniqueFd fd;
    std::multimap<Time, Timer> timers;
  };

  Reactor() = default;
  Status add_queue(TimerQueue& queue, clockid_t clock);
  void arm(TimerQueue& queue);
  void run_due(TimerQueue& queue);

  UniqueFd epoll_;
  TimerQueue monotonic_, boottime_;
  std::unordered_map<int, std::shared_ptr<std::function<void(std::uint32_t)>>> handlers_;
  TimerId next_timer_ = 1;
};

Time read_clock(clockid_t clock);

}  // namespace mixproof
