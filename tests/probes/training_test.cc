// The load `training` with its ranks as threads, over tcp on the loopback device.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "probes/backends/cpu/gemm.h"
#include "probes/checkpoint/state.h"
#include "probes/checkpoint/store.h"
#include "tests/fake/row_list.h"
#include "tests/fake/thread_group.h"
#include "tests/fake/ucx_module.h"

namespace mixproof {
extern const ProbeSpec training_probe;

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

std::int64_t ns(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

// One rank: the load, its context and what it emitted.
struct Rank {
  fake::RowList rows;
  std::stop_source stop;
  ProbeContext context{.rows = rows};
  std::unique_ptr<Probe> load = training_probe.create();

  Status prepare(Group* group, int ranks, const Json& more = Json::object()) {
    Json params = {{"ranks", ranks},           {"gemm_n", 64},           {"gemm_repeats", 2},
                   {"gradient_bytes", 40'004}, {"bucket_bytes", 16'384}, {"net_devices", "lo"},
                   {"step_deadline_s", 2}};
    params.update(more);
    TRY(read_params(params, load->params()));
    context.group = group;
    context.stop = stop.get_token();
    context.seed = 5;
    return load->prepare(context);
  }
  Status run(Clock::time_point begin, std::chrono::milliseconds length) {
    context.phases = {{"a", ns(begin), ns(begin + length / 2)},
                      {"b", ns(begin + length / 2), ns(begin + length)}};
    return load->run(context);
  }
};

class Training : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_UCX();
    setenv("MIXPROOF_MODULE_DIR", fake::build_folder().c_str(), 1);
    // While there is only one thread: the module sets what its library reads from the environment.
    ASSERT_TRUE(open_backend("ucx", fake::build_folder()));
  }
  void TearDown() override { unsetenv("MIXPROOF_MODULE_DIR"); }
};

TEST_F(Training, EmitsARowOfEveryStepAndRankAndAllRanksStopAtTheSameStep) {
  for (const int size : {1, 2, 3}) {
    std::array<std::size_t, 3> steps = {};
    fake::ThreadGroup ranks(size);
    const auto begin = Clock::now() + 500ms;
    ranks.run([&](Group& group) {
      Rank rank;
      Status prepared = rank.prepare(&group, size);
      ASSERT_TRUE(prepared) << prepared.error().message;
      EXPECT_TRUE(rank.rows.rows().empty()) << "the warm-up is no step";
      // Clocks of nodes differ: the last rank believes that the end comes 100 ms later.
      Status ran = rank.run(begin, 300ms + 100ms * (group.rank() == size - 1));
      ASSERT_TRUE(ran) << ran.error().message;
      Status checked = rank.load->check(rank.context);
      EXPECT_TRUE(checked) << checked.error().message;

      const std::vector<Json> rows = rank.rows.rows();
      steps.at(static_cast<std::size_t>(group.rank())) = rows.size();
      std::int64_t before = ns(begin);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(rows[i].at("row"), "step");
        EXPECT_EQ(rows[i].at("rank"), group.rank());
        EXPECT_EQ(rows[i].at("step"), i);
        EXPECT_GE(rows[i].at("begin").get<std::int64_t>(), before);
        before = rows[i].at("end").get<std::int64_t>();
        EXPECT_EQ(rows[i].at("begin").get<std::int64_t>() +
                      rows[i].at("compute").get<std::int64_t>() +
                      rows[i].at("comm").get<std::int64_t>(),
                  before);
      }
    });
    EXPECT_GT(steps[0], 1U);
    for (int rank = 1; rank < size; ++rank)
      EXPECT_EQ(steps[0], steps.at(static_cast<std::size_t>(rank)));
  }
}

