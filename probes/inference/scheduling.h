// How the client's thread is scheduled, and what share of the processor it and its host get.
#pragma once

#include <sched.h>

#include <cstdint>
#include <string>

#include "harness/base/unique_fd.h"

namespace mixproof::inference {

// Puts the calling thread ahead of busy loops for as long as it lives: SCHED_FIFO, else a better
// nice value, else nothing. A late client is an invalid measurement, so it must not queue behind
// what it measures.
class Priority {
 public:
  Priority();
  ~Priority();
  Priority(const Priority&) = delete;
  Priority& operator=(const Priority&) = delete;
  const std::string& description() const { return description_; }  // what it got

 private:
  int policy_ = 0, nice_ = 0;
  sched_param parameters_{};
  std::string description_;
};

// Keeps every processor of the machine from sleeping for as long as it lives (a wake-up latency of
// 0 asked of /dev/cpu_dma_latency, which the kernel forgets when the file is closed; for root). An
// idle virtual processor takes a tenth of a millisecond to wake. For machines of their own: what is
// measured on the same machine wakes faster as well.
class Awake {
 public:
  Awake();
  bool held() const { return static_cast<bool>(file_); }

 private:
  UniqueFd file_;
};

// Shares since the last sample.
class ShareMeter {
 public:
  struct Sample {
    double cpu = 0;    // of one core, by the calling thread
    double steal = 0;  // of all processor time of this machine, taken by its hypervisor
  };
  ShareMeter();
  Sample sample();

 private:
  struct HostTicks {
    double total = 0, steal = 0;
  };
  static HostTicks host_ticks();
  std::int64_t wall_ns_ = 0, cpu_ns_ = 0;
  HostTicks ticks_;
};

}  // namespace mixproof::inference
