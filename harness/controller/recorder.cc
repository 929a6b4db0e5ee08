#include "harness/controller/recorder.h"

namespace mixproof {
namespace {

constexpr Time kFrameMax = std::chrono::milliseconds(900);   // a frame may wait for the timer, never for a second

}  // namespace

Recorder::Recorder(World& world, std::string path, std::function<void(const Error&)> on_failure)
    : world_(world), path_(std::move(path)), on_failure_(std::move(on_failure)) {}

Recorder::~Recorder() { world_.cancel(timer_); }

void Recorder::row(const Json& row) {
  if (failed_) return;
  encoder_.add(row);
  if (timer_ == 0)
    timer_ = world_.after(kFrameMax, [this] {
      timer_ = 0;
      flush();
    });
}

void Recorder::flush() {
  world_.cancel(timer_);
  timer_ = 0;
  if (failed_ || encoder_.empty()) return;
  const Status written = world_.files().append(path_, encoder_.take_frame());
  if (written.ok()) return;
  failed_ = true;
  on_failure_(written.error());
}

}  // namespace mixproof
