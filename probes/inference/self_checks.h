// Self-checks: what must hold between the client's figures and what the null server knows, before
// anybody is measured with it. Each is a pure decision over what a run saw; harness/cli/doctor_load
// makes the runs. Bounds are those of the client on an idle machine of two processors; a machine
// that does not reach them cannot resolve what the client is made to resolve.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "probes/inference/instrument.h"

namespace mixproof::inference {

inline constexpr double kReceiveErrorP50S = 50e-6, kReceiveErrorP99S = 150e-6;
inline constexpr double kSendLatenessP50S = 50e-6, kSendLatenessP99S = 200e-6;
inline constexpr double kReceiveLagP99S =
    1e-3;                                      // the judge's own bound for a measurement (validity)
inline constexpr double kStampedShare = 0.99;  // answers with a kernel stamp
inline constexpr double kKsAlpha = 0.001;
inline constexpr double kSlopeTolerance = 0.005, kOffsetS = 100e-6;
inline constexpr double kAreaTolerance = 0.02, kLittleTolerance = 0.02;
inline constexpr double kRateSigmas = 3;
inline constexpr double kStealShare = 0.05;  // beyond it the hypervisor is measured, not the client

// error: the run that it needs could not be made.
enum class CheckState { kPass, kFail, kInconclusive, kError };
std::string_view check_state_name(CheckState state);  // "pass", ...

struct SelfCheck {
  std::string id, what;         // "d", "send lateness"
  std::string measured, bound;  // for people
  CheckState state = CheckState::kFail;
  std::string reason;  // why it did not pass
  std::map<std::string, double> figures;
};

// A check that could not be made: never a pass.
SelfCheck not_measured(std::string id, std::string what, std::string reason);
SelfCheck failed_to_run(std::string id, std::string what, const Error& error);

// a: every token carries the server's clock; the client's stamp minus it is its receive error.
SelfCheck check_receive_error(const ClientRun& run);
// b: the server's log of arrivals holds every request, its gaps are distributed as those of the
// schedule (two-sample Kolmogorov-Smirnov at alpha 0.001), and it is as dispersed as a Poisson
// process is (variance over mean of counts in windows of 10 ms, two-sided chi-square at 0.001).
SelfCheck check_arrivals(const ClientRun& run, std::span<const std::int64_t> arrivals);
// c: kernel stamps exist, are close to ours, and of the worst read of an answer agree with the
// worst stamp of its tokens (the reads of the head and of the end may be the worst: a share may
// differ).
SelfCheck check_kernel_stamps(const ClientRun& run);
// d: from when a request was due to its first byte.
SelfCheck check_send_lateness(const ClientRun& run);

// e: of one delay of the server: how long it truly was, from when the request was handed to the
// kernel to the token's own stamp, so that the way to the server and its lateness are in it, and
// the time to first token that the client saw, request by request. What differs is the client's
// doing.
struct Rung {
  double asked_s = 0;
  std::vector<double> true_s, seen_s;
};
// `asleep`: the same where idle processors may sleep, told beside it; empty: not measured.
SelfCheck check_delay_ladder(std::span<const Rung> rungs, std::span<const Rung> asleep = {});

// f: the time lost beyond `limit_s` by requests due at `sched` when the server stands still between
// two moments and answers after `ttft_s` otherwise, summed.
double predicted_lost_time_s(std::span<const std::int64_t> sched, std::int64_t stopped_at,
                             std::int64_t went_on_at, double ttft_s, double limit_s);
SelfCheck check_frozen_server(double seen_lost_s, double predicted_lost_s, double frozen_s);

// g and j: the statuses that the judge gave to limits one of which would fail and one would pass if
// the measurement were taken at its word. All must be inconclusive.
SelfCheck check_frozen_client(std::span<const std::string> statuses, const std::string& why,
                              double frozen_s);
SelfCheck check_overload(std::span<const std::string> statuses, const std::string& why,
                         double asked_per_s, double ceiling_per_s);

// h: requests and tokens, counted at both ends.
SelfCheck check_counters(const ClientRun& run, const NullServerProcess::Counts& before,
                         const NullServerProcess::Counts& after);

// i: Little's law. Samples of the server's requests in flight against rate times residence as the
// client saw them, from before the first request until after the last answer.
struct InFlight {
  std::int64_t at = 0, count = 0;
};
SelfCheck check_littles_law(const ClientRun& run, std::span<const InFlight> samples);

// k: what was sent in each 100 ms, against what was planned for it.
SelfCheck check_rate_step(const ClientRun& run);

}  // namespace mixproof::inference
