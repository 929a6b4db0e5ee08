// Recording: what a run saw, as rows. The judge's only input beside the plan.
//
// File: JSON lines in zstd frames of at most one second each; a torn last frame is dropped, whole
// ones are kept. Every row is an object with "row" naming its kind. The controller adds "node" and
// "load" (or "service", "fault") to rows from workers. Times are integers: nanoseconds of
// CLOCK_MONOTONIC of the row's node; rows without "node" are on the controller's clock. controller
// time = node time + offset_ns of the newest clock row of that node taken before that time, or of
// its first one. So the order of rows within a file does not matter to the judge, except that the
// states of one fault are written in the order in which they came.
//
//   begin     at, utc_ns, run, seed                       first row
//   clock     node, at (controller), offset_ns, uncertainty_ns (half the round trip)
//   ready     what ("llm[0]", "users"), node, stretch, attempt, info{}    a service answers or a
//   load is prepared; info as
//             it gave it. An inference load says in info.arrivals.by_phase how many requests each
//             phase has: all must have rows
//   phase     name, begin, settled, end                   controller clock; written when the phase
//   begins phase_end name, at, complete (false when cut short) request   i, sched, send, sent,
//   head, first, last, end, tokens, events, max_gap, max_gap_end, outcome, detail, lag,
//             reconnects, estimated                       one inference request, of every one that
//             was scheduled, also those never sent; times 0 when not reached; max_gap and lag
//             (kernel to user, the worst of the answer; -1 when unknown) are ns; i counts from 0 in
//             the order of sched in each stretch (consecutive phases; "stretch", 0 when absent);
//             reads: those that brought token events (fewer than events: several came together);
//             status of HTTP when not 200, retry_after when the server asked for it; worker and
//             target (which URL) where there are several; outcome is one of OK SHORT EMPTY
//             HTTP_ERROR CONNECT_ERROR TIMEOUT_FIRST TIMEOUT_IDLE TIMEOUT_TOTAL STREAM_ERROR
//             TRUNCATED MALFORMED CLIENT_DROPPED
//   client    at, cpu (share of one core), steal (share), dropped, worker where there are several
//   once a second, by each worker of an inference load
//   arrivals  phase, process, deterministic, every, n, unsent, moved, gap_distance, tolerance_s,
//             scheduled{}, realised{} (each n, ks, ks_p, dispersion, dispersion_p, cells; null where
//             n is too small)     whether the requests of a phase were due, and were sent, as
//             declared, one a phase and worker: Kolmogorov-Smirnov distance of the gaps, rate taken
//             out, and index of dispersion of the counts, both with their p; ks_p of the realised
//             gaps allows for tolerance_s of lateness; not for deterministic arrivals (a constant
//             process, a trace). every: of the arrivals only each so many-th is this worker's;
//             worker where there are several; written when the load ends, of no phase cut short.
//             moved: share of the gaps that differ from the scheduled ones by more than 1 ms and a
//             tenth of the mean gap; gap_distance: KS distance between both; unsent: requests
//   step      rank, step, begin, end, compute, comm (ns), data (ns; when it reads)
//   one a training step and rank; node
//             times of that rank. Rows of a load that has resumed carry "attempt", 0 when absent; a
//             later attempt does the steps after its checkpoint again
//   checkpoint  rank, attempt, step, begin, end, done, bytes, ok, detail     a rank's part of one
//   checkpoint, of the state
//             before `step`; node times: begin of its save, its part durable, whether it is
//             complete known to it (training stands still from begin to done). Not ok: dropped by
//             all ranks; detail says why
//   resume    rank, attempt, from_attempt (-1: from the start), from_step, lost_steps (done before,
//   to be done again), begin,
//             end, torn[]     a rank has read its part of a checkpoint; torn: those that could not
//             be used, and why
//   progress  of ("llm[0]"), begin, end, threads, stopped, switches, switches_per_s, role
//   (before|during|after), control
//             (positive|negative), fault                  a sample of the process_progress probe
//   space     path, begin, end, free_space, free_space_most (bytes, least and most of the window),
//             writes, refused_share, moment, control, fault   a sample of the free_space probe
//   reachability  of (a node), begin, end, sent, answered, reachable (share), rtt_p50_s when there
//             was an answer, addresses[{address, sent, answered}], moment, control, fault
//             echoes to a node, over the best of its addresses
//   sample    metric, value, unit, labels{}               any other probe's number
//   signal    signal, instance, tick, at, took (ns, of the answer), value or no_data
//             (why there is none): one instance of a signal at one sample; ticks count from 0, and
//             each has a row of every instance. Of counters value is the increase since the sample
//             at `since`, and resets says how many had begun anew
//   abort     abort (id), at, value (null: for want of data), detail     a condition that ended the
//   run; a stop row follows
//   fault     fault (id), state, node, at, detail, evidence{}   planned armed injected effective
//   not_effective
//             reverting guard_lost clean dirty, or refused not_injected (nothing was touched); at =
//             controller clock, uncertainty_ns. injected: the guard says that the last step is
//             applied; effective: the controls proved it; reverting: the guard begins to undo;
//             clean: proved; the newest state counts. A clean row may carry evidence.undone_at
//             (controller clock), when the last undo step was done; else the judge takes the time
//             of the revert to lie anywhere between the reverting and the clean row
//   attempt   what (a load), stretch, attempt, at (controller), noticed ("trainer[1]"), why    a
//   rank of a load with on_loss
//             "resume" is lost: its ranks are stopped and begin again as this attempt (1 is the
//             first one after a loss); at: the first sign of the loss, the end of a rank or the
//             failure of another one
//   exit      what, node, at, status (words), expected, attempt    a process of the run ended; at
//   on the controller's clock lost      node, at, why                               an agent or
//   node that is gone error     what, node, code, message, at               something failed that a
//   check may have needed: what is a load, a
//             service instance or a fault id of the plan; at may be missing: then it touches every
//             phase
//   note      message                                     for people
//   stop      at, why (end | signal 2 | abort ID: ... | error: ...)   it leaves its timeline
//   end       at                                          last row of a complete recording
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/json.h"

namespace mixproof {

// The files of a run's directory.
inline constexpr const char* kRecordingFile = "recording.jsonl.zst";
inline constexpr const char* kRunFile = "run.json";  // see reports/report.h
inline constexpr const char* kReportFile = "report.json";

// Compresses rows into the bytes of whole frames. The caller appends them to a file (it owns time
// and files).
class RecordingEncoder {
 public:
  void add(const Json& row);
  bool empty() const { return pending_.empty(); }
  // One zstd frame with everything added since the last one; empty when nothing was.
  std::string take_frame();

 private:
  std::string pending_;
};

struct RecordingRows {
  std::vector<Json> rows;
  bool torn = false;   // the file ended inside a frame or a line
  std::string sha256;  // of the bytes of the file as read
  std::int64_t bytes = 0;
};

// kSystem when it cannot be read, kCorrupt when something before the tail is damaged (names the
// frame). The tail is torn, not damaged, when its last frame is cut short or was never written
// (zeros), and no whole frame follows.
Result<RecordingRows> read_recording(const std::string& path);
Result<RecordingRows> decode_recording(std::string_view bytes);

}  // namespace mixproof