TEST_F(Training, SaysWhatItRunsOn) {
  fake::ThreadGroup ranks(2);
  ranks.run([](Group& group) {
    Rank rank;
    ASSERT_TRUE(rank.prepare(&group, 2));
    const Json& info = rank.context.info;
    EXPECT_EQ(info.at("backend"), "ucx");
    EXPECT_EQ(info.at("transport"), "tcp");
    EXPECT_EQ(info.at("blas_core"), Gemm::core_name());
    EXPECT_EQ(info.at("ranks"), 2);
    EXPECT_EQ(info.at("gradient_bytes"), 40'004);
    EXPECT_TRUE(rank.run(Clock::now(), 1ms));
  });
}

TEST_F(Training, ReportsAWrongSumAsCorrupt) {
  fake::ThreadGroup ranks(2);
  ranks.run([](Group& group) {
    Rank rank;
    ASSERT_TRUE(rank.prepare(&group, 2));
    if (group.rank() == 1) rank.context.seed += 1;  // now gives other values than rank 0 expects
    Status ran = rank.run(Clock::now(), 200ms);
    EXPECT_TRUE(ran) << ran.error().message;
    Status checked = rank.load->check(rank.context);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, Code::kCorrupt);
    EXPECT_NE(checked.error().message.find("element 0 of step 0"), std::string::npos)
        << checked.error().message;
    EXPECT_LE(rank.rows.rows().size(), 2U);
  });
}

TEST_F(Training, NamesARankThatIsAbsentFromTheStart) {
  fake::ThreadGroup ranks(2, 300ms);
  ranks.run([](Group& group) {
    if (group.rank() == 1) return;
    Rank rank;
    Status prepared = rank.prepare(&group, 2);
    ASSERT_FALSE(prepared);
    EXPECT_EQ(prepared.error().code, Code::kTimeout);
    EXPECT_NE(prepared.error().message.find("rank 1"), std::string::npos)
        << prepared.error().message;
  });
}

TEST_F(Training, NamesARankThatStopsTakingPart) {
  fake::ThreadGroup ranks(2);
  ranks.run([](Group& group) {
    Rank rank;
    ASSERT_TRUE(rank.prepare(&group, 2, {{"step_deadline_s", 0.5}}));
    if (group.rank() == 1) {
      EXPECT_TRUE(group.all_gather("given up", "", 10s));
      return;
    }
    Status ran = rank.run(Clock::now(), 10s);
    EXPECT_TRUE(group.all_gather("given up", "", 10s));
    ASSERT_FALSE(ran);
    EXPECT_EQ(ran.error().code, Code::kTimeout);
    EXPECT_NE(ran.error().message.find("rank 1 did not answer"), std::string::npos)
        << ran.error().message;
    EXPECT_EQ(rank.load->check(rank.context).error().code, Code::kTimeout)
        << "no step was finished";
  });
}

TEST_F(Training, StopsSoonWithAndWithoutItsPeer) {
  for (const bool peer_takes_part : {true, false}) {
    fake::ThreadGroup ranks(2);
    ranks.run([&](Group& group) {
      Rank rank;
      ASSERT_TRUE(rank.prepare(&group, 2, {{"step_deadline_s", 30}}));
      if (group.rank() == 1 && !peer_takes_part) {
        EXPECT_TRUE(group.all_gather("stopped", "", 10s));
        return;
      }
      Clock::time_point asked;
      std::jthread later([&] {
        std::this_thread::sleep_for(200ms + 50ms * group.rank());
        asked = Clock::now();
        rank.stop.request_stop();
      });
      Status ran = rank.run(Clock::now(), 60s);
      const auto returned = Clock::now();
      later.join();
      EXPECT_TRUE(ran) << ran.error().message;
      EXPECT_LT(returned - asked, 10s);
      if (!peer_takes_part) {
        EXPECT_TRUE(group.all_gather("stopped", "", 10s));
      }
      EXPECT_EQ(rank.load->check(rank.context).ok(), peer_takes_part);
    });
  }
}

TEST_F(Training, RunsUntilStoppedWhenItHasNoPhases) {
  Rank rank;
  ASSERT_TRUE(rank.prepare(nullptr, 1));
  EXPECT_EQ(rank.context.info.at("transport"), "none");
  std::jthread later([&rank] {
    std::this_thread::sleep_for(100ms);
    rank.stop.request_stop();
  });
  EXPECT_TRUE(rank.load->run(rank.context));
  EXPECT_FALSE(rank.rows.rows().empty());
}

