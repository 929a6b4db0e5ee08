#include "probes/inference/self_checks.h"

#include <algorithm>
#include <boost/math/distributions/chi_squared.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "harness/base/goodness_of_fit.h"
#include "harness/base/statistics.h"
#include "harness/base/text.h"
#include "probes/inference/clock.h"

namespace mixproof::inference {
namespace {

constexpr double kNoQuantile = std::numeric_limits<double>::quiet_NaN();  // of no samples
constexpr std::int64_t kDispersionWindow = 10 * kMillisecond;
constexpr std::int64_t kRateWindow = 100 * kMillisecond;
// Of kernel stamps beside the tokens' own: conversion from the realtime clock, the way through the
// loopback, and a server that was interrupted between its stamp and its write.
constexpr std::int64_t kStampSlack = 100 * kMicrosecond;
constexpr double kInconsistentShare = 0.02;

double seconds(std::int64_t ns) { return 1e-9 * static_cast<double>(ns); }

double quantile(const std::vector<double>& sorted, double p) {
  return nearest_rank(sorted, p).value_or(kNoQuantile);
}

std::vector<double> sorted_seconds(std::span<const std::int64_t> ns) {
  std::vector<double> out(ns.size());
  std::transform(ns.begin(), ns.end(), out.begin(), seconds);
  std::sort(out.begin(), out.end());
  return out;
}

std::string micros(double s) { return format("%.0f us", s * 1e6); }

// Starts as a failure; the first thing found wrong is its reason.
class Decision {
 public:
  Decision(std::string id, std::string what) {
    check_.id = std::move(id);
    check_.what = std::move(what);
    check_.state = CheckState::kPass;
  }
  SelfCheck& check() { return check_; }
  void require(bool holds, const std::string& otherwise) {
    if (holds || check_.state == CheckState::kFail) return;
    check_.state = CheckState::kFail;
    check_.reason = otherwise;
  }
  void at_most(const char* name, double value, double bound) {
    require(value <= bound, format("%s is %s", name, micros(value).c_str()));
  }
  // A failure on a machine whose hypervisor was elsewhere says nothing about the client.
  SelfCheck done(double steal = 0) {
    check_.figures["steal"] = steal;
    if (check_.state == CheckState::kFail && steal > kStealShare) {
      check_.state = CheckState::kInconclusive;
      check_.reason += format(", while %.0f %% of the machine's time was stolen", 100 * steal);
    }
    return std::move(check_);
  }

