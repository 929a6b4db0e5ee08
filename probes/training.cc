// Load `training`: data-parallel ranks. Each step multiplies matrices, fills a gradient and sums it
// over the ranks, and emits one row a rank. Steps stay in lockstep by their sum, whose last element
// carries the wish to stop: every rank sees the same sum, so all of them stop after the same step
// and none is left waiting.
//
// Training goes on through gaps between its phases: ranks would need another round to agree on a
// pause, and what lies outside the phases is left out by the judge.
//
// After every checkpoint_every_steps steps, or every checkpoint_every_s seconds, all ranks save
// their parameters together on a storage that they share. Seconds count from the begin of the
// load's first phase, also in later attempts, so that bursts of another load can be aligned with
// them. Clocks of nodes differ: that of rank 0 decides, and its wish travels in the last element of
// the sum too. It is given when the rank has computed, so a checkpoint comes after the first step
// whose computation ended past the due time. What falls due during a checkpoint is left out. A
// checkpoint that one rank cannot save (a full disk) is dropped by all, and training goes on. A
// later attempt (ProbeContext::attempt) goes on from the newest checkpoint that is valid for every
// rank, and proves by its contents that it holds all the steps up to there. The files are removed
// when training has reached its end.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "harness/base/random.h"
#include "harness/base/text.h"
#include "probes/backends/communicator.h"
#include "probes/backends/cpu/gemm.h"
#include "probes/backends/cpu/gradient.h"
#include "probes/backends/module.h"
#include "probes/checkpoint/data_file.h"
#include "probes/checkpoint/due.h"
#include "probes/checkpoint/files.h"
#include "probes/checkpoint/state.h"
#include "probes/checkpoint/store.h"
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
constexpr int kKeptCheckpoints = 2;  // one more than needed: the newest may prove unreadable
// In the last element of the sum: a sum of at least kWantsStop means that a rank wants to stop, of
// at least kWantsEnd that one has reached the end, and anything above 0 that rank 0 wants a
// checkpoint. At most 1024 ranks wish, so lesser wishes never add up to a greater one, and sums
// below kWantsStop are exact. As a vote on a checkpoint 1 stands for a failure.
constexpr float kWantsCheckpoint = 0x1p-11F, kWantsEnd = 1, kWantsStop = 2048;
constexpr const char* kSharedDir = "/run/mixproof/shared";  // of a node
constexpr const char* kDataFile = "data";

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
                "steps between checkpoints; 0: none, or by checkpoint_every_s",
                {.min = 0, .max = 1e9}),
        number("checkpoint_every_s", &checkpoint_every_s_,
               "seconds between checkpoints, from the begin of the load's first phase; 0: none, or "
               "by checkpoint_every_steps; not both",
               {.min = 0, .max = 1e6}),
        integer("checkpoint_bytes", &checkpoint_bytes_, "saved by each rank",
                {.min = ParameterState::kLeastBytes, .max = 0x1p34}),
        number("checkpoint_deadline_s", &checkpoint_deadline_s_,
               "longest wait for the other ranks in one checkpoint", {.min = 0.5, .max = 3600}),
        text("checkpoint_dir", &checkpoint_dir_,
             "storage that all ranks share, for checkpoints and training data; empty: "
             "/run/mixproof/shared/checkpoints/<load>"),
        integer("data_bytes_per_step", &data_bytes_per_step_,
                "training data that each rank reads from the storage in every step; 0: none",
                {.min = 0, .max = 0x1p32}),
        integer("data_file_bytes", &data_file_bytes_, "training data on the storage",
                {.min = 8, .max = 0x1p32}),
    };
  }

  Status check_params() override;
  Cost cost() override;
  Status prepare(ProbeContext& context) override;
  Status run(ProbeContext& context) override;
  Status check(ProbeContext& context) override;

 private:
  struct Times {
    std::int64_t begin = 0, read = 0, computed = 0, end = 0;
  };

  Patience patience(const ProbeContext& context, double deadline_s) const {
    return {Clock::now() + milliseconds(static_cast<std::int64_t>(deadline_s * 1e3)), context.stop};
  }
  bool saves() const { return checkpoint_every_steps_ > 0 || checkpoint_every_s_ > 0; }
  bool uses_storage() const { return saves() || data_bytes_per_step_ > 0; }
  void set_due(const ProbeContext& context);
  float wish(bool stopped, std::int64_t at_ns, std::int64_t end_ns);
  Status open_storage(ProbeContext& context);
  Status open_data(const ProbeContext& context);
  Status resume(ProbeContext& context);
  Result<ParameterState> load(const CheckpointKey& key, std::uint64_t seed) const;
  float proof_of(std::span<const float> sum, std::int64_t step) const;
  float expected_proof(const GradientKey& key) const;
  Status connect(ProbeContext& context);
  Status read_data(const ProbeContext& context);
  bool compute(const std::stop_token& stop);  // false when a stop cut it short
  void verify(const GradientKey& key, bool whole);
  Result<bool> step(ProbeContext& context, std::int64_t end_ns);  // whether there is a next one
  Result<bool> checkpoint(ProbeContext& context);                 // whether training goes on
  static float vote_of(const Status& saved, const std::stop_token& stop);
  Result<float> agree(const ProbeContext& context, float vote, Outcome* outcome);
  Result<bool> left_by_stop(const ProbeContext& context) const;
  void leave_storage() const;

  std::int64_t ranks_ = 2, gemm_n_ = 256, gemm_repeats_ = 8;
  std::int64_t gradient_bytes_ = 4 << 20, bucket_bytes_ = 1 << 20;
  std::string transport_ = "tcp", net_devices_;
  double step_deadline_s_ = 20;
  std::int64_t checkpoint_every_steps_ = 0, checkpoint_bytes_ = 4 << 20;
  double checkpoint_every_s_ = 0;
  double checkpoint_deadline_s_ = 60;
  std::string checkpoint_dir_;
  std::int64_t data_bytes_per_step_ = 0, data_file_bytes_ = 64 << 20;

  int rank_ = 0;
  std::optional<Gemm> gemm_;
  std::vector<float> gradient_;     // one element more than the gradient: the wish to stop
  float vote_ = 0;                  // of a checkpoint
  std::vector<PhaseSpan> planned_;  // all phases, from 0 = the begin of the first
  DueTimes due_;                    // of checkpoints, by the clock of rank 0
  std::unique_ptr<Communicator> communicator_;  // after the buffer that it sends from
  std::int64_t first_step_ = 0, steps_ = 0, verified_ = 0;
  bool ended_ = false;  // at the end of the last phase, not by a stop
  std::optional<ParameterState> state_;
  std::vector<std::byte> parameters_;  // as they are saved
  std::string storage_;                // directory of this training on the storage
  std::optional<CheckpointStore> store_;
  std::optional<DataFile> data_;
  std::vector<std::byte> batch_;  // what a step has read
  std::optional<Error> corrupt_;  // the first wrong result
};