// A storage that the ranks of a test share.
struct Storage {
  std::string path;
  Storage() {
    std::string name = testing::TempDir() + "training-XXXXXX";
    path = mkdtemp(name.data());
  }
  ~Storage() { std::filesystem::remove_all(path); }
  Json params(const Json& more = Json::object()) const {
    Json out = {
        {"checkpoint_dir", path}, {"checkpoint_every_steps", 5}, {"checkpoint_bytes", 10'001}};
    out.update(more);
    return out;
  }
  std::string of_training() const { return path + "/0000000000000005"; }  // by its seed
};

std::vector<Json> of_kind(const std::vector<Json>& rows, const std::string& kind) {
  std::vector<Json> out;
  for (const Json& row : rows)
    if (row.at("row") == kind) out.push_back(row);
  return out;
}

// Enough for three checkpoints, one after every fifth step.
constexpr std::size_t kStepsBeforeStop = 16;

// Trains until stopped, as when the controller ends an attempt: checkpoints stay.
void train_and_stop(const Storage& storage, int attempt, const Json& more,
                    const std::function<void(int rank, const std::vector<Json>& rows)>& look) {
  fake::ThreadGroup ranks(2);
  ranks.run([&](Group& group) {
    Rank rank;
    rank.context.attempt = attempt;
    rank.context.steps_before = 1000;
    Status prepared = rank.prepare(&group, 2, storage.params(more));
    ASSERT_TRUE(prepared) << prepared.error().message;
    std::jthread later([&rank](const std::stop_token& over) {
      while (!over.stop_requested() && of_kind(rank.rows.rows(), "step").size() < kStepsBeforeStop)
        std::this_thread::sleep_for(1ms);
      rank.stop.request_stop();
    });
    Status ran = rank.run(Clock::now(), 60s);
    EXPECT_TRUE(ran) << ran.error().message;
    later = {};
    look(group.rank(), rank.rows.rows());
  });
}

TEST_F(Training, SavesCheckpointsThatAreValidAndKeepsTwo) {
  Storage storage;
  train_and_stop(storage, 0, Json::object(), [](int rank, const std::vector<Json>& rows) {
    const std::vector<Json> saved = of_kind(rows, "checkpoint");
    ASSERT_GE(saved.size(), 3U);
    for (std::size_t i = 0; i < saved.size(); ++i) {
      EXPECT_EQ(saved[i].at("step"), 5 * (i + 1));
      EXPECT_EQ(saved[i].at("rank"), rank);
      EXPECT_EQ(saved[i].at("bytes"), 10'001);
      EXPECT_EQ(saved[i].at("ok"), true) << saved[i];
      EXPECT_LT(saved[i].at("begin"), saved[i].at("end"));
      EXPECT_LE(saved[i].at("end"), saved[i].at("done"));
    }
  });
  const CheckpointStore store(storage.of_training(), 0, 2);
  const auto survey = store.survey();
  ASSERT_TRUE(survey);
  std::size_t valid = 0;
  for (const SurveyedCheckpoint& one : *survey) valid += store.verify(one.key).ok() ? 1 : 0;
  EXPECT_EQ(valid, 2U);
}

// Each checkpoint is after the first step that ended its computation past a multiple of the period.
TEST_F(Training, SavesByTheClockOfTheRunAllRanksAtTheSameStep) {
  Storage storage;
  fake::ThreadGroup ranks(2);
  std::array<std::vector<std::int64_t>, 2> saved_at;
  const auto begin = Clock::now() + 500ms;
  constexpr std::int64_t kEvery = 150'000'000;
  ranks.run([&](Group& group) {
    Rank rank;
    const Json params =
        storage.params({{"checkpoint_every_steps", 0}, {"checkpoint_every_s", 0.15}});
    ASSERT_TRUE(rank.prepare(&group, 2, params));
    // Clocks of nodes differ: rank 1 would be due 40 ms later.
    const bool other = group.rank() == 1;
    Status ran = rank.run(begin + 40ms * other, 800ms);
    ASSERT_TRUE(ran) << ran.error().message;
    Status checked = rank.load->check(rank.context);
    EXPECT_TRUE(checked) << checked.error().message;
    const std::vector<Json> rows = rank.rows.rows();
    std::int64_t due = 1;
    for (const Json& row : of_kind(rows, "checkpoint")) {
      saved_at.at(static_cast<std::size_t>(group.rank())).push_back(row.at("step"));
      if (other) continue;
      const std::int64_t after = row.at("begin").get<std::int64_t>() - ns(begin);
      EXPECT_GE(after, due * kEvery) << "not before it is due";
      due = after / kEvery + 1;
    }
  });
  EXPECT_EQ(saved_at[0], saved_at[1]);
  EXPECT_GE(saved_at[0].size(), 2U);
  EXPECT_LE(saved_at[0].size(), 5U);
}

TEST_F(Training, ALaterAttemptSavesAtTheTimesOfTheFirst) {
  Storage storage;
  const Json params = storage.params({{"checkpoint_every_steps", 0}, {"checkpoint_every_s", 0.4}});
  // Phases of 250 ms; the second attempt begins in the second one, as the controller tells it.
  for (const int attempt : {0, 1}) {
    fake::ThreadGroup ranks(2);
    ranks.run([&](Group& group) {
      Rank rank;
      rank.context.attempt = attempt;
      rank.context.phases = {{"a", 0, 250'000'000}, {"b", 250'000'000, 1'050'000'000}};
      ASSERT_TRUE(rank.prepare(&group, 2, params));
      const auto begin = Clock::now() + 100ms;
      rank.context.phases = {{"b", ns(begin), ns(begin + 800ms)}};  // 0.25 s after the load began
      Status ran = rank.load->run(rank.context);
      ASSERT_TRUE(ran) << ran.error().message;
      const std::vector<Json> saved = of_kind(rank.rows.rows(), "checkpoint");
      ASSERT_FALSE(saved.empty());
      EXPECT_LE(saved.size(), 2U);
      EXPECT_GE(saved[0].at("begin").get<std::int64_t>() - ns(begin),
                group.rank() == 0 ? 150'000'000 : 100'000'000);
      EXPECT_EQ(saved[0].at("attempt"), attempt);
    });
  }
}

TEST_F(Training, StepsAndSecondsDoNotBothDecideOnCheckpoints) {
  Storage storage;
  Rank rank;
  Status prepared = rank.prepare(nullptr, 1, storage.params({{"checkpoint_every_s", 1}}));
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, Code::kInvalid);
}

TEST_F(Training, GoesOnFromTheNewestCheckpointThatIsValidForAllRanks) {
  Storage storage;
  train_and_stop(storage, 0, Json::object(), [](int, const std::vector<Json>&) {});
  const CheckpointStore store(storage.of_training(), 0, 2);
  auto survey = *store.survey();
  std::erase_if(survey, [&](const SurveyedCheckpoint& one) { return !store.verify(one.key); });
  ASSERT_EQ(survey.size(), 2U);
  // Rank 1 finds the newest one damaged; rank 0 cannot know.
  std::filesystem::resize_file(store.directory_of(survey[0].key) + "/" + shard_name(1, 2), 100);
  const std::int64_t from = survey[1].key.step;
  train_and_stop(storage, 1, Json::object(), [&](int rank, const std::vector<Json>& rows) {
    ASSERT_EQ(rows.front().at("row"), "resume");
    EXPECT_EQ(rows.front().at("from_step"), from);
    EXPECT_EQ(rows.front().at("lost_steps"), 1000 - from);
    bool named = false;
    for (const Json& torn : rows.front().at("torn"))
      named = named || torn.get<std::string>().find(words_of(survey[0].key)) == 0;
    EXPECT_EQ(named, rank == 1) << rows.front();
    EXPECT_EQ(of_kind(rows, "step").front().at("step"), from);
  });
}

TEST_F(Training, RefusesACheckpointOfOtherParameters) {
  Storage storage;
  train_and_stop(storage, 0, Json::object(), [](int, const std::vector<Json>&) {});
  // The same files under the name of another step: whole, but they lack a step.
  const CheckpointStore store(storage.of_training(), 0, 2);
  const CheckpointKey key{0, 99'999};
  ParameterState state(5);
  std::vector<std::byte> parameters(10'001);
  for (const int rank : {0, 1}) {
    state.write(rank, parameters);
    ASSERT_TRUE(CheckpointStore(storage.of_training(), rank, 2).save(key, parameters, {}));
  }
  ASSERT_TRUE(store.complete(key));
  fake::ThreadGroup ranks(2);
  ranks.run([&](Group& group) {
    Rank rank;
    rank.context.attempt = 1;
    Status prepared = rank.prepare(&group, 2, storage.params());
    ASSERT_FALSE(prepared);
    EXPECT_EQ(prepared.error().code, Code::kCorrupt);
    EXPECT_NE(prepared.error().message.find("holds other parameters"), std::string::npos)
        << prepared.error().message;
  });
}

TEST_F(Training, BeginsAtTheStartWhenThereIsNoCheckpoint) {
  Storage storage;
  train_and_stop(storage, 2, {{"checkpoint_every_steps", 0}},
                 [](int, const std::vector<Json>& rows) {
                   EXPECT_EQ(rows.front().at("from_step"), 0);
                   EXPECT_EQ(rows.front().at("from_attempt"), -1);
                   EXPECT_EQ(of_kind(rows, "step").front().at("step"), 0);
                   EXPECT_TRUE(of_kind(rows, "checkpoint").empty());
                 });
}

TEST_F(Training, AFirstAttemptIgnoresWhatAnEarlierRunLeft) {
  Storage storage;
  for (int run = 0; run < 2; ++run)
    train_and_stop(storage, 0, Json::object(), [](int, const std::vector<Json>& rows) {
      EXPECT_EQ(of_kind(rows, "step").front().at("step"), 0);
      EXPECT_TRUE(of_kind(rows, "resume").empty());
    });
}

TEST_F(Training, RemovesItsFilesWhenItHasReachedItsEnd) {
  Storage storage;
  fake::ThreadGroup ranks(2);
  ranks.run([&](Group& group) {
    Rank rank;
    ASSERT_TRUE(rank.prepare(&group, 2, storage.params({{"data_bytes_per_step", 5'003}})));
    EXPECT_TRUE(rank.run(Clock::now(), 200ms));
    EXPECT_FALSE(of_kind(rank.rows.rows(), "checkpoint").empty());
  });
  EXPECT_TRUE(std::filesystem::is_empty(storage.path));
}

TEST_F(Training, ReadsItsDataAndFindsItWrong) {
  for (const bool damaged : {false, true}) {
    Storage storage;
    fake::ThreadGroup ranks(2);
    ranks.run([&](Group& group) {
      Rank rank;
      const Json params = storage.params({{"data_bytes_per_step", 4'096},
                                          {"data_file_bytes", 8'192},
                                          {"checkpoint_every_steps", 0}});
      ASSERT_TRUE(rank.prepare(&group, 2, params));
      if (damaged && group.rank() == 0) {
        std::fstream file(storage.of_training() + "/data");
        for (const int at : {4'000, 8'000}) file.seekp(at).write("damaged", 7);
      }
      Status ran = rank.run(Clock::now() + 50ms, 200ms);
      EXPECT_TRUE(ran) << ran.error().message;
      EXPECT_GT(of_kind(rank.rows.rows(), "step").front().at("data"), 0);
      Status checked = rank.load->check(rank.context);
      EXPECT_EQ(checked.ok(), !damaged);
      if (damaged) {
        EXPECT_EQ(checked.error().code, Code::kCorrupt);
        EXPECT_NE(checked.error().message.find("byte "), std::string::npos);
      }
    });
  }
}

TEST_F(Training, NeedsAsManyNodesAsRanks) {
  Rank rank;
  Status prepared = rank.prepare(nullptr, 2);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, Code::kInvalid);
}

TEST_F(Training, IsUnavailableWithoutItsModule) {
  setenv("MIXPROOF_MODULE_DIR", "/nowhere", 1);
  Rank rank;
  Status prepared = rank.prepare(nullptr, 1);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, Code::kUnavailable);
}

TEST(TrainingParams, DefaultsAreWithinTheirOwnBounds) {
  std::unique_ptr<Probe> load = training_probe.create();
  const Json defaults = write_params(load->params());
  EXPECT_TRUE(read_params(defaults, load->params()));
  EXPECT_EQ(defaults.at("transport"), "tcp");
  EXPECT_FALSE(read_params({{"ranks", 0}}, load->params()));
}

}  // namespace
}  // namespace mixproof
