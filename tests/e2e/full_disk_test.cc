// Training whose storage fills up in the middle of its checkpoints: the failed ones are said,
// training and its reads of data go on, and the last good checkpoint stays whole.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "harness/controller/lab_files.h"
#include "probes/checkpoint/store.h"
#include "tests/e2e/command.h"

namespace mixproof {
namespace {

class FullDisk : public LabRun {
 protected:
  std::vector<Json> rows_of(const std::string& kind) const {
    std::vector<Json> out;
    for (const Json& row : recorded("run"))
      if (text_at(row, "row") == kind) out.push_back(row);
    return out;
  }
  std::int64_t fault_at(const std::string& state) const {
    for (const Json& row : rows_of("fault"))
      if (text_at(row, "state") == state) return integer_at(row, "at");
    ADD_FAILURE() << "the fault was never " << state;
    return 0;
  }
};

// What a rank would resume from now, read and checked byte for byte.
std::vector<CheckpointKey> whole_checkpoints(const std::string& lab) {
  std::vector<CheckpointKey> out;
  const std::string root = lab_shared(lab_dir(lab)) + "/checkpoints/trainer";
  std::error_code error;
  for (const auto& training : std::filesystem::directory_iterator(root, error)) {
    const CheckpointStore store(training.path(), 0, 2);
    const auto survey = store.survey();
    EXPECT_TRUE(survey.ok()) << survey.error().message;
    if (!survey.ok()) continue;
    for (const SurveyedCheckpoint& one : *survey)
      if (one.torn.empty() && store.verify(one.key).ok()) out.push_back(one.key);
  }
  return out;
}

TEST_F(FullDisk, TrainingGoesOnWithoutCheckpointsAndTheLastGoodOneStaysWhole) {
  auto run = start_run({suite("full_disk"), "-o", "run"});
  const std::string lab = lab_of(*run);
  ASSERT_TRUE(run->wait_for("disk_fill on train-0: effective", Seconds(40))) << run->err();
  const auto whole = whole_checkpoints(lab);
  EXPECT_FALSE(whole.empty()) << "nothing to resume from while the disk is full";
  const Ended ended = run->wait(Seconds(60));
  EXPECT_EQ(ended.status, 0) << ended.err;

  const Json report = this->report("run");
  EXPECT_EQ(breaks("report", "run/report.json"), "");
  for (const char* fact : {"injected", "effective", "clean"})
    EXPECT_EQ(integer_at(report["safety"], fact), 1) << fact << report["safety"].dump(1);
  for (const Json& metric : report["metrics"])
    if (text_at(metric, "id") == "training.checkpoint_failures") {
      const double failures = number_at(metric, "value", -1);
      if (text_at(metric["labels"], "phase") == "full")
        EXPECT_GE(failures, 1) << metric.dump(1);
      else
        EXPECT_EQ(failures, 0) << metric.dump(1);
    }

  const std::int64_t on = fault_at("effective"), off = fault_at("reverting");
  int failed = 0, refused = 0, saved_again = 0, steps = 0;
  for (const Json& row : rows_of("checkpoint")) {
    if (!flag_at(row, "ok")) {
      ++failed;
      const std::string detail = text_at(row, "detail");
      const bool no_space = detail.find("No space left on device") != std::string::npos;
      refused += no_space ? 1 : 0;
      EXPECT_TRUE(no_space || detail == "another rank could not save its part") << detail;
    }
    // What was whole while the disk was full is older than every failure.
    const CheckpointKey key{integer_at(row, "attempt"), integer_at(row, "step")};
    if (!flag_at(row, "ok") && !whole.empty()) {
      EXPECT_GT(key, whole.front());
    }
  }
  EXPECT_GE(failed, 2) << "of each rank";
  EXPECT_GE(refused, 1);
  const auto clocks = rows_of("clock");
  const auto to_controller = [&clocks](const std::string& node, std::int64_t at) {
    for (const Json& clock : clocks)
      if (text_at(clock, "node") == node) return at + integer_at(clock, "offset_ns");
    return std::int64_t{0};
  };
  for (const Json& row : rows_of("checkpoint"))
    if (flag_at(row, "ok") && to_controller(text_at(row, "node"), integer_at(row, "begin")) > off)
      ++saved_again;
  EXPECT_GE(saved_again, 2);
  for (const Json& row : rows_of("step")) {
    const std::int64_t end = to_controller(text_at(row, "node"), integer_at(row, "end"));
    steps += end > on && end < off && row.contains("data") ? 1 : 0;
  }
  EXPECT_GT(steps, 20) << "steps, each with its data, while the disk was full";
  EXPECT_TRUE(rows_of("attempt").empty()) << "no rank was lost";
}

TEST_F(FullDisk, ADiskThatIsFullBeforeMakesTheChecksInconclusive) {
  auto run = start_run({suite("full_disk"), "-o", "run", "--set", "phases.before.settle_s=3"});
  const std::string shared = lab_shared(lab_dir(lab_of(*run)));
  ASSERT_TRUE(run->wait_for("before  ", Seconds(40))) << run->err();
  // Someone else fills it, and takes what the failed checkpoints give back.
  const auto filler = start(
      {"-c", "while :; do head -c 1000000000 /dev/zero; sleep 0.02; done >> " + shared + "/theirs"},
      {.directory = directory_, .program = "/bin/sh"});
  EXPECT_TRUE(filler->wait_for("No space left on device", Seconds(20))) << filler->err();
  ASSERT_TRUE(run->wait_for("full  ", Seconds(40))) << run->err();
  ASSERT_TRUE(run->wait_for("disk_fill on train-0: clean", Seconds(40))) << run->err();
  filler->signal(SIGTERM);
  const Ended ended = run->wait(Seconds(60));
  EXPECT_NE(ended.status, 0) << ended.err;
  const Json report = this->report("run");
  EXPECT_NE(text_at(report["verdict"], "status"), "pass");
  EXPECT_EQ(integer_at(report["safety"], "effective"), 0) << report["safety"].dump(1);
  EXPECT_EQ(integer_at(report["safety"], "clean"), 1) << report["safety"].dump(1);
  for (const Json& check : report["checks"])
    if (text_at(check, "phase") == "full") {
      EXPECT_EQ(text_at(check, "status"), "inconclusive") << check.dump(1);
      EXPECT_EQ(text_at(check, "reason"), "not_effective") << check.dump(1);
    }
}

}  // namespace
}  // namespace mixproof