Status Training::check_params() {
  if (checkpoint_every_steps_ == 0 || checkpoint_every_s_ == 0) return ok();
  return Error{Code::kInvalid, "checkpoint_every_steps and checkpoint_every_s exclude each other"};
}

// An upper bound: no core computes faster than about 200 GFLOP/s, and a rank sends one gradient's
// worth a step.
Cost Training::cost() {
  const double n = static_cast<double>(ranks_);
  const double size = static_cast<double>(gemm_n_);
  const double least_step_s = static_cast<double>(gemm_repeats_) * 2 * size * size * size / 200e9;
  double saved_per_s = 0;
  if (checkpoint_every_s_ > 0)
    saved_per_s = static_cast<double>(checkpoint_bytes_) / checkpoint_every_s_;
  else if (checkpoint_every_steps_ > 0)
    saved_per_s = static_cast<double>(checkpoint_bytes_) /
                  static_cast<double>(checkpoint_every_steps_) / least_step_s;
  return {
      .network_bytes_per_s = 2 * (n - 1) / n * static_cast<double>(gradient_bytes_) / least_step_s,
      .storage_bytes_per_s =
          static_cast<double>(data_bytes_per_step_) / least_step_s + saved_per_s};
}

Status Training::prepare(ProbeContext& context) {
  const int group_size = context.group == nullptr ? 1 : context.group->size();
  if (group_size != ranks_)
    return Error{Code::kInvalid, format("ranks is %lld, but the load runs on %d nodes",
                                        static_cast<long long>(ranks_), group_size)};
  TRY(check_params());
  rank_ = context.group == nullptr ? 0 : context.group->rank();
  planned_ = context.phases;
  gemm_.emplace(TRY(Gemm::create(gemm_n_, context.seed)));
  gradient_.assign(static_cast<std::size_t>(gradient_bytes_) / sizeof(float) + 1, 0.0F);
  state_.emplace(context.seed);
  if (uses_storage()) TRY(open_storage(context));
  TRY(connect(context));
  if (context.attempt > 0) TRY(resume(context));
  if (data_bytes_per_step_ > 0) TRY(open_data(context));

  compute(context.stop);
  const GradientKey key{context.seed, kWarmUpStep};
  const std::span<float> values(gradient_.data(), gradient_.size() - 1);
  fill_gradient(key, rank_, values);
  const Outcome warm =
      TRY(communicator_->all_reduce_sum(gradient_, patience(context, step_deadline_s_)));
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
  set_due(context);
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
  Status closed = communicator_->close(patience(context, step_deadline_s_));
  if (closed && ended_) leave_storage();  // after a stop the training may go on: the files stay
  if (!closed && !context.stop.stop_requested()) return closed;
  return ok();
}

