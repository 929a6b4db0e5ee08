#include "harness/controller/recorder.h"

namespace mixproof {
namespace {

constexpr Time kFrameMax =
    std::chrono::milliseconds(900);  // a frame may wait for the timer, never for a second

}  // namespace

Recorder::Recorder(World& world, const std::string& directory,
                   std::function<void(const Error&)> on_failure)
    : world_(world),
      path_(directory + "/" + kRecordingFile),
      reserve_(directory + "/" + kReserveFile),
      on_failure_(std::move(on_failure)) {}

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
  failed_ = !append(encoder_.take_frame()).ok();
}

Status Recorder::append(const std::string& frame) {
  const Status written = world_.files().append(path_, frame);
  if (written.ok() || told_) return written;
  told_ = true;
  on_failure_(written.error());
  TRY(world_.files().remove(reserve_));
  return world_.files().append(path_, frame);
}

void Recorder::close() {
  flush();
  static_cast<void>(world_.files().remove(reserve_));  // left behind, it only takes room
}

}  // namespace mixproof
