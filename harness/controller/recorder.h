// Recorder: rows into the recording file, in frames of at most one second. A write that fails is told once; what was
// written before stays whole.
#pragma once

#include <functional>
#include <string>

#include "harness/base/world.h"
#include "reports/recording.h"

namespace mixproof {

class Recorder {
 public:
  Recorder(World& world, std::string path, std::function<void(const Error&)> on_failure);
  ~Recorder();
  void row(const Json& row);
  void flush();
  bool failed() const { return failed_; }

 private:
  World& world_;
  std::string path_;
  std::function<void(const Error&)> on_failure_;
  RecordingEncoder encoder_;
  TimerId timer_ = 0;
  bool failed_ = false;
};

}  // namespace mixproof
