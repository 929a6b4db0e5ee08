// A null server and the client in processes of their own: what each counts of the other.
#include "probes/inference/instrument.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "probes/inference/clock.h"

namespace mixproof::inference {
namespace {

NullServerProcess server_with(NullServerOptions options) {
  Result<NullServerProcess> server = NullServerProcess::start(std::move(options), -1);
  EXPECT_TRUE(server.ok()) << (server.ok() ? "" : server.error().message);
  return std::move(*server);
}

ClientJob job_for(const NullServerProcess& server, int requests, std::int64_t spacing_ns) {
  ClientJob job;
  job.url = server.url();
  job.options = {.connections = 8, .max_in_flight = 100};
  for (int i = 0; i < requests; ++i) job.requests.push_back({i * spacing_ns, 3});
  return job;
}

// The kernel gives the wish to whoever may write it down, and forgets it with the process.
TEST(Instrument, KeepsTheMachineAwakeOnlyWhereItMay) {
  const NullServerProcess server = server_with({.ttft_ms = 1, .gap_ms = 1});
  ClientJob job = job_for(server, 3, kMillisecond);
  EXPECT_FALSE(run_client(job)->kept_awake);
  job.keep_awake = true;
  const auto run = run_client(job);
  ASSERT_TRUE(run.ok()) << run.error().message;
  EXPECT_EQ(run->kept_awake, ::access("/dev/cpu_dma_latency", W_OK) == 0);
}

TEST(Instrument, BothSidesSawTheSame) {
  const NullServerProcess server = server_with({.ttft_ms = 2, .gap_ms = 1});
  int watched = 0;
  const auto run = run_client(job_for(server, 20, 5 * kMillisecond), [&](std::int64_t) -> Status {
    ++watched;
    return ok();
  });
  ASSERT_TRUE(run.ok()) << run.error().message;
  ASSERT_EQ(run->requests.size(), 20u);
  EXPECT_EQ(run->receive_errors_ns.size(), 60u);
  EXPECT_GE(run->read_lags_ns.size(), 20u);  // several tokens may come in one read
  EXPECT_LE(run->read_lags_ns.size(), 60u);
  EXPECT_GT(watched, 20);
  EXPECT_FALSE(run->scheduling.empty());
  EXPECT_GT(run->cpu_s, 0);
  const auto counts = server.counts();
  ASSERT_TRUE(counts.ok()) << counts.error().message;
  EXPECT_EQ(counts->requests, 20);
  EXPECT_EQ(counts->answers, 20);
  EXPECT_EQ(counts->tokens, 60);
  EXPECT_EQ(server.in_flight(), 0);
  const auto arrivals = server.arrivals();
  ASSERT_TRUE(arrivals.ok()) << arrivals.error().message;
  ASSERT_EQ(arrivals->size(), 20u);
  for (std::size_t i = 0; i < 20; ++i) {
    const SeenRequest& request = run->requests[i];
    EXPECT_EQ(outcome_name(request.outcome), "OK");
    EXPECT_EQ(request.i, static_cast<std::int64_t>(i));
    EXPECT_LE(request.sched, (*arrivals)[i]);
    EXPECT_LE((*arrivals)[i] + 2 * kMillisecond, request.first_stamp);
    EXPECT_LE(request.first_stamp, request.first);
    EXPECT_LE(request.first - request.first_stamp, request.worst_error);
  }
}

TEST(Instrument, AStoppedServerAnswersNobodyUntilItGoesOn) {
  NullServerProcess server = server_with({.ttft_ms = 1, .gap_ms = 1});
  ASSERT_TRUE(server.stop().ok());
  const auto run = run_client(job_for(server, 3, kMillisecond), [&](std::int64_t now) -> Status {
    const bool over = now >= server.stopped_at() + 300 * kMillisecond;
    return over && server.went_on_at() == 0 ? server.go_on() : ok();
  });
  ASSERT_TRUE(run.ok()) << run.error().message;
  for (const SeenRequest& request : run->requests) {
    EXPECT_EQ(outcome_name(request.outcome), "OK");
    EXPECT_GE(request.first, server.went_on_at());
  }
}

TEST(Instrument, WithSlotsTheRestWaitTheirTurn) {
  const NullServerProcess server = server_with({.ttft_ms = 80, .gap_ms = 40, .slots = 2});
  const auto run = run_client(job_for(server, 8, 0));  // answers of 160 ms, two at once
  ASSERT_TRUE(run.ok()) << run.error().message;
  std::vector<std::int64_t> first;
  for (const SeenRequest& request : run->requests) {
    EXPECT_EQ(outcome_name(request.outcome), "OK");
    first.push_back(request.first - run->begin_ns);
  }
  std::sort(first.begin(), first.end());
  for (std::size_t i = 0; i < first.size(); ++i)  // pairs, one after the other
    EXPECT_GE(first[i], static_cast<std::int64_t>(i / 2) * 160 * kMillisecond) << i;
  const NullServerProcess free = server_with({.ttft_ms = 80, .gap_ms = 40});
  const auto at_once = run_client(job_for(free, 8, 0));
  ASSERT_TRUE(at_once.ok());
  for (const SeenRequest& request : at_once->requests)
    EXPECT_LT(request.first - at_once->begin_ns, first.back());
}

TEST(Instrument, AClientThatCannotConnectSaysWhy) {
  ClientJob job;
  {
    const NullServerProcess server = server_with({});
    job = job_for(server, 1, 0);
  }
  const auto run = run_client(job);
  ASSERT_FALSE(run.ok());
  EXPECT_NE(run.error().message.find(job.url), std::string::npos) << run.error().message;
}

TEST(Instrument, AWatchThatFailsEndsTheClient) {
  const NullServerProcess server = server_with({});
  const auto run = run_client(job_for(server, 2, 20 * kSecond), [](std::int64_t) -> Status {
    return Error{Code::kInternal, "enough"};
  });
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().message, "enough");
}

}  // namespace
}  // namespace mixproof::inference
