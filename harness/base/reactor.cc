#include "harness/base/reactor.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <cerrno>
#include <ctime>

#include "harness/base/check.h"

namespace mixproof {
namespace {

std::timespec to_timespec(Time time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((time - seconds).count())};
}

}  // namespace

Time read_clock(clockid_t clock) {
  std::timespec now{};
  CHECK(::clock_gettime(clock, &now) == 0);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

Result<std::unique_ptr<Reactor>> Reactor::create() {
  std::unique_ptr<Reactor> reactor(new Reactor());
  reactor->epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!reactor->epoll_) return system_error("epoll_create1");
  TRY(reactor->add_queue(reactor->monotonic_, CLOCK_MONOTONIC));
  TRY(reactor->add_queue(reactor->boottime_, CLOCK_BOOTTIME));
  return reactor;
}

// What handlers and timers hold (a child that still runs, its pipes) forgets its own descriptors
// here when it goes, so each leaves its table before it ends.
Reactor::~Reactor() {
  for (TimerQueue* queue : {&monotonic_, &boottime_})
    while (!queue->timers.empty()) {
      const auto last = std::move(queue->timers.begin()->second.task);
      queue->timers.erase(queue->timers.begin());
    }
  while (!handlers_.empty()) {
    const auto last = std::move(handlers_.begin()->second);
    handlers_.erase(handlers_.begin());
  }
}

Status Reactor::add_queue(TimerQueue& queue, clockid_t clock) {
  queue.clock = clock;
  queue.fd = UniqueFd(::timerfd_create(clock, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!queue.fd) return system_error("timerfd_create");
  return watch(queue.fd.get(), EPOLLIN, [this, &queue](std::uint32_t) {
    std::uint64_t expirations = 0;
    if (::read(queue.fd.get(), &expirations, sizeof expirations) < 0 && errno != EAGAIN) return;
    run_due(queue);
  });
}

Status Reactor::watch(int fd, std::uint32_t events, std::function<void(std::uint32_t)> handler) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  const int operation = handlers_.count(fd) != 0 ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  if (::epoll_ctl(epoll_.get(), operation, fd, &event) != 0) return system_error("epoll_ctl");
  handlers_[fd] = std::make_shared<std::function<void(std::uint32_t)>>(std::move(handler));
  return ok();
}

void Reactor::forget(int fd) {
  if (handlers_.erase(fd) != 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

TimerId Reactor::at(Clock clock, Time when, std::function<void()> task) {
  CHECK(clock != Clock::kUtc);  // a wall clock may step; nothing waits on it
  TimerQueue& queue = clock == Clock::kBoottime ? boottime_ : monotonic_;
  const TimerId id = next_timer_++;
  queue.timers.emplace(when, Timer{id, std::move(task)});
  if (queue.timers.begin()->second.id == id) arm(queue);
  return id;
}

void Reactor::cancel(TimerId timer) {
  for (TimerQueue* queue : {&monotonic_, &boottime_})
    for (auto it = queue->timers.begin(); it != queue->timers.end(); ++it)
      if (it->second.id == timer) {
        queue->timers.erase(it);
        arm(*queue);
        return;
      }
}

void Reactor::arm(TimerQueue& queue) {
  itimerspec spec{};
  if (!queue.timers.empty()) {
    // A time of zero would disarm; anything in the past fires at once.
    spec.it_value = to_timespec(std::max(queue.timers.begin()->first, Time(1)));
  }
  CHECK(::timerfd_settime(queue.fd.get(), TFD_TIMER_ABSTIME, &spec, nullptr) == 0);
}

void Reactor::run_due(TimerQueue& queue) {
  const Time now = read_clock(queue.clock);
  while (!queue.timers.empty() && queue.timers.begin()->first <= now) {
    Timer timer = std::move(queue.timers.begin()->second);
    queue.timers.erase(queue.timers.begin());
    timer.task();
  }
  arm(queue);
}

void Reactor::turn() {
  epoll_event events[32];
  const int count = ::epoll_wait(epoll_.get(), events, 32, -1);
  for (int i = 0; i < count; ++i) {
    const auto it = handlers_.find(events[i].data.fd);
    if (it == handlers_.end()) continue;  // forgotten by an earlier event of this turn
    const auto handler = it->second;      // outlives its own removal
    (*handler)(events[i].events);
  }
}

}  // namespace mixproof
