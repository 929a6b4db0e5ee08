// What runs leave for others: reports that are valid, found, reproduced, and that notice when
// somebody changes them.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/base/text.h"
#include "tests/e2e/command.h"
#include "tests/fake/paths.h"

namespace mixproof {
namespace {

namespace fs = std::filesystem;

constexpr Seconds kEnd{60};

class Reports : public LabRun {
 protected:
  // A pass, unless the machine was too busy to measure; then every check that is not a pass says
  // so.
  void expect_pass(const Ended& ended, const Json& report) {
    if (ended.status == 0) return;
    EXPECT_EQ(ended.status, 2) << ended.err;
    for (const Json& check : report["checks"])
      if (text_at(check, "status") != "pass") {
        EXPECT_EQ(text_at(check, "reason"), "measurement_invalid") << check.dump(1);
      }
  }

  static std::string schedule_hash(const std::vector<Json>& rows) {
    for (const Json& row : rows)
      if (text_at(row, "row") == "ready" && text_at(row, "what") == "users")
        return text_at(row["info"], "schedule_hash");
    return "";
  }

  static const Json* metric(const Json& report, const std::string& id, const std::string& phase) {
    for (const Json& one : report["metrics"])
      if (text_at(one, "id") == id && text_at(one["labels"], "phase") == phase) return &one;
    return nullptr;
  }
};

TEST_F(Reports, OneSeedIsOneScheduleAndEveryReportIsReproduced) {
  std::vector<std::unique_ptr<Command>> runs;
  for (int i = 0; i < 6; ++i)  // at once: a schedule does not depend on how busy the machine is
    runs.push_back(start_run(
        {suite("plain"), "--seed", i < 5 ? "11" : "12", "-o", "run-" + std::to_string(i)}));
  std::set<std::string> hashes, others;
  for (int i = 0; i < 6; ++i) {
    const std::string name = "run-" + std::to_string(i);
    const Ended ended = runs[static_cast<std::size_t>(i)]->wait(kEnd);
    expect_pass(ended, report(name));
    (i < 5 ? hashes : others).insert(schedule_hash(recorded(name)));
    const Json judged = report(name);
    for (const char* id : {"inference.arrival_ks", "inference.arrival_moved"})
      EXPECT_NE(metric(judged, id, "steady"), nullptr) << "the load does not test its own arrivals";
    const Ended again = run({"rejudge", name});
    EXPECT_EQ(again.status, ended.status) << again.err;
    EXPECT_NE(again.out.find("identical: checks"), std::string::npos) << again.out << again.err;
  }
  EXPECT_EQ(hashes.size(), 1U);
  EXPECT_EQ(others.size(), 1U);
  EXPECT_EQ(hashes.begin()->size(), 64U);
  EXPECT_NE(*hashes.begin(), *others.begin());
}

TEST_F(Reports, WhatSomebodyChangedIsNoticed) {
  const Ended ended = run({"run", suite("plain"), "-o", "run"});
  expect_pass(ended, report("run"));
  const std::string recording = path("run/recording.jsonl.zst");
  std::string bytes;
  {
    std::ifstream file(recording, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  const auto with_byte_flipped_at = [&](std::size_t at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    std::ofstream(recording, std::ios::binary) << flipped;
    return run({"rejudge", "run"});
  };
  for (const std::size_t at : {bytes.size() / 3, bytes.size() - 2}) {
    const Ended refused = with_byte_flipped_at(at);
    EXPECT_EQ(refused.status, 3) << at << refused.out;
    EXPECT_EQ(refused.out.find("identical"), std::string::npos);
    EXPECT_TRUE(refused.says("recording.jsonl.zst") || refused.says("frame")) << refused.err;
  }
  std::ofstream(recording, std::ios::binary) << bytes;
  EXPECT_EQ(run({"rejudge", "run"}).status, ended.status);

  Json edited = report("run");
  edited["checks"][0]["status"] = ended.status == 0 ? "inconclusive" : "pass";
  write("run/report.json", edited.dump(2));
  const Ended noticed = run({"rejudge", "run"});
  EXPECT_EQ(noticed.status, 3) << noticed.out;
  EXPECT_TRUE(noticed.says("not reproduced") && noticed.says("steady/wait")) << noticed.err;
}

TEST_F(Reports, AStallFailsTheSuiteThatDoesNotAllowIt) {
  const Ended ended = run({"run", suite("stalled"), "-o", "run"});
  const Json stalled = report("run");
  EXPECT_EQ(ended.status, 1) << ended.err;
  EXPECT_TRUE(ended.says("FAIL  stalled")) << ended.err;
  EXPECT_EQ(breaks("report", "run/report.json"), "");
  EXPECT_GE(number_at(stalled["checks"][0]["observed"], "value"), 3.0)
      << stalled["checks"][0].dump(1);
  for (const char* id : {"inference.time_to_impact", "inference.time_to_recover"}) {
    const Json* found = metric(stalled, id, "stall");
    ASSERT_NE(found, nullptr) << id;
    const Json* interval = member(*found, "interval");
    ASSERT_NE(interval, nullptr) << found->dump(1);
    const double low = number_at(*interval, "low", -1), high = number_at(*interval, "high", -1);
    EXPECT_GE(low, 0) << found->dump(1);
    EXPECT_GE(high, low) << found->dump(1);
  }
  const Ended explained = run({"explain", "run"});
  EXPECT_EQ(explained.status, 0) << explained.err;
  EXPECT_NE(explained.out.find("longest_wait"), std::string::npos) << explained.out;
}

TEST_F(Reports, TheSameSuiteWithoutItsFaultPasses) {
  const Ended ended = run({"run", suite("stalled"), "-o", "run", "--set", "phases.stall.faults=[]",
                           "--set", "phases.stall.measure_s=3"});
  expect_pass(ended, report("run"));
  EXPECT_TRUE(ended.says("faults: none planned")) << ended.err;
  EXPECT_EQ(breaks("report", "run/report.json"), "");
}

TEST_F(Reports, MachineOutputIsOneDocumentAndLatestIsTheNewestRun) {
  std::string previous;
  for (int i = 0; i < 2; ++i) {
    const Ended ended =
        run({"run", suite("plain"), "--json", "--set", "phases.steady.measure_s=1"});
    const Json printed = Json::parse(ended.out, nullptr, false);
    ASSERT_FALSE(printed.is_discarded()) << ended.out.substr(0, 300);
    EXPECT_EQ(printed, report("mixproof-runs/latest"));
    std::error_code ignored;
    const std::string latest = fs::read_symlink(path("mixproof-runs/latest"), ignored).string();
    EXPECT_TRUE(starts_with(latest, "plain-")) << latest;
    EXPECT_NE(latest, previous);
    EXPECT_TRUE(exists("mixproof-runs/" + latest + "/recording.jsonl.zst"));
    EXPECT_TRUE(exists("mixproof-runs/" + latest + "/report.html"));
    EXPECT_TRUE(ended.says("page: mixproof-runs/" + latest + "/report.html")) << ended.err;
    previous = latest;
    expect_pass(ended, printed);
  }
  EXPECT_EQ(run({"rejudge", "latest"}).status, run({"rejudge", "mixproof-runs/latest"}).status);
}

TEST_F(Reports, ShippedSuitesAndThoseOfTheTestsAreValid) {
  int seen = 0;
  for (const char* folder : {"/suites", "/tests/e2e/suites"})
    for (const auto& entry : fs::directory_iterator(std::string(kSourceDir) + folder))
      if (entry.path().extension() == ".json") {
        EXPECT_EQ(breaks("suite", entry.path().string()), "") << entry.path();
        ++seen;
      }
  EXPECT_GE(seen, 6);
  Json wrong = json_file(suite("plain"));
  wrong["phases"][0]["mesure_s"] = 3;
  EXPECT_NE(breaks("suite", write("wrong.json", wrong.dump())).find("mesure_s"), std::string::npos);
  write("inventory.json",
        R"({"nodes": [{"name": "a", "address": "127.0.0.1", "roles": ["edge"]}]})");
  EXPECT_EQ(breaks("inventory", "inventory.json"), "");
}

// A lab that stays up, and what runs make of it.
class StandingLab : public Reports {
 protected:
  void SetUp() override {
    Reports::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    name_ = "e2e-" + std::to_string(::getpid());
    const Ended up = run({"lab", "up", "--name", name_, "--nodes", "edge=1,serve=2"});
    ASSERT_EQ(up.status, 0) << up.err;
  }
  void TearDown() override {
    if (!name_.empty()) {
      EXPECT_EQ(run({"lab", "down", name_}).status, 0);
    }
    Reports::TearDown();
  }
  bool is_up() {
    const Ended status = run({"lab", "status", "--json"});
    const Json all = Json::parse(status.out, nullptr, false);
    return std::any_of(all.begin(), all.end(),
                       [&](const Json& lab) { return text_at(lab, "name") == name_; });
  }
  std::string name_;
};

TEST_F(StandingLab, ATakenPortIsRefusedNowAndTheSameRunWorksLater) {
  for (const auto& [node, endpoint, service] : {std::tuple{"serve-0", "10.77.0.3:8090", "llm[0]"},
                                                {"edge-0", "10.77.0.2:8000", "front[0]"}}) {
    auto holder = start({"lab", "exec", node, "--name", name_, "--", kMixproofBinary, "null-server",
                         "--listen", endpoint});
    const int pid = process_in(name_, node, "null-server");
    ASSERT_GT(pid, 0);
    std::string output = std::string("taken-") + node;
    const Ended refused = run({"run", suite("short"), "-o", output});
    EXPECT_EQ(refused.status, 6) << refused.err;
    EXPECT_TRUE(refused.says(service)) << refused.err;
    EXPECT_TRUE(refused.says("already in use") || refused.says("cannot bind")) << refused.err;
    EXPECT_TRUE(is_up());
    EXPECT_EQ(breaks("report", output + "/report.json"), "");
    ::kill(pid, SIGTERM);
    EXPECT_TRUE(holder->wait(Seconds(10)).in_time);
  }
  const Ended later = run({"run", suite("short"), "-o", "later"});
  expect_pass(later, report("later"));
  EXPECT_TRUE(later.says(name_)) << later.err;
  EXPECT_TRUE(is_up());
}

TEST_F(StandingLab, OfTwoRunsAtOnceTheSecondHasALabOfItsOwn) {
  auto first = start_run({suite("plain"), "-o", "first", "--set", "phases.steady.measure_s=4"});
  ASSERT_TRUE(first->wait_for("steady  ", Seconds(20)));
  auto second = start_run({suite("plain"), "-o", "second"});
  ASSERT_TRUE(second->wait_for("steady  ", Seconds(20)));
  EXPECT_NE(first->err().find("lab " + name_ + " (stays up)"), std::string::npos) << first->err();
  EXPECT_NE(second->err().find("a lab of its own"), std::string::npos) << second->err();
  const Ended refused = run({"lab", "down", name_});
  EXPECT_EQ(refused.status, 6) << "a lab that a run uses is not taken down";
  EXPECT_TRUE(refused.says("is used by a run, process " + std::to_string(first->pid())))
      << refused.err;
  const Ended second_ended = second->wait(kEnd), first_ended = first->wait(kEnd);
  expect_pass(second_ended, report("second"));
  expect_pass(first_ended, report("first"));
  EXPECT_TRUE(is_up());
}

}  // namespace
}  // namespace mixproof