// Every rank has taken leave, so none reads or writes here any more. What cannot be removed says
// nothing about the training.
void Training::leave_storage() const {
  if (rank_ != 0 || !store_) return;
  static_cast<void>(store_->clear());
  static_cast<void>(remove_file(storage_ + "/" + kDataFile));
  ::rmdir(storage_.c_str());
}

// One directory for each training: its seed tells runs, and the stretches of a run, apart.
Status Training::open_storage(ProbeContext& context) {
  const std::string root = checkpoint_dir_.empty()
                               ? std::string(kSharedDir) + "/checkpoints/" + context.name
                               : checkpoint_dir_;
  storage_ = root + format("/%016llx", static_cast<unsigned long long>(context.seed));
  TRY(make_synced_directory(storage_));
  store_.emplace(storage_, rank_, ranks_);
  if (saves()) parameters_.resize(static_cast<std::size_t>(checkpoint_bytes_));
  if (rank_ != 0) return ok();
  // What a run with the same seed has left is not of this training.
  if (context.attempt == 0) TRY(store_->clear());
  if (data_bytes_per_step_ == 0) return ok();
  return DataFile::create(storage_ + "/" + kDataFile, data_file_bytes_, context.seed, context.stop);
}

Status Training::open_data(const ProbeContext& context) {
  if (data_bytes_per_step_ > data_file_bytes_)
    return Error{Code::kInvalid, "data_bytes_per_step is more than data_file_bytes"};
  data_ = TRY(DataFile::open(storage_ + "/" + kDataFile, data_file_bytes_, context.seed));
  batch_.resize(static_cast<std::size_t>(data_bytes_per_step_));
  return ok();
}

// One element of each step's sum, another one in each step, goes into the parameters.
float Training::proof_of(std::span<const float> sum, std::int64_t step) const {
  return sum[static_cast<std::size_t>(step) % sum.size()];
}

float Training::expected_proof(const GradientKey& key) const {
  const std::size_t index = static_cast<std::size_t>(key.step) % (gradient_.size() - 1);
  float sum = 0;
  for (int rank = 0; rank < static_cast<int>(ranks_); ++rank)
    sum += gradient_value(key, rank, index);
  return sum;
}

// The parameters of a checkpoint, if they are those of all steps before it, each done once.
Result<ParameterState> Training::load(const CheckpointKey& key, std::uint64_t seed) const {
  const std::vector<std::byte> parameters = TRY(store_->load(key));
  ParameterState found = TRY(ParameterState::read(rank_, parameters));
  ParameterState expected(seed);
  for (std::int64_t step = 0; step < key.step; ++step) expected.apply(expected_proof({seed, step}));
  if (found == expected) return found;
  return Error{Code::kCorrupt,
               format("rank %d: the checkpoint of %s holds other parameters: %lld "
                      "steps of some training",
                      rank_, words_of(key).c_str(), static_cast<long long>(found.steps()))};
}

