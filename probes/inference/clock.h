// The clocks of the client: CLOCK_MONOTONIC for every stamp, CLOCK_REALTIME only to convert the
// kernel's.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>

namespace mixproof::inference {

inline constexpr std::int64_t kMicrosecond = 1'000, kMillisecond = 1'000'000,
                              kSecond = 1'000'000'000;

inline std::int64_t clock_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

inline std::int64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }

inline timespec timespec_of(std::int64_t ns) { return {ns / kSecond, ns % kSecond}; }

// CLOCK_REALTIME minus CLOCK_MONOTONIC, sampled once a turn of the event loop. Kernel receive
// stamps are realtime; two neighbouring samples that disagree by more than slewing explains mean
// that the clock was stepped between them, and the stamps of that turn are void.
class ClockOffset {
 public:
  void sample() {
    // The narrowest of a few brackets: a preemption between the readings would look like a step.
    std::int64_t best_width = kSecond, offset = 0, at = 0;
    for (int attempt = 0; attempt < 3 && best_width > kWidth; ++attempt) {
      const std::int64_t before = monotonic_ns();
      const std::int64_t real = clock_ns(CLOCK_REALTIME);
      const std::int64_t after = monotonic_ns();
      if (after - before >= best_width) continue;
      best_width = after - before;
      offset = real - (before + (after - before) / 2);
      at = before;
    }
    take(offset, at, best_width);
  }

  // One sample: `width` is the time that taking it lasted.
  void take(std::int64_t offset, std::int64_t at, std::int64_t width) {
    const std::int64_t slew =
        at_ == 0 ? 0 : (at - at_) / 1000;  // adjtime slews by 0.5 per mille at most
    const std::int64_t change = offset > offset_ ? offset - offset_ : offset_ - offset;
    valid_ = at_ != 0 && width < kSecond && change <= slew + width + width_ + kWidth;
    if (at_ != 0 && !valid_) ++steps_;
    offset_ = offset;
    at_ = at;
    width_ = width;
  }

  std::optional<std::int64_t> to_monotonic(std::int64_t realtime) const {
    if (!valid_) return std::nullopt;
    return realtime - offset_;
  }
  std::int64_t steps() const { return steps_; }

 private:
  static constexpr std::int64_t kWidth = 5 * kMicrosecond;
  std::int64_t offset_ = 0, at_ = 0, width_ = 0, steps_ = 0;
  bool valid_ = false;
};

}  // namespace mixproof::inference
