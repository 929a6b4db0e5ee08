// Recorder: rows into the recording file, in frames of at most one second. A write that fails (a
// full disk) is told once, so that the run ends; the room kept aside for that is given free, so
// that the way out and the report still fit. What was written before stays whole in any case.
#pragma once

#include <functional>
#include <string>

#include "harness/base/world.h"
#include "reports/recording.h"

namespace mixproof {

// In a run's directory while it runs. What a run records after its disk is full, and its report,
// fit in many times over.
inline constexpr const char* kReserveFile = "reserve";
inline constexpr std::size_t kReserveBytes = 1 << 20;

class Recorder {
 public:
  // The directory has its reserve, or has to do without.
  Recorder(World& world, const std::string& directory,
           std::function<void(const Error&)> on_failure);
  ~Recorder();
  void row(const Json& row);
  void flush();
  void close();  // the last rows; the reserve goes

 private:
  Status append(const std::string& frame);

  World& world_;
  std::string path_, reserve_;
  std::function<void(const Error&)> on_failure_;
  RecordingEncoder encoder_;
  TimerId timer_ = 0;
  bool told_ = false, failed_ = false;
};

}  // namespace mixproof
