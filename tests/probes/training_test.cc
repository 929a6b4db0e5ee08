// The load `training` with its ranks as threads, over tcp on the loopback device.
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "probes/backends/cpu/gemm.h"
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
      std::this_thread::sleep_for(1s);
      return;
    }
    Status ran = rank.run(Clock::now(), 10s);
    ASSERT_FALSE(ran);
    EXPECT_EQ(ran.error().code, Code::kTimeout);
    EXPECT_NE(ran.error().message.find("rank 1 did not answer"), std::string::npos)
        << ran.error().message;
    EXPECT_EQ(rank.load->check(rank.context).error().code, Code::kTimeout)
        << "no step was finished";
  });
}

TEST_F(Training, StopsWithinASecondWithAndWithoutItsPeer) {
  for (const bool peer_takes_part : {true, false}) {
    fake::ThreadGroup ranks(2);
    ranks.run([&](Group& group) {
      Rank rank;
      ASSERT_TRUE(rank.prepare(&group, 2, {{"step_deadline_s", 30}}));
      if (group.rank() == 1 && !peer_takes_part) {
        std::this_thread::sleep_for(1200ms);
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
      EXPECT_LT(returned - asked, 1s);
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

TEST(TrainingParams, RefuseCheckpointsUntilThereAreAny) {
  std::unique_ptr<Probe> load = training_probe.create();
  Status read = read_params({{"checkpoint_every_steps", 50}}, load->params());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kInvalid);
  EXPECT_NE(read.error().message.find("checkpoint_every_steps"), std::string::npos)
      << read.error().message;
  EXPECT_TRUE(read_params({{"checkpoint_every_steps", 0}}, load->params()));
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
