// Evidence: the rows of a recording, sorted by what they tell about, all times on the controller's
// clock. Durations come from one node's clock and are not touched by the mapping.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "suites/plan.h"

namespace mixproof {

// Offsets of node clocks, as measured during the run.
class ClockMap {
 public:
  void add(const std::string& node, std::int64_t at, std::int64_t offset_ns,
           std::int64_t uncertainty_ns);
  void finish();  // sorts; call before mapping

  struct Mapped {
    std::int64_t at, uncertainty_ns;
  };
  // By the newest measurement of that node taken before `node_time`, or its first. No node: already
  // the controller's clock. Nothing when the node was never measured.
  std::optional<Mapped> to_controller(const std::string& node, std::int64_t node_time) const;

  // Why intervals and windows on that node cannot be trusted; empty when they can. Two measurements
  // may differ by their uncertainties and by 500 parts in a million of the time between them (the
  // most that adjtime slews); more is a step. An uncertainty above 100 ms is too much to place a
  // request in a phase.
  std::string trouble(const std::string& node) const;

 private:
  struct Point {
    std::int64_t node_time, at, offset_ns, uncertainty_ns;
  };
  std::map<std::string, std::vector<Point>> points_;
};

// One inference request. Latencies are seconds: +infinity unless the request is OK, nothing where
// not applicable. SHORT is as good as OK where the load says short_is_ok.
struct Request {
  std::int64_t index = 0, stretch = 0;  // counts from 0 in each stretch of its load
  std::string node, outcome;
  std::int64_t sched = 0, uncertainty_ns = 0;  // controller clock
  bool is_ok = false, sent = false;
  double tokens = 0;
  std::int64_t first = 0, last = 0;  // token times, controller clock; 0 without tokens
  std::int64_t end = 0;              // when it was over, controller clock; 0 when not known
  std::optional<double> ttft, service_ttft, tpot, max_gap, longest_wait, e2e, client_delay, lag;
};

struct ClientSample {
  std::string node;
  std::int64_t worker = 0;
  std::int64_t at = 0;  // controller clock
  double cpu = 0, steal = 0;
};

struct TrainingStep {
  std::int64_t rank = 0, step = 0, begin = 0, end = 0;  // controller clock
  double step_s = 0, compute_s = 0, comm_s = 0;
  std::int64_t stretch = 0, attempt = 0;
};

// One rank's part of a checkpoint.
struct CheckpointPart {
  std::int64_t rank = 0, step = 0, stretch = 0, attempt = 0;
  std::int64_t begin = 0;  // controller clock
  double save_s = 0, stall_s = 0,
         bytes = 0;  // until its part is on the storage; until training went on
  bool good = false;
  std::string detail;
  double bandwidth() const { return save_s > 0 ? bytes / save_s : 0; }
};

// A rank that began again.
struct Resumption {
  std::int64_t rank = 0, stretch = 0, attempt = 0, from_step = 0;
};

// The controller's notice that a rank was lost, and the attempt that began then.
struct NewAttempt {
  std::int64_t stretch = 0, attempt = 0, at = 0;
  std::string noticed, why;
};

// What a load found out about the times of its requests in a phase (row `arrivals`).
struct ArrivalTest {
  std::string node, phase, process;
  std::int64_t worker = 0, n = 0;
  bool deterministic = false;
  double moved = 0, gap_distance = 0;
  struct Gaps {
    std::int64_t n = 0;
    std::optional<double> ks, ks_p, dispersion, dispersion_p;
  };
  Gaps scheduled, realised;
};

struct LoadEvidence {
  std::vector<Request> requests;     // by sched, node, index
  std::vector<ClientSample> client;  // by time
  std::vector<TrainingStep> steps;   // by step, rank, begin
  std::vector<CheckpointPart> checkpoints;
  std::vector<Resumption> resumptions;
  std::vector<NewAttempt> attempts;
  std::vector<ArrivalTest> arrival_tests;  // by phase, node and worker
  std::int64_t bad_rows = 0;  // rows that contradict themselves or lack what they must have
  std::string first_bad_row;
  std::string unmapped_node;  // a node without any clock row
  // By stretch and phase: how many requests the load said it would schedule (ready row,
  // info.arrivals.by_phase).
  std::map<std::int64_t, std::map<std::string, std::int64_t>> scheduled;
};

struct PhaseWindow {
  std::int64_t begin = 0, settled = 0, end = 0;
  bool begun = false, complete = false;
  double measure_s() const { return static_cast<double>(end - settled) * 1e-9; }
  bool measures(std::int64_t at) const { return at >= settled && at < end; }
};

struct FaultState {
  std::string node, state, detail;
  std::int64_t at = 0, uncertainty_ns = 0;
  Json evidence = nullptr;
};

// One reading of a signal over all its instances: see suites/signals.h.
struct SignalSample {
  std::int64_t tick = 0, at = 0;  // controller clock; the newest of its parts
  std::int64_t since = 0;         // of counters: where the increase begins; 0: not known
  std::optional<double> value;    // as the signal says: value, rate or increase
  double increase = 0;            // of counters
  std::int64_t resets = 0;
  std::string no_data;  // why there is no value
};

// The controller's notice that an abort ended the run; without a value: for want of data.
struct AbortEvent {
  std::string id, detail;
  std::int64_t at = 0;
  std::optional<double> value;
};

struct RunError {
  std::string what, node, message;
  Code code = Code::kInternal;
  std::int64_t at = 0;  // 0: unknown
};

struct ProcessExit {
  std::string what, node, status;
  std::int64_t at = 0;
  std::int64_t attempt = 0;  // of a load's rank
};

struct Evidence {
  std::int64_t origin =
      0;  // begin of the first phase, or of the recording: zero of the report's timeline
  std::int64_t last_at = 0;  // newest controller time in any row
  bool has_begin = false, has_end = false;
  ClockMap clocks;
  std::map<std::string, LoadEvidence> loads;
  std::map<std::string, PhaseWindow> phases;
  std::map<std::string, std::vector<FaultState>> faults;   // by id, in the order of the recording
  std::vector<ProcessExit> exits;                          // those that were not expected
  std::vector<std::pair<std::string, std::int64_t>> lost;  // node, when
  std::vector<std::string> lost_why;                       // beside `lost`
  std::vector<RunError> errors;
  std::map<std::string, std::vector<SignalSample>> signals;  // by name, by tick
  std::vector<AbortEvent> aborts;
  std::vector<std::string> ready;
  std::vector<std::string> notes;
  std::string stop_why;  // of the stop row
  std::int64_t stop_at = 0;

  double seconds(std::int64_t at) const { return static_cast<double>(at - origin) * 1e-9; }
};

Evidence read_evidence(const Plan& plan, std::span<const Json> rows);

bool is_outcome(const std::string& name);  // one of the classes that reports/recording.h lists
std::span<const char* const> outcomes();

}  // namespace mixproof
