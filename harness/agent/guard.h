// Guard: executes one fault, and is the only one that does. It journals the way back before each
// step, holds the fault until it is told to revert (by its agent, or SIGTERM) or its lease ends,
// undoes every step, and proves that nothing is left. The end of its input only means that renewals
// have stopped.
//
//   in:  {"guard": {run, fault, node, state_dir, plan, lease_ms, cgroup}}   first line; cgroup is
//   the guard's own
//        {"do": "renew", "lease_ms": N}   {"do": "revert"}
//   out: {"fault": id, "state": injecting | injected | reverting | clean | dirty | refused,
//   "at_ns", "detail", "counted"}
//        at_ns is CLOCK_MONOTONIC of the node, taken when the state was reached; counted is in
//        "reverting": what the mechanism did, a list of numbers by step.
//
// An event machine over World and the operators; done() once the fault is clean, dirty or was
// refused.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "faults/fault.h"
#include "harness/agent/journal.h"
#include "harness/base/world.h"

namespace mixproof {

// The operator for an operation, by its type. Owned by whoever made the lookup.
using Operators = std::function<HostOperator&(const HostOperation&)>;

// Undoes every step of `begun` (last to first, also when one fails; twice is once), journals it,
// verifies all of them, and journals clean or dirty. Empty on clean, else the reason. `journal` may
// be unwritable: undoing goes on.
std::string undo_steps(Journal& journal, const FaultPlan& plan,
                       const std::vector<std::string>& preimages, std::vector<std::size_t> begun,
                       const Operators& operators);

class Guard {
 public:
  Guard(World& world, Operators operators);
  void start();
  bool done() const { return done_; }
  bool clean() const { return clean_; }

 private:
  void on_line(std::string_view line);
  Status begin(const Json& spec);
  Status be_alone(const std::string& state_dir);
  Status inject();
  void refuse(const Error& error);
  void renew(Time lease);
  void set_deadline();
  void tend();
  void revert(const std::string& why);
  void tell(const std::string& state, const std::string& detail);
  Json counted();

  World& world_;
  Operators operators_;
  std::optional<Journal> journal_;
  FaultPlan plan_;
  std::string fault_;
  std::vector<std::string> preimages_;
  std::vector<std::size_t> begun_;
  Time lease_end_{0};
  TimerId deadline_ = 0, tend_timer_ = 0;
  bool started_ = false, done_ = false, clean_ = false;
};

}  // namespace mixproof
