// AbortWatch: looks at the rows of a run as they pass and says when a condition of the plan ends
// it. Only says it: what follows is the way out that every end takes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/base/world.h"
#include "suites/signals.h"

namespace mixproof {

class AbortWatch {
 public:
  // `on_abort` gets the row to record, {"row": "abort", ...}; once, and never from within row().
  AbortWatch(World& world, const Plan& plan, std::function<void(const Json& row)> on_abort);
  ~AbortWatch();

  void row(const Json& row);  // everything that is recorded
  void end();                 // the timeline is left: nothing is watched any more

 private:
  struct Watched;

  void begin_phase(const Json& row);
  void signal_row(const Json& row);
  void request_row(const Json& row);
  void arm(Watched& watched);
  void trigger(const AbortPlan& plan, std::int64_t at, const Json& value,
               const std::string& detail);

  World& world_;
  const Plan& plan_;
  std::function<void(const Json& row)> on_abort_;
  ClockMap clocks_;
  std::map<std::string, Json> clock_rows_;  // the newest, by node
  SignalParts parts_;                       // of samples that lack one yet
  std::vector<std::unique_ptr<Watched>> watched_;
  TimerId told_ = 0;
  bool over_ = false;
};

}  // namespace mixproof
