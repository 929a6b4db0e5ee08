// What each self-check makes of a run that is as it should be, and of one that is not.
#include "probes/inference/self_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "harness/base/random.h"
#include "probes/inference/clock.h"

namespace mixproof::inference {
namespace {

constexpr std::int64_t kBegin = 1000 * kSecond;

// 4,000 requests at 1,000/s, three tokens each, sent and read within tens of microseconds.
ClientRun good_run() {
  ClientRun run;
  Random random(1, "self checks");
  run.begin_ns = kBegin;
  double at_s = 0;
  for (int i = 0; i < 4000; ++i) {
    at_s += random.exponential(1000);
    SeenRequest request;
    request.i = i;
    request.sched = kBegin + static_cast<std::int64_t>(at_s * 1e9);
    request.send = request.sched + 10'000 + static_cast<std::int64_t>(40'000 * random.unit());
    request.sent = request.send + 5'000;
    request.first_stamp = request.sent + 20 * kMillisecond;
    request.first = request.first_stamp + 30'000;
    request.last = request.end = request.first + 20 * kMillisecond;
    request.tokens = request.events = 3;
    request.worst_error = 60'000;
    request.lag = 40'000;
    for (int read = 0; read < 3; ++read) run.read_lags_ns.push_back(30'000);
    for (const std::int64_t error : {30'000, 40'000, 60'000})
      run.receive_errors_ns.push_back(error);
    run.requests.push_back(request);
  }
  run.end_ns = run.requests.back().end;
  return run;
}

std::vector<std::int64_t> arrivals_of(const ClientRun& run) {
  std::vector<std::int64_t> out;
  for (const SeenRequest& request : run.requests) out.push_back(request.sent + 15'000);
  return out;
}

ClientRun changed(const std::function<void(ClientRun&)>& change) {
  ClientRun run = good_run();
  change(run);
  return run;
}

void expect(const SelfCheck& check, CheckState state, const std::string& words = "") {
  EXPECT_EQ(check_state_name(check.state), check_state_name(state))
      << check.id << ": " << check.measured << "; " << check.reason;
  EXPECT_EQ(check.reason.empty(), state == CheckState::kPass) << check.reason;
  EXPECT_NE(check.reason.find(words), std::string::npos) << check.reason;
}

TEST(ReceiveError, PassesWithinItsBoundsAndFailsBeyond) {
  expect(check_receive_error(good_run()), CheckState::kPass);
  expect(check_receive_error(changed([](ClientRun& run) {
           for (std::size_t i = 0; i < 200; ++i) run.receive_errors_ns[i] = 400'000;
         })),
         CheckState::kFail, "p99 is 400 us");
  expect(check_receive_error(changed([](ClientRun& run) {
           for (std::int64_t& error : run.receive_errors_ns) error += 40'000;
         })),
         CheckState::kFail, "p50 is 80 us");
}

TEST(ReceiveError, EveryTokenMustCarryAStampFromBeforeItWasRead) {
  expect(check_receive_error(changed([](ClientRun& run) { run.receive_errors_ns.pop_back(); })),
         CheckState::kFail, "11999 of 12000");
  expect(check_receive_error(changed([](ClientRun& run) { run.receive_errors_ns[7] = -5; })),
         CheckState::kFail, "before it was sent");
  expect(check_receive_error({}), CheckState::kFail);
}

TEST(ReceiveError, AFailureOnAStolenMachineIsInconclusive) {
  expect(check_receive_error(changed([](ClientRun& run) {
           for (std::int64_t& error : run.receive_errors_ns) error += 4'000'000;
           run.steal = 0.2;
         })),
         CheckState::kInconclusive, "20 % of the machine's time was stolen");
}

TEST(Arrivals, FollowTheScheduleOrFail) {
  const ClientRun run = good_run();
  const std::vector<std::int64_t> arrivals = arrivals_of(run);
  expect(check_arrivals(run, arrivals), CheckState::kPass);
  const std::vector<std::int64_t> fewer(arrivals.begin(), arrivals.end() - 1);
  expect(check_arrivals(run, fewer), CheckState::kFail, "does not hold");
  std::vector<std::int64_t> lumps = arrivals;  // as of a client that wakes every 5 ms
  for (std::int64_t& at : lumps)
    at = (at / (5 * kMillisecond) + 1) * 5 * kMillisecond + (at % 1000);
  expect(check_arrivals(run, lumps), CheckState::kFail, "gaps are not those");
  expect(check_arrivals({}, {}), CheckState::kFail);
}

TEST(Arrivals, AMetronomeIsNotAsDispersedAsPoisson) {
  ClientRun run = good_run();
  for (std::size_t i = 0; i < run.requests.size(); ++i)
    run.requests[i].sched = kBegin + static_cast<std::int64_t>(i) * kMillisecond;
  std::vector<std::int64_t> arrivals;
  for (const SeenRequest& request : run.requests) arrivals.push_back(request.sched + 20'000);
  expect(check_arrivals(run, arrivals), CheckState::kFail, "not as dispersed");
}

TEST(KernelStamps, MustExistBeConsistentAndClose) {
  expect(check_kernel_stamps(good_run()), CheckState::kPass);
  expect(check_kernel_stamps(changed([](ClientRun& run) {
           for (std::size_t i = 0; i < 100; ++i) run.requests[i].lag = -1;
         })),
         CheckState::kFail, "only 3900 of 4000");
  expect(check_kernel_stamps(changed([](ClientRun& run) {
           for (std::size_t i = 0; i < 100; ++i) run.requests[i].lag = 900'000;
         })),
         CheckState::kFail, "before the token was sent");
  expect(check_kernel_stamps(changed([](ClientRun& run) {
           for (std::size_t i = 0; i < 100; ++i) run.requests[i].worst_error = 900'000;
         })),
         CheckState::kFail, "do not explain");
  expect(check_kernel_stamps(changed([](ClientRun& run) {
           for (std::size_t i = 0; i < 100; ++i)
             run.requests[i].lag = run.requests[i].worst_error = 3 * kMillisecond;
         })),
         CheckState::kPass);  // one read in a hundred answers of three
  expect(check_kernel_stamps(changed([](ClientRun& run) {
           for (std::size_t i = 0; i < 200; ++i) run.read_lags_ns[i] = 3 * kMillisecond;
         })),
         CheckState::kFail, "p99 is 3000 us");
  expect(check_kernel_stamps(changed([](ClientRun& run) { run.read_lags_ns.clear(); })),
         CheckState::kFail);
  expect(check_kernel_stamps({}), CheckState::kFail);
}

TEST(SendLateness, FailsWhenOneInAHundredIsLateOrOneIsMissing) {
  expect(check_send_lateness(good_run()), CheckState::kPass);
  expect(check_send_lateness(changed([](ClientRun& run) {
           for (std::size_t i = 0; i < 60; ++i) run.requests[i].send += 3 * kMillisecond;
         })),
         CheckState::kFail, "p99 is");
  expect(check_send_lateness(changed([](ClientRun& run) { run.requests[9].send = 0; })),
         CheckState::kFail, "3999 of 4000 requests were sent");
}

std::vector<Rung> ladder(double slope, double offset_s, double server_late_s = 0) {
  std::vector<Rung> out;
  for (const double asked_s : {0.0001, 0.001, 0.01, 0.1}) {
    Rung rung{.asked_s = asked_s, .true_s = {}, .seen_s = {}};
    for (int i = -10; i <= 10; ++i) {
      const double jitter = 1e-6 * i;
      rung.true_s.push_back(asked_s + 20e-6 + server_late_s + jitter);
      rung.seen_s.push_back(offset_s + slope * rung.true_s.back() + jitter);
    }
    out.push_back(std::move(rung));
  }
  return out;
}

TEST(DelayLadder, WantsTheSlopeOfOneAndASmallOffset) {
  expect(check_delay_ladder(ladder(1, 60e-6)), CheckState::kPass);
  expect(check_delay_ladder(ladder(1, 60e-6, 400e-6)), CheckState::kPass);  // its own lateness
  expect(check_delay_ladder(ladder(1.01, 60e-6)), CheckState::kFail, "slope is 1.0100");
  expect(check_delay_ladder(ladder(1, 250e-6)), CheckState::kFail, "offset is 250 us");
  expect(check_delay_ladder(ladder(1, 60e-6, 4e-3)), CheckState::kInconclusive, "server waited");
  const SelfCheck beside = check_delay_ladder(ladder(1, 60e-6), ladder(1, 250e-6));
  expect(beside, CheckState::kPass);
  EXPECT_NE(beside.measured.find("(250 us when processors may sleep)"), std::string::npos)
      << beside.measured;
  std::vector<Rung> gap = ladder(1, 60e-6);
  gap[2].true_s.clear();
  expect(check_delay_ladder(gap), CheckState::kInconclusive, "no answers");
}

TEST(FrozenServer, ThePredictionIsTheAreaUnderTheWait) {
  // One request a millisecond over a stop of one second, limit 0: a triangle of half a second each.
  std::vector<std::int64_t> sched;
  for (int i = -1000; i < 3000; ++i) sched.push_back(kBegin + i * kMillisecond);
  const double area = predicted_lost_time_s(sched, kBegin, kBegin + kSecond, 0, 0);
  EXPECT_NEAR(area, 500.5, 0.01);
  // With 10 ms to the first token those that were read before the stop lose time too.
  EXPECT_NEAR(predicted_lost_time_s(sched, kBegin, kBegin + kSecond, 0.0105, 0.0105), 500.5 + 9.95,
              0.1);
  EXPECT_EQ(predicted_lost_time_s(sched, kBegin, kBegin + kSecond, 0, 2), 0);
}

TEST(FrozenServer, FailsBeyondTwoPerCent) {
  expect(check_frozen_server(398, 400, 2), CheckState::kPass);
  expect(check_frozen_server(390, 400, 2), CheckState::kFail, "0.975");
  expect(check_frozen_server(0, 400, 2), CheckState::kFail);
  expect(check_frozen_server(0, 0, 2), CheckState::kFail);  // nothing was stopped
}

TEST(FrozenClient, OnlyInconclusivePasses) {
  const std::vector<std::string> good = {"inconclusive", "inconclusive"};
  expect(check_frozen_client(good, "late", 2), CheckState::kPass);
  expect(check_overload(good, "late", 3000, 1000), CheckState::kPass);
  for (const char* wrong : {"pass", "fail", "error"}) {
    const std::vector<std::string> one = {"inconclusive", wrong};
    expect(check_frozen_client(one, "", 2), CheckState::kFail, wrong);
    expect(check_overload(one, "", 3000, 1000), CheckState::kFail, wrong);
  }
  expect(check_frozen_client({}, "", 2), CheckState::kFail, "nothing was judged");
}

TEST(Counters, MustBeEqualAtBothEnds) {
  const NullServerProcess::Counts before{
      .connections = 9, .requests = 10, .answers = 10, .tokens = 5};
  NullServerProcess::Counts after{
      .connections = 9, .requests = 4010, .answers = 4010, .tokens = 12005};
  expect(check_counters(good_run(), before, after), CheckState::kPass);
  after.requests -= 1;
  expect(check_counters(good_run(), before, after), CheckState::kFail, "requests differ");
  after.requests += 1;
  after.tokens += 1;
  expect(check_counters(good_run(), before, after), CheckState::kFail, "tokens differ");
  expect(check_counters({}, before, before), CheckState::kFail);
}

// What a server would have shown that holds a request from its last byte to its end.
std::vector<InFlight> samples_of(const ClientRun& run, double scale = 1) {
  std::vector<InFlight> out;
  for (std::int64_t at = run.begin_ns - kMillisecond; at <= run.end_ns + 2 * kMillisecond;
       at += kMillisecond) {
    const auto open = std::count_if(
        run.requests.begin(), run.requests.end(),
        [&](const SeenRequest& request) { return request.sent <= at && at < request.end; });
    out.push_back({at, static_cast<std::int64_t>(scale * static_cast<double>(open))});
  }
  return out;
}

TEST(LittlesLaw, HoldsBetweenServerAndClientOrFails) {
  const ClientRun run = good_run();
  expect(check_littles_law(run, samples_of(run)), CheckState::kPass);
  expect(check_littles_law(run, samples_of(run, 1.1)), CheckState::kFail, "of what is in flight");
  std::vector<InFlight> late = samples_of(run);
  late.erase(late.begin(), late.begin() + 500);
  expect(check_littles_law(run, late), CheckState::kInconclusive, "do not cover");
  expect(check_littles_law(run, {}), CheckState::kInconclusive);
}

TEST(RateStep, FailsWhenAWindowIsOffThePlan) {
  expect(check_rate_step(good_run()), CheckState::kPass);
  expect(check_rate_step(changed([](ClientRun& run) {  // a pause of 50 ms
           for (SeenRequest& request : run.requests) {
             const std::int64_t at = request.send - kBegin;
             if (at >= 1050 * kMillisecond && at < 1100 * kMillisecond)
               request.send = kBegin + 1101 * kMillisecond;
           }
         })),
         CheckState::kFail, "sigma in the window");
  expect(check_rate_step(changed([](ClientRun& run) { run.requests[5].sent = 0; })),
         CheckState::kFail, "3999 of 4000");
  expect(check_rate_step({}), CheckState::kFail);
}

TEST(SelfChecks, ARunThatCouldNotBeMadeIsAnErrorNeverAPass) {
  expect(failed_to_run("a", "receive error", {Code::kTimeout, "no server"}), CheckState::kError,
         "no server");
  expect(not_measured("a", "receive error", "no server"), CheckState::kInconclusive, "no server");
}

}  // namespace
}  // namespace mixproof::inference
