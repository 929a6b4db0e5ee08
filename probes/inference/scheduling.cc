#include "probes/inference/scheduling.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "harness/base/text.h"
#include "probes/inference/clock.h"

namespace mixproof::inference {
namespace {

constexpr int kNice = -15;

}  // namespace

Awake::Awake() : file_(::open("/dev/cpu_dma_latency", O_WRONLY | O_CLOEXEC)) {
  const std::int32_t latency_us = 0;
  if (file_ && ::write(file_.get(), &latency_us, sizeof latency_us) != sizeof latency_us)
    file_.reset();
}

Priority::Priority() : policy_(sched_getscheduler(0)), nice_(getpriority(PRIO_PROCESS, 0)) {
  sched_getparam(0, &parameters_);
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);  // timers on the nanosecond, not within 50 us of it
  sched_param wanted{};
  wanted.sched_priority = sched_get_priority_min(SCHED_FIFO);
  if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &wanted) == 0) {
    description_ = format("SCHED_FIFO %d", wanted.sched_priority);
    return;
  }
  const std::string why = std::strerror(errno);
  if (setpriority(PRIO_PROCESS, 0, kNice) == 0) {  // of this thread, on Linux
    description_ = format("nice %d (SCHED_FIFO: %s)", kNice, why.c_str());
    return;
  }
  description_ = format("default (SCHED_FIFO: %s)", why.c_str());
}

Priority::~Priority() {
  sched_setscheduler(0, policy_, &parameters_);
  setpriority(PRIO_PROCESS, 0, nice_);
  prctl(PR_SET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL);
}

ShareMeter::ShareMeter()
    : wall_ns_(monotonic_ns()), cpu_ns_(clock_ns(CLOCK_THREAD_CPUTIME_ID)), ticks_(host_ticks()) {}

ShareMeter::Sample ShareMeter::sample() {
  const std::int64_t wall = monotonic_ns(), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  const HostTicks ticks = host_ticks();
  Sample sample;
  if (wall > wall_ns_)
    sample.cpu = static_cast<double>(cpu - cpu_ns_) / static_cast<double>(wall - wall_ns_);
  if (ticks.total > ticks_.total)
    sample.steal = (ticks.steal - ticks_.steal) / (ticks.total - ticks_.total);
  wall_ns_ = wall;
  cpu_ns_ = cpu;
  ticks_ = ticks;
  return sample;
}

// proc(5): "cpu user nice system idle iowait irq softirq steal guest guest_nice"; guest is part of
// user.
ShareMeter::HostTicks ShareMeter::host_ticks() {
  HostTicks ticks;
  std::array<char, 512> text{};  // more than the first line
  const int fd = ::open("/proc/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ticks;
  const ssize_t size = ::read(fd, text.data(), text.size() - 1);
  ::close(fd);
  std::array<unsigned long long, 8> columns{};
  if (size <= 0 || std::sscanf(text.data(), "cpu %llu %llu %llu %llu %llu %llu %llu %llu",
                               &columns[0], &columns[1], &columns[2], &columns[3], &columns[4],
                               &columns[5], &columns[6], &columns[7]) != 8)
    return ticks;
  for (const unsigned long long column : columns) ticks.total += static_cast<double>(column);
  ticks.steal = static_cast<double>(columns[7]);
  return ticks;
}

}  // namespace mixproof::inference
