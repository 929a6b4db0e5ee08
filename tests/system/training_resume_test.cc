// Training whose ranks, real worker processes, are killed in the middle of checkpoints: each
// attempt goes on from the newest checkpoint that is wholly valid, and from no other.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/base/json.h"
#include "harness/base/random.h"
#include "harness/base/text.h"
#include "probes/checkpoint/store.h"
#include "tests/fake/paths.h"
#include "tests/fake/ucx_module.h"

namespace mixproof {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kRanks = 2;
constexpr int kKills = 50;
constexpr std::int64_t kSeed = 5;
constexpr std::int64_t kEvery = 10;  // steps between checkpoints

// `mixproof worker` and the lines that it writes.
class Worker {
 public:
  explicit Worker(const Json& spec) {
    std::array<int, 2> in{}, out{};
    EXPECT_EQ(pipe2(in.data(), O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(out.data(), O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    std::string binary = kMixproofBinary, role = "worker";
    std::array<char*, 3> argv = {binary.data(), role.data(), nullptr};
    EXPECT_EQ(posix_spawn(&pid_, binary.c_str(), &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    in_ = in[1];
    out_ = out[0];
    tell({{"worker", spec}});
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(in_);
    close(out_);
  }

  void kill() const { ::kill(pid_, SIGKILL); }
  void tell(const Json& message) const {
    const std::string line = line_of(message) + "\n";
    // It may be dead; then its end of output says so.
    [[maybe_unused]] const ssize_t written = write(in_, line.data(), line.size());
  }
  int output() const { return out_; }
  bool over() const { return over_; }

  // What there is to read, as messages.
  std::vector<Json> take() {
    std::array<char, 1 << 16> bytes;
    const ssize_t count = read(out_, bytes.data(), bytes.size());
    if (count <= 0) over_ = true;
    if (count > 0) text_.append(bytes.data(), static_cast<std::size_t>(count));
    std::vector<Json> out;
    for (std::size_t at = text_.find('\n'); at != std::string::npos; at = text_.find('\n')) {
      const Result<Json> message = parse_json(text_.substr(0, at), "worker");
      EXPECT_TRUE(message) << text_.substr(0, at);
      if (message) out.push_back(*message);
      text_.erase(0, at + 1);
    }
    return out;
  }

 private:
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
  bool over_ = false;
  std::string text_;
};

struct RankLog {
  bool ready = false, done = false;
  std::string failed;
  std::vector<Json> rows;

  std::vector<Json> of(const std::string& kind) const {
    std::vector<Json> out;
    for (const Json& row : rows)
      if (text_at(row, "row") == kind) out.push_back(row);
    return out;
  }
};

// One attempt of all ranks, with what a controller does for them.
class Attempt {
 public:
  Attempt(const std::string& directory, int number, std::int64_t steps_before) {
    for (int rank = 0; rank < kRanks; ++rank)
      workers_.push_back(std::make_unique<Worker>(Json{{"probe", "training"},
                                                       {"name", "trainer"},
                                                       {"node", "here"},
                                                       {"address", "127.0.0.1"},
                                                       {"seed", kSeed},
                                                       {"rank", rank},
                                                       {"ranks", kRanks},
                                                       {"attempt", number},
                                                       {"steps_before", steps_before},
                                                       {"phases", Json::array()},
                                                       {"params",
                                                        {{"ranks", kRanks},
                                                         {"gemm_n", 32},
                                                         {"gemm_repeats", 1},
                                                         {"gradient_bytes", 4'096},
                                                         {"net_devices", "lo"},
                                                         {"step_deadline_s", 5},
                                                         {"checkpoint_every_steps", kEvery},
                                                         {"checkpoint_bytes", 200'000},
                                                         {"checkpoint_deadline_s", 5},
                                                         {"checkpoint_dir", directory}}}}));
    logs.resize(kRanks);
  }

  // Until `done` or the deadline; false when that came first.
  bool pump(std::chrono::milliseconds deadline, const std::function<bool()>& done) {
    const auto end = Clock::now() + deadline;
    while (!done()) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
      if (left <= 0) return false;
      std::array<pollfd, kRanks> fds{};
      for (std::size_t i = 0; i < workers_.size(); ++i)
        fds[i] = {workers_[i]->over() ? -1 : workers_[i]->output(), POLLIN, 0};
      poll(fds.data(), fds.size(), static_cast<int>(std::min<std::int64_t>(left, 50)));
      for (std::size_t i = 0; i < workers_.size(); ++i)
        if (fds[i].revents != 0)
          for (const Json& message : workers_[i]->take()) take(i, message);
    }
    return true;
  }

  bool begin(std::chrono::milliseconds length) {
    if (!pump(20s, [&] { return logs[0].ready && logs[1].ready; })) return false;
    const std::int64_t now = Clock::now().time_since_epoch() / 1ns;
    Json phases = Json::array();
    phases.push_back({{"name", "a"}, {"begin_ns", now}, {"end_ns", now + length / 1ns}});
    for (const auto& worker : workers_) worker->tell({{"do", "go"}, {"phases", phases}});
    return true;
  }
  void kill(std::size_t rank) { workers_[rank]->kill(); }
  // As a controller ends an attempt: those that are left are stopped. False when one does not end
  // by itself.
  bool stop_all() {
    for (const auto& worker : workers_) worker->tell({{"do", "stop"}});
    return all_over(5s);
  }
  bool all_over(std::chrono::milliseconds deadline) {
    return pump(deadline, [&] { return workers_[0]->over() && workers_[1]->over(); });
  }
  // Steps that any rank has behind it, when it began at `from`.
  std::int64_t reached(std::int64_t from) const {
    for (const RankLog& log : logs)
      for (const Json& row : log.of("step")) from = std::max(from, integer_at(row, "step") + 1);
    return from;
  }

  std::vector<RankLog> logs;

 private:
  void take(std::size_t rank, const Json& message) {
    RankLog& log = logs[rank];
    if (const Json* row = member(message, "row")) log.rows.push_back(*row);
    log.ready = log.ready || message.contains("ready");
    log.done = log.done || message.contains("done");
    if (const Json* failed = member(message, "failed"))
      log.failed = text_at(*failed, "code") + " " + text_at(*failed, "message");
    const std::string name = text_at(message, "gather");
    if (name.empty()) return;
    gathers_[name][rank] = text_at(message, "blob");
    if (gathers_[name].size() < workers_.size()) return;
    Json blobs = Json::array();
    for (const auto& [from, blob] : gathers_[name]) blobs.push_back(blob);
    for (const auto& worker : workers_) worker->tell({{"gather", name}, {"blobs", blobs}});
  }

  std::vector<std::unique_ptr<Worker>> workers_;
  std::map<std::string, std::map<std::size_t, std::string>> gathers_;
};

struct TrainingResume : testing::Test {
  std::string folder;
  void SetUp() override {
    SKIP_WITHOUT_UCX();
    signal(SIGPIPE, SIG_IGN);  // workers die while they are told something
    std::string name = testing::TempDir() + "training-resume-XXXXXX";
    folder = mkdtemp(name.data());
  }
  void TearDown() override {
    if (!folder.empty()) std::filesystem::remove_all(folder);
  }
  CheckpointStore store() const {
    return {folder + format("/%016llx", static_cast<unsigned long long>(kSeed)), 0, kRanks};
  }

  // By reading every byte of every checkpoint; {-1, 0} when none is valid.
  CheckpointKey newest_valid(int* torn = nullptr) const {
    CheckpointKey newest{-1, 0};
    const auto survey = *store().survey();
    for (const SurveyedCheckpoint& one : survey) {
      const bool valid = store().verify(one.key).ok();
      if (valid) newest = std::max(newest, one.key);
      if (!valid && torn != nullptr && one.key > newest) ++*torn;
    }
    return newest;
  }
};

// Of all checkpoints that this attempt says are complete.
CheckpointKey newest_acknowledged(const Attempt& attempt, CheckpointKey before) {
  for (const RankLog& log : attempt.logs)
    for (const Json& row : log.of("checkpoint"))
      if (flag_at(row, "ok"))
        before =
            std::max(before, CheckpointKey{integer_at(row, "attempt"), integer_at(row, "step")});
  return before;
}

TEST_F(TrainingResume, GoesOnFromACompleteCheckpointWhereverItWasKilled) {
  CheckpointKey acknowledged{-1, 0};
  std::int64_t reached = 0;
  int torn = 0, in_checkpoint = 0;
  for (int number = 0; number <= kKills; ++number) {
    SCOPED_TRACE("attempt " + std::to_string(number));
    const CheckpointKey expected = newest_valid(&torn);
    EXPECT_GE(expected, acknowledged) << "what was told to be complete stays";
    Random random(static_cast<std::uint64_t>(number), "kills");
    Attempt attempt(folder, number, reached);
    const bool last = number == kKills;
    ASSERT_TRUE(attempt.begin(last ? 500ms : 60s))
        << attempt.logs[0].failed << " / " << attempt.logs[1].failed;
    const std::int64_t from = expected.step;
    if (number > 0)
      for (const RankLog& log : attempt.logs) {
        const std::vector<Json> resumes = log.of("resume");
        ASSERT_EQ(resumes.size(), 1u);
        EXPECT_EQ(integer_at(resumes[0], "from_step"), from);
        EXPECT_EQ(integer_at(resumes[0], "from_attempt"), expected.attempt);
        EXPECT_EQ(integer_at(resumes[0], "lost_steps"), reached - from);
      }
    if (last) {
      ASSERT_TRUE(attempt.all_over(10s));
      for (const RankLog& log : attempt.logs)
        EXPECT_TRUE(log.done && log.failed.empty()) << log.failed;
      break;
    }

    // Into a checkpoint of the victim, after one or two others: from its begin to twice as long as
    // one took before.
    const std::size_t victim = random.below(kRanks);
    const std::int64_t into = from + kEvery * static_cast<std::int64_t>(1 + random.below(3)) - 1;
    const RankLog& log = attempt.logs[victim];
    ASSERT_TRUE(attempt.pump(10s, [&] {
      return !log.of("step").empty() && integer_at(log.of("step").back(), "step") >= into;
    })) << log.failed;
    std::int64_t usual_ns = 3'000'000;
    if (const auto before = log.of("checkpoint"); !before.empty())
      usual_ns = integer_at(before.back(), "done") - integer_at(before.back(), "begin");
    const auto kill_at = Clock::now() + std::chrono::nanoseconds(
                                            random.below(2 * static_cast<std::uint64_t>(usual_ns)));
    while (Clock::now() < kill_at) {
    }
    attempt.kill(victim);
    ASSERT_TRUE(attempt.pump(3s, [&] { return !attempt.logs[1 - victim].failed.empty(); }))
        << "nobody noticed";
    EXPECT_TRUE(starts_with(attempt.logs[1 - victim].failed, "peer_lost"))
        << attempt.logs[1 - victim].failed;
    ASSERT_TRUE(attempt.stop_all());
    for (const RankLog& one : attempt.logs) {
      ASSERT_FALSE(one.of("step").empty());
      EXPECT_EQ(integer_at(one.of("step").front(), "step"), from);
    }
    reached = attempt.reached(from);
    acknowledged = newest_acknowledged(attempt, acknowledged);
    const std::int64_t last_saved =
        log.of("checkpoint").empty() ? from : integer_at(log.of("checkpoint").back(), "step");
    if (!log.of("step").empty() &&
        integer_at(log.of("step").back(), "step") + 1 >= last_saved + kEvery)
      ++in_checkpoint;
  }
  EXPECT_GE(in_checkpoint, kKills / 4) << "the kills must fall into checkpoints";
  EXPECT_GE(torn, 3) << "some of them must leave a torn one";
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "a training that has ended removes its files";
}

TEST_F(TrainingResume, NeverLoadsADamagedCheckpoint) {
  Attempt first(folder, 0, 0);
  ASSERT_TRUE(first.begin(60s));
  ASSERT_TRUE(first.pump(10s, [&] { return first.logs[1].of("checkpoint").size() >= 3; }));
  ASSERT_TRUE(first.stop_all());
  const CheckpointKey newest = newest_valid();
  const std::string shard = store().directory_of(newest) + "/" + shard_name(1, kRanks);
  std::filesystem::resize_file(shard, 199'999);
  const CheckpointKey older = newest_valid();
  ASSERT_LT(older, newest);
  Attempt second(folder, 1, 1'000'000);
  ASSERT_TRUE(second.begin(60s));
  for (const RankLog& log : second.logs)
    EXPECT_EQ(integer_at(log.of("resume")[0], "from_step"), older.step);
  EXPECT_TRUE(second.stop_all());
}

}  // namespace
}  // namespace mixproof
