// DueTimes: checkpoints by the clock, at origin + k every for k = 1, 2, ...
#pragma once

#include <cmath>
#include <cstdint>

namespace mixproof {

class DueTimes {
 public:
  DueTimes() = default;  // never due
  DueTimes(std::int64_t origin_ns, double every_s, std::int64_t now_ns)
      : origin_ns_(origin_ns), every_ns_(std::llround(every_s * 1e9)) {
    next_ns_ = origin_ns_ + every_ns_;
    skip(now_ns);
  }

  // Whether one is due; the next one is then after `at_ns`, however many were missed.
  bool take(std::int64_t at_ns) {
    if (every_ns_ <= 0 || at_ns < next_ns_) return false;
    next_ns_ += ((at_ns - next_ns_) / every_ns_ + 1) * every_ns_;
    return true;
  }
  void skip(std::int64_t until_ns) { static_cast<void>(take(until_ns)); }

 private:
  std::int64_t origin_ns_ = 0, every_ns_ = 0, next_ns_ = 0;
};

}  // namespace mixproof
