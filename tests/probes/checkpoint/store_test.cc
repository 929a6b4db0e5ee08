// Checkpoints on a real file system: what is torn, damaged or mixed is never taken for valid.
#include "probes/checkpoint/store.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "harness/base/random.h"
#include "harness/base/text.h"
#include "probes/checkpoint/words.h"

namespace mixproof {
namespace {

namespace fs = std::filesystem;

constexpr int kRanks = 2;

std::vector<std::byte> payload_of(const CheckpointKey& key, std::int64_t rank, std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  fill_words(static_cast<std::uint64_t>(key.attempt * 1000 + key.step * 10 + rank), 0, out);
  return out;
}

struct Checkpoints : testing::Test {
  std::string folder;

  void SetUp() override {
    std::string name = testing::TempDir() + "checkpoints-XXXXXX";
    folder = mkdtemp(name.data());
  }
  void TearDown() override {
    ::umount2(folder.c_str(), MNT_DETACH);  // of a test that mounted and failed
    fs::remove_all(folder);
  }

  CheckpointStore store(std::int64_t rank = 0) const { return {folder, rank, kRanks}; }
  void save(const CheckpointKey& key, std::size_t bytes = 300) const {
    for (int rank = 0; rank < kRanks; ++rank) {
      const Status saved = store(rank).save(key, payload_of(key, rank, bytes), {});
      ASSERT_TRUE(saved) << saved.error().message;
    }
  }
  void save_whole(const CheckpointKey& key, std::size_t bytes = 300) const {
    save(key, bytes);
    ASSERT_TRUE(store().complete(key));
  }
  // What the ranks would agree to load.
  std::optional<CheckpointKey> newest() const {
    std::vector<std::string> texts;
    for (int rank = 0; rank < kRanks; ++rank) texts.push_back(usable_text(*store(rank).survey()));
    return newest_of_all(texts);
  }
  std::string shard(const CheckpointKey& key, int rank) const {
    return store().directory_of(key) + "/" + shard_name(rank, kRanks);
  }
  std::string marker(const CheckpointKey& key) const {
    return store().directory_of(key) + "/complete";
  }
};

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

constexpr CheckpointKey kOld{0, 50}, kNew{0, 100};

TEST_F(Checkpoints, AreReadAsTheyWereWritten) {
  save_whole(kOld);
  save_whole(kNew, 70'000);
  EXPECT_EQ(newest(), kNew);
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(*store(rank).load(kNew), payload_of(kNew, rank, 70'000));
    EXPECT_EQ(*store(rank).load(kOld), payload_of(kOld, rank, 300));
  }
  EXPECT_TRUE(store().verify(kNew));
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    EXPECT_EQ(entry.path().string().find("unfinished"), std::string::npos) << entry.path();
}

TEST_F(Checkpoints, NothingIsThereAtFirst) {
  EXPECT_EQ(newest(), std::nullopt);
  EXPECT_EQ(store().load(kNew).error().code, Code::kUnavailable);
  EXPECT_TRUE(CheckpointStore(folder + "/never/made", 0, 1).survey()->empty());
}

TEST_F(Checkpoints, WithoutAMarkerOneIsTornAndNamed) {
  save_whole(kOld);
  save(kNew);
  EXPECT_EQ(newest(), kOld);
  const auto survey = *store().survey();
  ASSERT_EQ(survey.size(), 2U);
  EXPECT_EQ(survey[0].torn, "attempt 0 step 100: no completeness marker");
  EXPECT_EQ(survey[1].torn, "");
}

TEST_F(Checkpoints, ALaterAttemptIsNewerWhateverItsStep) {
  save_whole({0, 500});
  save_whole({1, 60});
  EXPECT_EQ(newest(), (CheckpointKey{1, 60}));
}

TEST_F(Checkpoints, AMarkerIsRefusedWhileAShardIsMissing) {
  ASSERT_TRUE(store(0).save(kNew, payload_of(kNew, 0, 300), {}));
  const Status completed = store().complete(kNew);
  ASSERT_FALSE(completed);
  EXPECT_EQ(completed.error().code, Code::kUnavailable);
  EXPECT_FALSE(fs::exists(marker(kNew)));
}

TEST_F(Checkpoints, CutAtAnyByteAreTorn) {
  save_whole(kOld);
  save_whole(kNew);
  for (const std::string& path : {shard(kNew, 0), shard(kNew, 1), marker(kNew)}) {
    const std::string whole = contents(path);
    ASSERT_GT(whole.size(), 100U);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      put(path, whole.substr(0, length));
      ASSERT_FALSE(store().verify(kNew)) << path << " cut to " << length;
      ASSERT_EQ(newest(), kOld) << path << " cut to " << length;
    }
    put(path, whole + "x");
    ASSERT_EQ(newest(), kOld) << path << " with a byte too many";
    // As after a crash that lost the last blocks: the right length, zeros at the end.
    put(path, whole.substr(0, whole.size() - 8) + std::string(8, '\0'));
    ASSERT_EQ(newest(), kOld) << path << " with zeros at its end";
    put(path, whole);
    ASSERT_EQ(newest(), kNew);
  }
}

TEST_F(Checkpoints, AnyFlippedBitIsFound) {
  save_whole(kOld);
  save_whole(kNew);
  Random random(11, "flips");
  for (const std::string& path : {shard(kNew, 0), shard(kNew, 1), marker(kNew)}) {
    const std::string whole = contents(path);
    for (int i = 0; i < 300; ++i) {
      std::string flipped = whole;
      const std::size_t at = random.below(flipped.size());
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << random.below(8)));
      put(path, flipped);
      ASSERT_FALSE(store().verify(kNew)) << path << " byte " << at;
      ASSERT_EQ(newest(), kOld) << path << " byte " << at;
    }
    put(path, whole);
  }
}

TEST_F(Checkpoints, ShardsOfOthersAreNeverTaken) {
  const CheckpointKey later{1, 100};
  save_whole(kOld);
  save_whole(kNew);
  save_whole(later);
  const std::string right = contents(shard(later, 1));
  // Of another attempt at the same step, of another step, and of another rank.
  for (const std::string& other : {shard(kNew, 1), shard(kOld, 1), shard(later, 0)}) {
    put(shard(later, 1), contents(other));
    EXPECT_FALSE(store().verify(later)) << other;
    EXPECT_EQ(newest(), kNew) << other;
  }
  put(shard(later, 1), right);
  EXPECT_EQ(newest(), later);
  put(marker(later), contents(marker(kNew)));
  EXPECT_EQ(newest(), kNew) << "a marker of another attempt";
}

TEST_F(Checkpoints, OfAnotherNumberOfRanksAreNotTaken) {
  save_whole(kNew);
  EXPECT_TRUE(usable_text(*CheckpointStore(folder, 0, 3).survey()).empty());
  EXPECT_TRUE(usable_text(*CheckpointStore(folder, 0, 1).survey()).empty());
}

TEST_F(Checkpoints, PruningKeepsTheNewestCompleteAndWhatIsNewer) {
  for (const std::int64_t step : {10, 20, 30, 40}) save_whole({0, step});
  save({0, 15});
  save({0, 50});
  ASSERT_TRUE(store().prune(2));
  std::vector<std::int64_t> left;
  const auto survey = *store().survey();
  for (const SurveyedCheckpoint& one : survey) left.push_back(one.key.step);
  EXPECT_EQ(left, (std::vector<std::int64_t>{50, 40, 30}));
  EXPECT_EQ(newest(), (CheckpointKey{0, 40}));
  ASSERT_TRUE(store().clear());
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(Checkpoints, FilesOfOthersAreLeftAlone) {
  put(folder + "/notes", "keep");
  fs::create_directory(folder + "/attempt-1.step-x");
  save_whole(kNew);
  ASSERT_TRUE(store().clear());
  EXPECT_TRUE(fs::exists(folder + "/notes"));
  EXPECT_TRUE(fs::exists(folder + "/attempt-1.step-x"));
  EXPECT_FALSE(fs::exists(store().directory_of(kNew)));
}

TEST_F(Checkpoints, AStopLeavesNothingOfTheShard) {
  std::stop_source stop;
  stop.request_stop();
  const Status saved = store().save(kNew, payload_of(kNew, 0, 300), stop.get_token());
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, Code::kRefused);
  EXPECT_TRUE(fs::is_empty(store().directory_of(kNew)));
}

TEST_F(Checkpoints, AFullDiskFailsOneAndSparesThePreviousOne) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to mount a small tmpfs";
  ASSERT_EQ(::mount("tmpfs", folder.c_str(), "tmpfs", MS_NODEV | MS_NOSUID, "size=256k"), 0);
  save_whole(kOld, 50'000);
  ASSERT_TRUE(store(0).save(kNew, payload_of(kNew, 0, 90'000), {}));
  const Status full = store(1).save(kNew, payload_of(kNew, 1, 90'000), {});
  EXPECT_FALSE(full);
  if (!full) {
    EXPECT_NE(full.error().message.find("No space left on device"), std::string::npos)
        << full.error().message;
  }
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(store(rank).discard(kNew));
  EXPECT_FALSE(fs::exists(store().directory_of(kNew))) << "its space is free again";
  EXPECT_EQ(newest(), kOld);
  EXPECT_TRUE(store().verify(kOld));
  save_whole(kNew, 50'000);
  EXPECT_EQ(newest(), kNew);
}

TEST(NewestOfAll, IsTheNewestThatEveryRankNamed) {
  const auto text = [](std::vector<CheckpointKey> keys) {
    std::vector<SurveyedCheckpoint> survey;
    for (const CheckpointKey& key : keys) survey.push_back({key, ""});
    return usable_text(survey);
  };
  const std::vector<std::string> texts = {text({{1, 9}, {0, 20}, {0, 10}}),
                                          text({{0, 20}, {0, 10}})};
  EXPECT_EQ(newest_of_all(texts), (CheckpointKey{0, 20}));
  EXPECT_EQ(newest_of_all(std::vector<std::string>{texts[0], ""}), std::nullopt);
  EXPECT_EQ(newest_of_all(std::vector<std::string>{"nonsense\n"}), std::nullopt);
}

}  // namespace
}  // namespace mixproof