 private:
  SelfCheck check_;
};

std::vector<double> gaps_of(const std::vector<std::int64_t>& sorted) {
  std::vector<double> out;
  for (std::size_t i = 1; i < sorted.size(); ++i) out.push_back(seconds(sorted[i] - sorted[i - 1]));
  std::sort(out.begin(), out.end());
  return out;
}

// Asymptotic critical value of the two-sample statistic (Smirnov 1948).
double ks_bound(std::size_t n, std::size_t m, double alpha) {
  const auto a = static_cast<double>(n), b = static_cast<double>(m);
  return std::sqrt(-0.5 * std::log(alpha / 2)) * std::sqrt((a + b) / (a * b));
}

// Counts in whole windows from `begin` on.
std::vector<double> counts_in(const std::vector<std::int64_t>& times, std::int64_t begin,
                              std::int64_t end, std::int64_t window) {
  const std::int64_t windows = std::max<std::int64_t>(0, (end - begin) / window);
  std::vector<double> out(static_cast<std::size_t>(windows), 0);
  for (const std::int64_t at : times)
    if (at >= begin && (at - begin) / window < windows)
      out[static_cast<std::size_t>((at - begin) / window)] += 1;
  return out;
}

struct Dispersion {
  double index = 0, low = 0, high = 0;
};

// Of counts of a Poisson process: (k - 1) x variance / mean is chi-square with k - 1 degrees.
Dispersion dispersion_of(const std::vector<double>& counts, double alpha) {
  const auto k = static_cast<double>(counts.size());
  if (counts.size() < 2) return {kNoQuantile, 0, 0};
  const double mean = std::accumulate(counts.begin(), counts.end(), 0.0) / k;
  double squares = 0;
  for (const double count : counts) squares += (count - mean) * (count - mean);
  const boost::math::chi_squared chi(k - 1);
  return {squares / (k - 1) / mean, boost::math::quantile(chi, alpha / 2) / (k - 1),
          boost::math::quantile(chi, 1 - alpha / 2) / (k - 1)};
}

SelfCheck all_inconclusive(Decision& decision, std::span<const std::string> statuses,
                           const std::string& why) {
  decision.require(!statuses.empty(), "nothing was judged");
  decision.check().measured += join(statuses, ", ");
  if (!why.empty()) decision.check().measured += ": " + why;
  decision.check().bound = "every verdict inconclusive";
  for (const std::string& status : statuses)
    decision.require(status == "inconclusive", "the judge says " + status);
  decision.check().figures["judged"] = static_cast<double>(statuses.size());
  return decision.done();
}

}  // namespace

std::string_view check_state_name(CheckState state) {
  switch (state) {
    case CheckState::kPass:
      return "pass";
    case CheckState::kFail:
      return "fail";
    case CheckState::kInconclusive:
      return "inconclusive";
    case CheckState::kError:
      return "error";
  }
  return "error";
}

SelfCheck not_measured(std::string id, std::string what, std::string reason) {
  SelfCheck check;
  check.id = std::move(id);
  check.what = std::move(what);
  check.measured = "nothing";
  check.state = CheckState::kInconclusive;
  check.reason = std::move(reason);
  return check;
}

SelfCheck failed_to_run(std::string id, std::string what, const Error& error) {
  SelfCheck check = not_measured(std::move(id), std::move(what), error.message);
  check.state = CheckState::kError;
  return check;
}

SelfCheck check_receive_error(const ClientRun& run) {
  Decision decision("a", "receive error");
  SelfCheck& check = decision.check();
  const std::vector<double> errors = sorted_seconds(run.receive_errors_ns);
  const double p50 = quantile(errors, 0.5), p99 = quantile(errors, 0.99);
  std::int64_t events = 0;
  for (const SeenRequest& request : run.requests) events += request.events;
  check.measured = format("p50 %s, p99 %s of %zu tokens", micros(p50).c_str(), micros(p99).c_str(),
                          errors.size());
  check.bound = format("p50 %s, p99 %s", micros(kReceiveErrorP50S).c_str(),
                       micros(kReceiveErrorP99S).c_str());
  check.figures = {{"p50_s", p50},
                   {"p99_s", p99},
                   {"p999_s", quantile(errors, 0.999)},
                   {"n", static_cast<double>(errors.size())}};
  decision.require(!errors.empty() && std::ssize(errors) == events,
                   format("%zu of %lld token events carried a stamp", errors.size(),
                          static_cast<long long>(events)));
  decision.require(errors.empty() || errors.front() >= 0, "a token was read before it was sent");
  decision.at_most("p50", p50, kReceiveErrorP50S);
  decision.at_most("p99", p99, kReceiveErrorP99S);
  return decision.done(run.steal);
}

SelfCheck check_arrivals(const ClientRun& run, std::span<const std::int64_t> arrivals) {
  Decision decision("b", "arrivals at the server");
  SelfCheck& check = decision.check();
  std::vector<std::int64_t> planned, logged(arrivals.begin(), arrivals.end());
  for (const SeenRequest& request : run.requests) planned.push_back(request.sched);
  std::sort(planned.begin(), planned.end());
  std::sort(logged.begin(), logged.end());
  check.bound = format("all of them, KS and dispersion at alpha %.10g", kKsAlpha);
  if (planned.size() < 100 || logged.size() != planned.size()) {
    check.measured = format("%zu of %zu requests", logged.size(), planned.size());
    decision.require(false, "the server's log does not hold the schedule's requests");
    return decision.done(run.steal);
  }
  const double distance = ks_distance_of_two(gaps_of(planned), gaps_of(logged));
  const double bound = ks_bound(planned.size() - 1, logged.size() - 1, kKsAlpha);
  const Dispersion spread = dispersion_of(
      counts_in(logged, planned.front(), planned.back(), kDispersionWindow), kKsAlpha);
  check.measured = format("%zu of %zu, KS %.4f, dispersion %.2f", logged.size(), planned.size(),
                          distance, spread.index);
  check.bound = format("all, KS %.4f, dispersion %.2f to %.2f", bound, spread.low, spread.high);
  check.figures = {{"n", static_cast<double>(logged.size())},
                   {"ks", distance},
                   {"ks_bound", bound},
                   {"dispersion", spread.index}};
  decision.require(distance <= bound, "the gaps are not those of the schedule");
  decision.require(spread.index >= spread.low && spread.index <= spread.high,
                   "the arrivals are not as dispersed as Poisson arrivals are");
  return decision.done(run.steal);
}

namespace {

struct Line {
  double slope = 0, offset_s = 0;
};

// By least squares through the medians of the rungs.
Result<Line> line_through(std::span<const Rung> rungs) {
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (const Rung& rung : rungs) {
    if (rung.true_s.empty() || rung.true_s.size() != rung.seen_s.size())
      return Error{Code::kUnavailable, format("no answers after %.10g s", rung.asked_s)};
    const double x = median_of(rung.true_s), y = median_of(rung.seen_s);
    if (x < rung.asked_s || x > 2 * rung.asked_s + 1e-3)
      return Error{Code::kUnavailable, format("the server waited %.3g ms instead of %.3g ms",
                                              x * 1e3, rung.asked_s * 1e3)};
    n += 1;
    sx += x;
    sy += y;
    sxx += x * x;
    sxy += x * y;
  }
  if (n < 3) return Error{Code::kUnavailable, "fewer than three delays"};
  const double slope = (n * sxy - sx * sy) / (n * sxx - sx * sx);
  return Line{slope, (sy - slope * sx) / n};
}

}  // namespace

SelfCheck check_kernel_stamps(const ClientRun& run) {
  Decision decision("c", "kernel to user");
  SelfCheck& check = decision.check();
  double answers = 0, stamped = 0, early = 0, late = 0;
  for (const SeenRequest& request : run.requests) {
    if (request.events == 0) continue;
    answers += 1;
    if (request.lag < 0) continue;
    stamped += 1;
    early += request.lag > request.worst_error + kStampSlack ? 1 : 0;
    late += request.worst_error > request.lag + kStampSlack ? 1 : 0;
  }
  const std::vector<double> lags = sorted_seconds(run.read_lags_ns);
  const double p50 = quantile(lags, 0.5), p99 = quantile(lags, 0.99);
  check.measured =
      format("p50 %s, p99 %s of %zu reads", micros(p50).c_str(), micros(p99).c_str(), lags.size());
  check.bound =
      format("p99 %s, stamps on %.0f %%", micros(kReceiveLagP99S).c_str(), 100 * kStampedShare);
  check.figures = {{"p50_s", p50}, {"p99_s", p99}, {"n", static_cast<double>(lags.size())}};
  decision.require(answers > 0 && stamped >= kStampedShare * answers,
                   format("only %.0f of %.0f answers carry a kernel stamp", stamped, answers));
  decision.require(early <= kInconsistentShare * stamped,
                   format("%.0f kernel stamps lie before the token was sent", early));
  decision.require(late <= kInconsistentShare * stamped,
                   format("%.0f kernel stamps do not explain how late the token was read", late));
  decision.at_most("p99", p99, kReceiveLagP99S);
  return decision.done(run.steal);
}

SelfCheck check_send_lateness(const ClientRun& run) {
  Decision decision("d", "send lateness");
  SelfCheck& check = decision.check();
  std::vector<std::int64_t> late;
  for (const SeenRequest& request : run.requests)
    if (request.send > 0) late.push_back(request.send - request.sched);
  const std::vector<double> sorted = sorted_seconds(late);
  const double p50 = quantile(sorted, 0.5), p99 = quantile(sorted, 0.99);
  const double p999 = quantile(sorted, 0.999);
  check.measured = format("p50 %s, p99 %s, p99.9 %s of %zu", micros(p50).c_str(),
                          micros(p99).c_str(), micros(p999).c_str(), sorted.size());
  check.bound = format("p50 %s, p99 %s", micros(kSendLatenessP50S).c_str(),
                       micros(kSendLatenessP99S).c_str());
  check.figures = {
      {"p50_s", p50}, {"p99_s", p99}, {"p999_s", p999}, {"n", static_cast<double>(sorted.size())}};
  decision.require(!sorted.empty() && sorted.size() == run.requests.size(),
                   format("%zu of %zu requests were sent", sorted.size(), run.requests.size()));
  decision.at_most("p50", p50, kSendLatenessP50S);
  decision.at_most("p99", p99, kSendLatenessP99S);
  return decision.done(run.steal);
}

SelfCheck check_delay_ladder(std::span<const Rung> rungs, std::span<const Rung> asleep) {
  Decision decision("e", "delay ladder");
  SelfCheck& check = decision.check();
  check.bound =
      format("slope 1 +- %.10g, offset below %s", kSlopeTolerance, micros(kOffsetS).c_str());
  const Result<Line> line = line_through(rungs);
  if (!line.ok()) return not_measured("e", check.what, line.error().message);
  check.measured = format("slope %.4f, offset %s of %zu delays", line->slope,
                          micros(line->offset_s).c_str(), rungs.size());
  check.figures = {{"slope", line->slope},
                   {"offset_s", line->offset_s},
                   {"n", static_cast<double>(rungs.size())}};
  if (const Result<Line> sleeping = line_through(asleep); sleeping.ok()) {
    check.measured += format(" (%s when processors may sleep)", micros(sleeping->offset_s).c_str());
    check.figures["asleep_offset_s"] = sleeping->offset_s;
  }
  decision.require(std::fabs(line->slope - 1) <= kSlopeTolerance,
                   format("the slope is %.4f", line->slope));
  decision.require(std::fabs(line->offset_s) < kOffsetS, "the offset is " + micros(line->offset_s));
  return decision.done();
}

double predicted_lost_time_s(std::span<const std::int64_t> sched, std::int64_t stopped_at,
                             std::int64_t went_on_at, double ttft_s, double limit_s) {
  double lost = 0;
  for (const std::int64_t at : sched) {
    const double until = seconds(went_on_at - at);
    if (at >= went_on_at || seconds(stopped_at - at) > ttft_s) continue;
    // Read before the stop: its token is due when the server goes on. Else it is only read then.
    const double ttft = at < stopped_at ? until : until + ttft_s;
    lost += std::max(0.0, ttft - limit_s);
  }
  return lost;
}

SelfCheck check_frozen_server(double seen_lost_s, double predicted_lost_s, double frozen_s) {
  Decision decision("f", "frozen server");
  SelfCheck& check = decision.check();
  const double ratio = seen_lost_s / predicted_lost_s;
  check.measured = format("%.1f s lost in a stop of %.2f s, predicted %.1f s", seen_lost_s,
                          frozen_s, predicted_lost_s);
  check.bound = format("within %.0f %%", 100 * kAreaTolerance);
  check.figures = {
      {"lost_s", seen_lost_s}, {"predicted_s", predicted_lost_s}, {"frozen_s", frozen_s}};
  decision.require(std::fabs(ratio - 1) <= kAreaTolerance,
                   format("the loss is %.3f of the predicted one", ratio));
  return decision.done();
}

SelfCheck check_frozen_client(std::span<const std::string> statuses, const std::string& why,
                              double frozen_s) {
  Decision decision("g", "frozen client");
  decision.check().measured = format("stopped for %.2f s: ", frozen_s);
  decision.check().figures["frozen_s"] = frozen_s;
  return all_inconclusive(decision, statuses, why);
}

SelfCheck check_overload(std::span<const std::string> statuses, const std::string& why,
                         double asked_per_s, double ceiling_per_s) {
  Decision decision("j", "overload");
  decision.check().measured = format("asked %.0f/s of about %.0f/s: ", asked_per_s, ceiling_per_s);
  decision.check().figures = {{"asked_per_s", asked_per_s}, {"ceiling_per_s", ceiling_per_s}};
  return all_inconclusive(decision, statuses, why);
}

SelfCheck check_counters(const ClientRun& run, const NullServerProcess::Counts& before,
                         const NullServerProcess::Counts& after) {
  Decision decision("h", "counters");
  SelfCheck& check = decision.check();
  std::int64_t sent = 0, tokens = 0;
  for (const SeenRequest& request : run.requests) {
    sent += request.sent > 0 ? 1 : 0;
    tokens += request.events;
  }
  const std::int64_t requests = after.requests - before.requests;
  const std::int64_t server_tokens = after.tokens - before.tokens;
  check.measured = format("requests %lld and %lld, tokens %lld and %lld",
                          static_cast<long long>(sent), static_cast<long long>(requests),
                          static_cast<long long>(tokens), static_cast<long long>(server_tokens));
  check.bound = "client's and server's equal";
  check.figures = {{"requests", static_cast<double>(sent)},
                   {"server_requests", static_cast<double>(requests)},
                   {"tokens", static_cast<double>(tokens)},
                   {"server_tokens", static_cast<double>(server_tokens)}};
  decision.require(sent > 0 && sent == requests, "requests differ");
  decision.require(tokens > 0 && tokens == server_tokens, "tokens differ");
  return decision.done();
}

SelfCheck check_littles_law(const ClientRun& run, std::span<const InFlight> samples) {
  Decision decision("i", "Little's law");
  SelfCheck& check = decision.check();
  check.bound = format("within %.0f %%", 100 * kLittleTolerance);
  double residence = 0, n = 0;
  for (const SeenRequest& request : run.requests) {
    if (request.sent == 0) continue;
    residence += seconds(request.end - request.sent);
    n += 1;
  }
  const bool covers = samples.size() >= 100 && n > 0 && samples.front().at <= run.begin_ns &&
                      samples.front().count == 0 && samples.back().count == 0;
  if (!covers) return not_measured("i", check.what, "the samples do not cover the run");
  double area = 0;
  for (std::size_t s = 1; s < samples.size(); ++s)
    area += seconds(samples[s].at - samples[s - 1].at) * 0.5 *
            static_cast<double>(samples[s].count + samples[s - 1].count);
  const double time = seconds(run.end_ns - run.begin_ns);
  const double in_flight = area / time, rate = n / time, mean = residence / n;
  check.measured =
      format("%.2f in flight, %.0f/s x %.1f ms = %.2f", in_flight, rate, mean * 1e3, rate * mean);
  check.figures = {{"in_flight", in_flight},
                   {"rate_per_s", rate},
                   {"residence_s", mean},
                   {"samples", static_cast<double>(samples.size())}};
  decision.require(
      std::fabs(rate * mean / in_flight - 1) <= kLittleTolerance,
      format("rate x residence is %.3f of what is in flight", rate * mean / in_flight));
  return decision.done(run.steal);
}

SelfCheck check_rate_step(const ClientRun& run) {
  Decision decision("k", "rate step");
  SelfCheck& check = decision.check();
  std::vector<std::int64_t> planned, sent;
  for (const SeenRequest& request : run.requests) {
    planned.push_back(request.sched);
    if (request.sent > 0) sent.push_back(request.send);
  }
  std::sort(planned.begin(), planned.end());
  const std::int64_t end = planned.empty() ? run.begin_ns : planned.back() + kRateWindow;
  const std::vector<double> want = counts_in(planned, run.begin_ns, end, kRateWindow);
  const std::vector<double> got = counts_in(sent, run.begin_ns, end, kRateWindow);
  double worst = 0, at = 0;
  for (std::size_t w = 0; w < want.size(); ++w) {
    const double sigmas = std::fabs(got[w] - want[w]) / std::sqrt(std::max(1.0, want[w]));
    if (sigmas <= worst) continue;
    worst = sigmas;
    at = static_cast<double>(w) * seconds(kRateWindow);
  }
  check.measured = format("worst of %zu windows %.1f sigma from the plan", want.size(), worst);
  check.bound = format("%.10g sigma, all sent", kRateSigmas);
  check.figures = {{"worst_sigmas", worst}, {"windows", static_cast<double>(want.size())}};
  decision.require(!planned.empty() && sent.size() == planned.size(),
                   format("%zu of %zu requests were sent", sent.size(), planned.size()));
  decision.require(worst <= kRateSigmas, format("%.1f sigma in the window at %.1f s", worst, at));
  return decision.done(run.steal);
}

}  // namespace mixproof::inference
