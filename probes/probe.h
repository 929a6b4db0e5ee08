// Probe: one measurement, in a worker process of its own. A load is a probe that runs until its
// phases end.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/params.h"

namespace mixproof {

// Takes rows for the recording. Never blocks for longer than a pipe write; may be called from any
// thread. A row is a JSON object with "row" naming its kind; times are CLOCK_MONOTONIC of this node
// in nanoseconds. The kinds and their members are listed in reports/recording.h.
class RowSink {
 public:
  virtual ~RowSink() = default;
  virtual void row(const Json& row) = 0;
};

// The ranks of one load, each in a worker of its own, usually on different nodes.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Every rank gives a blob (any bytes) and gets all of them, by rank. Goes through the controller;
  // `name` must be the same on all ranks and used once. kTimeout names the ranks that are absent.
  virtual Result<std::vector<std::string>> all_gather(const std::string& name,
                                                      const std::string& blob,
                                                      std::chrono::milliseconds deadline) = 0;
};

// A stretch of the run that this load takes part in, on this node's CLOCK_MONOTONIC. Adjacent ones
// touch.
struct PhaseSpan {
  std::string name;
  std::int64_t begin_ns = 0, end_ns = 0;
};

// Everything a probe may touch. Nothing global stands behind it.
struct ProbeContext {
  RowSink& rows;
  Group* group = nullptr;       // null unless the load has ranks
  int worker = 0, workers = 1;  // of those of this load in this run, with or without ranks
  std::stop_token
      stop;  // asks for an early end: leave run() within 1 s, dropping what is in flight
  std::uint64_t seed = 0;     // of this load in this run; the same on all ranks
  std::string name;           // of the load or probe in the suite
  std::string node, address;  // where the worker runs
  std::vector<PhaseSpan>
      phases;  // known from run() on; empty for a probe, and for a load run by hand until stopped
  // A load that goes on after the loss of a rank: 0 the first time; and how many steps the attempts
  // before had done.
  int attempt = 0;
  std::int64_t steps_before = 0;
  Json info;  // what prepare() wants in the report: backend, labels, schedule hash (an object)
};

// What running it takes from others on the node; planned against budgets before anything starts.
struct Cost {
  double gpu_share = 0, network_bytes_per_s = 0, storage_bytes_per_s = 0, requests_per_s = 0;
};

class Probe {
 public:
  virtual ~Probe() = default;
  virtual Params params() = 0;
  // Whether the parameters that were read agree with each other, as far as ranges cannot say. Also
  // asked where a plan is made, on another machine.
  virtual Status check_params() { return ok(); }
  virtual Cost cost() = 0;

  // Allocates, connects, draws the schedule, warms up; not timed. A failure here is an `error` of
  // every check that needed it; only the suite or the inventory can declare something skipped. For
  // a load, `phases` is already filled, relative to 0 = its start, so that everything can be drawn
  // beforehand.
  virtual Status prepare(ProbeContext& context) = 0;

  // Emits rows until done or stopped; returns within a second of the stop. For a load, `phases` is
  // absolute now and starts in the near future; it ends when the last phase is over and what was in
  // flight is finished (or its own deadline passed).
  virtual Status run(ProbeContext& context) = 0;

  // Whether the data was right, not whether it was fast. Pure virtual on purpose.
  virtual Status check(ProbeContext& context) = 0;
};

enum class Better { kLower, kHigher, kNone };

struct MetricSpec {
  std::string_view name, unit;  // "training.step_time", "s": SI base units (s, B, B/s, 1, 1/s, W)
  Better better;
  std::string_view help;
};

struct ProbeSpec {
  std::string_view name;  // the file's name
  std::string_view summary;
  bool load;       // runs until its phases end
  bool generator;  // makes load for others: runs outside the workload cgroups
  bool ranks;      // may run as several ranks; needs a Group
  std::span<const MetricSpec> metrics;
  std::unique_ptr<Probe> (*create)();
};

std::span<const ProbeSpec* const> all_probes();  // written by CMake from the files in probes/

}  // namespace mixproof
