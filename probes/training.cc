// Load `training`: data-parallel ranks. Each step multiplies matrices, fills a gradient and sums it
// over the ranks, and emits one row a rank. Steps stay in lockstep by their sum, whose last element
// carries the wish to stop: every rank sees the same sum, so all of them stop after the same step
// and none is left waiting.
//
// Training goes on through gaps between its phases: ranks would need another round to agree on a
// pause, and what lies outside the phases is left out by the judge.
#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "harness/base/text.h"
#include "probes/backends/communicator.h"
#include "probes/backends/cpu/gemm.h"
#include "probes/backends/cpu/gradient.h"
#include "probes/backends/module.h"
#include "probes/probe.h"

namespace mixproof {
namespace {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC
using std::chrono::milliseconds;

constexpr milliseconds kConnectDeadline{20'000};
// How long a stop that reached another rank may take to reach this one.
constexpr milliseconds kForeignStop{1'000};
constexpr int kSamples = 64;                   // elements of the sum that are checked in every step
constexpr std::int64_t kWholeCheckEvery = 50;  // steps between checks of all elements
constexpr std::int64_t kWarmUpStep = -1;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

// Sleeps until a time of CLOCK_MONOTONIC, or less when a stop is asked for.
void sleep_until(std::int64_t at_ns, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_until(lock, stop, Clock::time_point(std::chrono::nanoseconds(at_ns)),
                   [] { return false; });
}

class Training final : public Probe {
 public:
  Params params() override {
    return {
        integer("ranks", &ranks_, "workers that train together, one a node",
                {.min = 1, .max = 1024}),
        integer("gemm_n", &gemm_n_, "a step multiplies matrices of gemm_n x gemm_n",
                {.min = 1, .max = static_cast<double>(Gemm::kMaxSize)}),
        integer("gemm_repeats", &gemm_repeats_, "multiplications a step", {.min = 1, .max = 1e6}),
        integer("gradient_bytes", &gradient_bytes_,
                "summed over the ranks in every step, in 4-byte elements",
                {.min = 4, .max = 0x1p36}),
        integer("bucket_bytes", &bucket_bytes_,
                "the sum goes round the ring in pieces of this size", {.min = 4, .max = 0x1p32}),
        text("transport", &transport_,
             "UCX transports between the ranks; any other that is used is an error"),
        text("net_devices", &net_devices_, "UCX devices, as in UCX_NET_DEVICES; empty: all"),
        number("step_deadline_s", &step_deadline_s_, "longest wait for the other ranks in one step",
               {.min = 0.5, .max = 3600}),
        integer("checkpoint_every_steps", &checkpoint_every_steps_,
                "0: no checkpoints, which is all that this version can do", {.min = 0, .max = 0}),
    };
  }

  Cost cost() override;
  Status prepare(ProbeContext& context) override;
  Status run(ProbeContext& context) override;
  Status check(ProbeContext& context) override;

 private:
  struct Times {
    std::int64_t begin = 0, computed = 0, end = 0;
  };

  Patience patience(const ProbeContext& context) const {
    return {Clock::now() + milliseconds(static_cast<std::int64_t>(step_deadline_s_ * 1e3)),
            context.stop};
  }
  Status connect(ProbeContext& context);
  bool compute(const std::stop_token& stop);  // false when a stop cut it short
  void verify(const GradientKey& key, bool whole);
  Result<bool> step(ProbeContext& context, std::int64_t end_ns);  // whether there is a next one
  Result<bool> left_by_stop(const ProbeContext& context) const;

  std::int64_t ranks_ = 2, gemm_n_ = 256, gemm_repeats_ = 8;
  std::int64_t gradient_bytes_ = 4 << 20, bucket_bytes_ = 1 << 20;
  std::string transport_ = "tcp", net_devices_;
  double step_deadline_s_ = 20;
  std::int64_t checkpoint_every_steps_ = 0;

  int rank_ = 0;
  std::optional<Gemm> gemm_;
  std::vector<float> gradient_;  // one element more than the gradient: the wish to stop
  std::unique_ptr<Communicator> communicator_;  // after the buffer that it sends from
  std::int64_t steps_ = 0, verified_ = 0;
  std::optional<Error> corrupt_;  // the first wrong result
};

// An upper bound: no core computes faster than about 200 GFLOP/s, and a rank sends one gradient's
// worth a step.
Cost Training::cost() {
  const double n = static_cast<double>(ranks_);
  const double size = static_cast<double>(gemm_n_);
  const double least_step_s = static_cast<double>(gemm_repeats_) * 2 * size * size * size / 200e9;
  return {.network_bytes_per_s =
              2 * (n - 1) / n * static_cast<double>(gradient_bytes_) / least_step_s};
}

Status Training::prepare(ProbeContext& context) {
  const int group_size = context.group == nullptr ? 1 : context.group->size();
  if (group_size != ranks_)
    return Error{Code::kInvalid, format("ranks is %lld, but the load runs on %d nodes",
                                        static_cast<long long>(ranks_), group_size)};
  rank_ = context.group == nullptr ? 0 : context.group->rank();
  gemm_.emplace(TRY(Gemm::create(gemm_n_, context.seed)));
  gradient_.assign(static_cast<std::size_t>(gradient_bytes_) / sizeof(float) + 1, 0.0F);
  TRY(connect(context));

  compute(context.stop);
  const GradientKey key{context.seed, kWarmUpStep};
  const std::span<float> values(gradient_.data(), gradient_.size() - 1);
  fill_gradient(key, rank_, values);
  const Outcome warm = TRY(communicator_->all_reduce_sum(gradient_, patience(context)));
  if (warm == Outcome::kStopped) return Error{Code::kRefused, "stopped while warming up"};
  verify(key, true);
  if (corrupt_) return Error(*corrupt_).in("warm-up");
  verified_ = 0;
  context.info["transport"] = TRY(communicator_->transport());
  return ok();
}

Status Training::connect(ProbeContext& context) {
  const std::string directory = TRY(module_directory());
  const BackendTable* backend = TRY(open_backend("ucx", directory));
  communicator_ =
      TRY(backend->create_communicator({.rank = rank_,
                                        .size = static_cast<int>(ranks_),
                                        .transport = transport_,
                                        .net_devices = net_devices_,
                                        .bucket_bytes = static_cast<std::size_t>(bucket_bytes_)}));
  std::vector<std::string> addresses = {communicator_->address()};
  if (context.group != nullptr)
    addresses = TRY(context.group->all_gather("training addresses", communicator_->address(),
                                              kConnectDeadline));
  const Outcome met =
      TRY(communicator_->connect(addresses, {Clock::now() + kConnectDeadline, context.stop}));
  if (met == Outcome::kStopped)
    return Error{Code::kRefused, "stopped while the ranks were meeting"};
  context.info = {{"backend", backend->name},
                  {"backend_version", backend->library_version},
                  {"blas_core", Gemm::core_name()},
                  {"ranks", ranks_},
                  {"gemm_n", gemm_n_},
                  {"gemm_repeats", gemm_repeats_},
                  {"gradient_bytes", gradient_bytes_},
                  {"bucket_bytes", bucket_bytes_}};
  return ok();
}

Status Training::run(ProbeContext& context) {
  std::int64_t end_ns = std::numeric_limits<std::int64_t>::max();  // run by hand: until stopped
  if (!context.phases.empty()) {
    sleep_until(context.phases.front().begin_ns, context.stop);
    end_ns = context.phases.back().end_ns;
  }
  for (bool more = true; more;) {
    Result<bool> next = step(context, end_ns);
    if (!next) {
      // Ranks that are stopped one after the other lose each other; that is the stop, not a
      // failure.
      const bool lost = next.error().code == Code::kTimeout || next.error().code == Code::kPeerLost;
      if (lost && context.stop.stop_requested()) return ok();
      return std::move(next).error().in(
          format("rank %d, step %lld", rank_, static_cast<long long>(steps_)));
    }
    more = *next;
  }
  Status closed = communicator_->close(patience(context));
  if (!closed && !context.stop.stop_requested()) return closed;
  return ok();
}

bool Training::compute(const std::stop_token& stop) {
  for (std::int64_t i = 0; i < gemm_repeats_; ++i) {
    if (stop.stop_requested()) return false;
    gemm_->multiply();
    Status right = gemm_->verify();
    if (!right && !corrupt_) corrupt_ = right.error();
  }
  return true;
}

void Training::verify(const GradientKey& key, bool whole) {
  const std::span<const float> sum(gradient_.data(), gradient_.size() - 1);
  const int ranks = static_cast<int>(ranks_);
  Status right =
      whole ? verify_whole_sum(key, ranks, sum) : verify_sampled_sum(key, ranks, sum, kSamples);
  if (!right && !corrupt_) corrupt_ = right.error();
  if (right) ++verified_;
}

// The times of a step leave out the check of its sum, which real training does not have.
Result<bool> Training::step(ProbeContext& context, std::int64_t end_ns) {
  const GradientKey key{context.seed, steps_};
  Times times{.begin = now_ns()};
  const bool computed = compute(context.stop);
  fill_gradient(key, rank_, {gradient_.data(), gradient_.size() - 1});
  times.computed = now_ns();
  const bool last =
      !computed || corrupt_ || context.stop.stop_requested() || times.computed >= end_ns;
  gradient_.back() = last ? 1.0F : 0.0F;
  const Outcome outcome = TRY(communicator_->all_reduce_sum(gradient_, patience(context)));
  times.end = now_ns();
  if (outcome == Outcome::kStopped) return left_by_stop(context);

  // Checkpoints belong here: every rank has the same sum and has not begun the next step.
  const float stops = gradient_.back();
  verify(key, steps_ % kWholeCheckEvery == 0);
  ++steps_;
  if (computed)
    context.rows.row({{"row", "step"},
                      {"rank", rank_},
                      {"step", key.step},
                      {"begin", times.begin},
                      {"end", times.end},
                      {"compute", times.computed - times.begin},
                      {"comm", times.end - times.computed}});
  return stops == 0.0F;
}

// Another rank, or this one, was asked to stop and could not wait for the step to end.
Result<bool> Training::left_by_stop(const ProbeContext& context) const {
  if (!context.stop.stop_requested())
    sleep_until(now_ns() + std::chrono::nanoseconds(kForeignStop).count(), context.stop);
  if (context.stop.stop_requested()) return false;
  return Error{Code::kPeerLost,
               "another rank was stopped in the middle of a step, but this one was not"};
}

Status Training::check(ProbeContext&) {
  if (corrupt_) return Error(*corrupt_).in(format("rank %d", rank_));
  if (steps_ == 0) return Error{Code::kTimeout, format("rank %d finished no step", rank_)};
  if (verified_ != steps_)
    return Error{Code::kInternal,
                 format("rank %d verified %lld of %lld steps", rank_,
                        static_cast<long long>(verified_), static_cast<long long>(steps_))};
  return ok();
}

constexpr std::array kMetrics = {
    MetricSpec{"training.step_time", "s", Better::kLower,
               "begin of a step to the end of its sum, of the slowest rank of each step"},
    MetricSpec{
        "training.goodput", "1", Better::kHigher,
        "finished steps x median step time of the first phase that trains / length of the window"},
    MetricSpec{"training.retained", "1", Better::kHigher,
               "finished steps per second of the window, relative to the reference phase"},
    MetricSpec{"training.compute_time", "s", Better::kLower,
               "time of a step spent computing and checking it, of the slowest rank"},
    MetricSpec{"training.comm_time", "s", Better::kLower,
               "time of a step spent in the sum over the ranks, waiting for them included, of the "
               "slowest rank"},
};

std::unique_ptr<Probe> create() { return std::make_unique<Training>(); }

}  // namespace

extern const ProbeSpec training_probe;
const ProbeSpec training_probe = {
    .name = "training",
    .summary =
        "data-parallel training: matrix products and a ring all-reduce over UCX, both verified",
    .load = true,
    .generator = false,
    .ranks = true,
    .metrics = kMetrics,
    .create = create,
};

}  // namespace mixproof