// From the newest checkpoint that every rank finds valid; from the start when there is none.
Status Training::resume(ProbeContext& context) {
  const std::int64_t begin = now_ns();
  std::vector<SurveyedCheckpoint> survey;
  if (store_) survey = TRY(store_->survey());
  std::vector<std::string> usable = {usable_text(survey)};
  if (context.group != nullptr)
    usable =
        TRY(context.group->all_gather("training checkpoints", usable.front(), kConnectDeadline));
  const std::optional<CheckpointKey> newest = newest_of_all(usable);
  if (newest) {
    state_ = TRY(load(*newest, context.seed));
    first_step_ = steps_ = newest->step;
  }
  Json torn = Json::array();
  for (const SurveyedCheckpoint& one : survey)
    if (!one.torn.empty()) torn.push_back(one.torn);
  context.rows.row({{"row", "resume"},
                    {"rank", rank_},
                    {"attempt", context.attempt},
                    {"from_attempt", newest ? newest->attempt : -1},
                    {"from_step", first_step_},
                    {"lost_steps", std::max<std::int64_t>(0, context.steps_before - first_step_)},
                    {"begin", begin},
                    {"end", now_ns()},
                    {"torn", torn}});
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

// A batch from somewhere in the training data, another one in each step and rank.
Status Training::read_data(const ProbeContext& context) {
  if (!data_) return ok();
  const std::int64_t batches = data_file_bytes_ / data_bytes_per_step_;
  Random random(context.seed ^ static_cast<std::uint64_t>(steps_), "batch");
  const std::uint64_t pick = random.next() + static_cast<std::uint64_t>(rank_);
  const auto batch = static_cast<std::int64_t>(pick % static_cast<std::uint64_t>(batches));
  Status read = data_->read(batch * data_bytes_per_step_ / 8 * 8, batch_);
  if (read || read.error().code != Code::kCorrupt) return read;
  if (!corrupt_) corrupt_ = read.error();
  return ok();
}

// The times of a step leave out the check of its sum, which real training does not have.
Result<bool> Training::step(ProbeContext& context, std::int64_t end_ns) {
  const GradientKey key{context.seed, steps_};
  Times times{.begin = now_ns()};
  TRY(read_data(context));
  times.read = data_ ? now_ns() : times.begin;
  const bool computed = compute(context.stop);
  fill_gradient(key, rank_, {gradient_.data(), gradient_.size() - 1});
  times.computed = now_ns();
  const bool stopped = !computed || corrupt_ || context.stop.stop_requested();
  gradient_.back() = wish(stopped, times.computed, end_ns);
  const Outcome outcome =
      TRY(communicator_->all_reduce_sum(gradient_, patience(context, step_deadline_s_)));
  times.end = now_ns();
  if (outcome == Outcome::kStopped) return left_by_stop(context);

  const float wishes = gradient_.back();
  verify(key, steps_ % kWholeCheckEvery == 0);
  state_->apply(proof_of({gradient_.data(), gradient_.size() - 1}, steps_));
  ++steps_;
  if (computed) {
    Json row = {{"row", "step"},
                {"rank", rank_},
                {"step", key.step},
                {"begin", times.begin},
                {"end", times.end},
                {"compute", times.computed - times.read},
                {"comm", times.end - times.computed}};
    if (data_) row["data"] = times.read - times.begin;
    context.rows.row(row);
  }
  ended_ = wishes >= kWantsEnd && wishes < kWantsStop;
  if (wishes >= kWantsEnd) return false;
  // Every rank has the same sum, so all of them come here together.
  const bool save =
      checkpoint_every_steps_ > 0 ? steps_ % checkpoint_every_steps_ == 0 : wishes > 0.0F;
  if (!save) return true;
  const bool more = TRY(checkpoint(context));
  due_.skip(now_ns());
  return more;
}

// Of a later attempt, the phases that are over are left out.
void Training::set_due(const ProbeContext& context) {
  std::int64_t origin_ns = now_ns();
  if (!context.phases.empty()) origin_ns = context.phases.front().begin_ns;
  for (const PhaseSpan& planned : planned_)
    if (!context.phases.empty() && planned.name == context.phases.front().name)
      origin_ns -= planned.begin_ns;
  due_ = DueTimes(origin_ns, checkpoint_every_s_, now_ns());
}

float Training::wish(bool stopped, std::int64_t at_ns, std::int64_t end_ns) {
  if (stopped) return kWantsStop;
  if (at_ns >= end_ns) return kWantsEnd;
  return rank_ == 0 && due_.take(at_ns) ? kWantsCheckpoint : 0.0F;
}

// Its time is no step's: training stands still from `begin` to `done`. What is saved is laid out
// before that, as a real rank's parameters are.
Result<bool> Training::checkpoint(ProbeContext& context) {
  const CheckpointKey key{context.attempt, steps_};
  state_->write(rank_, parameters_);
  const std::int64_t begin = now_ns();
  Status saved = corrupt_ ? Status(Error(*corrupt_).in("not saved"))
                          : store_->save(key, parameters_, context.stop);
  const std::int64_t end = now_ns();
  Outcome outcome = Outcome::kStopped;
  float votes = TRY(agree(context, vote_of(saved, context.stop), &outcome));
  if (outcome == Outcome::kStopped) return left_by_stop(context);
  if (votes == 0.0F) {
    if (rank_ == 0) saved = store_->complete(key);
    // Without an answer the marker may be there or not: either way the files say what is true.
    votes = TRY(agree(context, vote_of(saved, context.stop), &outcome));
    if (outcome == Outcome::kStopped) return left_by_stop(context);
  }
  if (votes >= kWantsStop) {
    // Cut short by a stop: not a checkpoint that failed, and not one to keep.
    static_cast<void>(store_->discard(key));
    return false;
  }
  const bool good = votes == 0.0F;
  const std::int64_t done = now_ns();
  std::string detail = saved ? "" : saved.error().message;
  if (!good && saved) detail = "another rank could not save its part";
  // Old and failed checkpoints only take space; that they stay is worth a word, not an end.
  const Status tidied = !good        ? store_->discard(key)
                        : rank_ == 0 ? store_->prune(kKeptCheckpoints)
                                     : ok();
  if (!tidied) detail += (detail.empty() ? "" : "; ") + tidied.error().message;
  context.rows.row({{"row", "checkpoint"},
                    {"rank", rank_},
                    {"attempt", key.attempt},
                    {"step", key.step},
                    {"begin", begin},
                    {"end", end},
                    {"done", done},
                    {"bytes", checkpoint_bytes_},
                    {"ok", good},
                    {"detail", detail}});
  return true;
}

float Training::vote_of(const Status& saved, const std::stop_token& stop) {
  if (saved.ok()) return 0.0F;
  return stop.stop_requested() && saved.error().code == Code::kRefused ? kWantsStop : 1.0F;
}

// The sum of all ranks' votes; every rank gets the same.
Result<float> Training::agree(const ProbeContext& context, float vote, Outcome* outcome) {
  vote_ = vote;
  *outcome =
      TRY(communicator_->all_reduce_sum({&vote_, 1}, patience(context, checkpoint_deadline_s_)));
  return vote_;
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
  if (steps_ == first_step_)
    return Error{Code::kTimeout, format("rank %d finished no step", rank_)};
  const std::int64_t done = steps_ - first_step_;
  if (verified_ != done)
    return Error{Code::kInternal,
                 format("rank %d verified %lld of %lld steps", rank_,
                        static_cast<long long>(verified_), static_cast<long long>(done))};
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
    MetricSpec{"training.checkpoint_time", "s", Better::kLower,
               "from the begin of a rank's save to its knowledge that the checkpoint is complete, "
               "of the slowest rank of each checkpoint"},
    MetricSpec{"training.checkpoint_bandwidth", "B/s", Better::kHigher,
               "bytes of a rank over the time until they are on the storage, of the slowest rank "
               "of each checkpoint"},
    MetricSpec{"training.checkpoint_failures", "1", Better::kLower,
               "checkpoints that could not be saved; training went on without them"},
    MetricSpec{"training.steps_lost", "1", Better::kLower,
               "finished steps that had to be done again after a rank was lost"},
    MetricSpec{"training.resume_time", "s", Better::kLower,
               "loss of a rank to the end of the first step after it, of all ranks"},
    MetricSpec{"training.detect_time", "s", Better::kLower,
               "loss of a rank to the first failure of another rank or its notice in the "
               "controller"},
};

std::unique_ptr<Probe> create() { return std::make_unique<Training>(); }

}  // namespace

extern const ProbeSpec training_probe;
const ProbeSpec training_probe = {
    .name = "training",
    .summary =
        "data-parallel training: matrix products and a ring all-reduce over UCX, both verified; "
        "checkpoints and data on a shared storage",
    .load = true,
    .generator = false,
    .ranks = true,
    .metrics = kMetrics,
    .create = create,
};

}  // namespace mixproof
