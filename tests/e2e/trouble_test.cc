// Trouble in the middle of a run: signals, killed and frozen processes, a full disk, a taken port.
// Every run ends by itself, undoes its fault first, leaves a report or what a report can be made
// of, and never calls it a pass.
#include <sys/mount.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "harness/base/text.h"
#include "tests/e2e/command.h"

namespace mixproof {
namespace {

constexpr Seconds kStart{30}, kEnd{45};

class Trouble : public LabRun {
 protected:
  // The suite `short`, whose pause lasts longer than any test; its report goes to "run".
  std::unique_ptr<Command> start_held(std::vector<std::string> more = {}) {
    std::vector<std::string> args = {suite("short"),
                                     "-o",
                                     "run",
                                     "--set",
                                     "phases.pause.measure_s=60",
                                     "--set",
                                     "phases.pause.faults.0.for_s=50"};
    args.insert(args.end(), more.begin(), more.end());
    auto run = start_run(std::move(args));
    EXPECT_TRUE(run->wait_for("process_pause on llm[0]: effective", kStart)) << run->err();
    return run;
  }

  static std::string verdict(const Json& report) { return text_at(report["verdict"], "status"); }

  // The report is valid, is not a pass, and says that the fault was undone and proved so.
  void expect_clean_report(const Json& report, const std::string& run_directory = "run") {
    EXPECT_NE(verdict(report), "pass");
    EXPECT_EQ(integer_at(report["safety"], "injected"), 1);
    EXPECT_EQ(integer_at(report["safety"], "clean"), 1) << report["safety"].dump(1);
    EXPECT_EQ(breaks("report", run_directory + "/report.json"), "");
    EXPECT_FALSE(exists(run_directory + "/reserve"));
  }

  bool any_event(const Json& report, const std::string& kind, const std::string& what) const {
    const Json& events = report["timeline"]["events"];
    return std::any_of(events.begin(), events.end(), [&](const Json& event) {
      return text_at(event, "kind") == kind && text_at(event, "what") == what;
    });
  }
};

// The place of the first row that says so; -1 when there is none.
std::ptrdiff_t place_of_row(const std::vector<Json>& rows, const std::string& row,
                            const std::string& key, const std::string& value) {
  const auto it = std::find_if(rows.begin(), rows.end(), [&](const Json& one) {
    return text_at(one, "row") == row && text_at(one, key) == value;
  });
  return it == rows.end() ? -1 : it - rows.begin();
}

TEST_F(Trouble, CtrlCTwiceUndoesTheFaultFirstAndThenStopsTheRest) {
  auto run = start_held();
  const int paused = process_in(lab_of(*run), "serve-0", "null-server");
  ASSERT_EQ(state_of_process(paused), 't');
  run->signal_group(
      SIGINT);  // as a terminal does: to everything that we have started and that is still there
  ASSERT_TRUE(run->wait_for("stopping: signal SIGINT", Seconds(5)));
  run->signal_group(SIGINT);
  const Ended ended = run->wait(kEnd);
  EXPECT_EQ(ended.status, 130);
  EXPECT_TRUE(ended.says("still reverting process_pause on llm[0]") ||
              ended.says("already stopping"))
      << ended.err;
  EXPECT_TRUE(ended.says("1 clean; nothing left"));
  expect_clean_report(report("run"));
  EXPECT_FALSE(report("run")["partial"].get<bool>());
  const std::vector<Json> rows = recorded("run");
  const auto clean = place_of_row(rows, "fault", "state", "clean");
  EXPECT_GT(clean, 0);
  EXPECT_LT(clean, place_of_row(rows, "exit", "what", "users[0]"));
  EXPECT_LT(clean, place_of_row(rows, "exit", "what", "front[0]"));
  EXPECT_LT(clean, place_of_row(rows, "exit", "what", "llm[0]"));
}

TEST_F(Trouble, TerminateAndHangUpDoTheSame) {
  for (const auto& [number, status] : {std::pair{SIGTERM, 143}, {SIGHUP, 129}}) {
    std::filesystem::remove_all(path("run"));
    auto run = start_held();
    run->signal(number);
    const Ended ended = run->wait(kEnd);
    EXPECT_EQ(ended.status, status) << ended.err;
    expect_clean_report(report("run"));
  }
}

TEST_F(Trouble, CtrlCBeforeTheFirstPhaseLeavesNothingBehind) {
  for (const char* moment : {"mixproof: short", "starting front"}) {
    std::filesystem::remove_all(path("run"));
    auto run = start_run({suite("short"), "-o", "run"});
    ASSERT_TRUE(run->wait_for(moment, kStart));
    run->signal(SIGINT);
    const Ended ended = run->wait(kEnd);
    EXPECT_EQ(ended.status, 130) << moment << "\n" << ended.err;
    EXPECT_NE(verdict(report("run")), "pass");
    EXPECT_EQ(breaks("report", "run/report.json"), "");
    EXPECT_TRUE(left_behind().empty()) << join(left_behind(), "\n");
  }
}

TEST_F(Trouble, AKilledControllerLeavesNoPauseAndARecordingThatMakesAReport) {
  auto run = start_held();
  const std::string lab = lab_of(*run);
  const int paused = process_in(lab, "serve-0", "null-server");
  ASSERT_EQ(state_of_process(paused), 't');
  run->signal(SIGKILL);
  EXPECT_EQ(run->wait(kEnd).status, 128 + SIGKILL);
  EXPECT_TRUE(eventually([&] { return state_of_process(paused) != 't'; }, Seconds(5)));
  EXPECT_FALSE(exists("run/report.json"));

  const Ended judged = this->run({"rejudge", "run"});
  EXPECT_EQ(judged.status, 5) << judged.out
                              << judged.err;  // nothing in the recording proves the revert
  const Json partial = report("run");
  EXPECT_TRUE(partial["partial"].get<bool>());
  EXPECT_EQ(verdict(partial), "unsafe");
  EXPECT_EQ(breaks("report", "run/report.json"), "");
  EXPECT_FALSE(exists("run/reserve"));

  EXPECT_FALSE(left_behind().empty()) << "the lab of a killed run is still there";
  EXPECT_EQ(this->run({"lab", "down", "--all"}).status, 0);
  EXPECT_TRUE(eventually([] { return left_behind().empty(); }, Seconds(5)))
      << join(left_behind(), "\n");
}

TEST_F(Trouble, TheNextRunClearsWhatAKilledOneLeft) {
  auto killed = start_run({suite("plain"), "-o", "killed", "--set", "phases.steady.measure_s=30"});
  ASSERT_TRUE(killed->wait_for("steady  ", kStart));
  std::this_thread::sleep_for(
      std::chrono::milliseconds(1500));  // longer than one frame of the recording
  killed->signal(SIGKILL);
  killed->wait(kEnd);
  const Ended judged = run({"rejudge", "killed"});
  EXPECT_NE(judged.status, 0);
  EXPECT_NE(judged.status, 5) << "no fault was planned";
  EXPECT_TRUE(report("killed")["partial"].get<bool>());
  EXPECT_NE(verdict(report("killed")), "pass");

  auto next = start_run({suite("plain"), "-o", "next"});
  const std::string lab_of_next = lab_of(*next);
  const Ended ended = next->wait(kEnd);
  EXPECT_TRUE(ended.status == 0 || ended.says("load generator")) << ended.err;
  EXPECT_TRUE(eventually([] { return left_behind().empty(); }, Seconds(5)))
      << join(left_behind(), "\n");
}

TEST_F(Trouble, AnAgentThatDiesEndsTheRunWhichNamesItsNode) {
  auto run = start_held({"--set", "lease_s=3", "--set", "renew_s=1"});
  const std::string lab = lab_of(*run);
  const int paused = process_in(lab, "serve-0", "null-server");
  ASSERT_EQ(state_of_process(paused), 't');
  ASSERT_EQ(::kill(process_in(lab, "serve-0", "agent"), SIGKILL), 0);
  const Ended ended = run->wait(kEnd);
  EXPECT_EQ(ended.status, 3) << ended.err;
  EXPECT_TRUE(ended.says("node serve-0 is lost")) << ended.err;
  expect_clean_report(report("run"));
  EXPECT_TRUE(any_event(report("run"), "lost", "serve-0"));
  for (const Json& check : report("run")["checks"])
    if (text_at(check, "phase") == "pause") {
      EXPECT_NE(text_at(check, "status"), "pass");
    }
}

TEST_F(Trouble, AnAgentThatIsFrozenIsLostAfterItsSilence) {
  auto run = start_run({suite("plain"), "-o", "run", "--set", "phases.steady.measure_s=40"});
  ASSERT_TRUE(run->wait_for("steady  ", kStart));
  ASSERT_EQ(::kill(process_in(lab_of(*run), "serve-0", "agent"), SIGSTOP), 0);
  const Ended ended = run->wait(kEnd);
  EXPECT_EQ(ended.status, 3) << ended.err;
  EXPECT_TRUE(ended.says("node serve-0 is lost")) << ended.err;
  EXPECT_EQ(breaks("report", "run/report.json"), "");
}

TEST_F(Trouble, AGuardThatDiesIsUndoneByItsAgentAndTheCheckIsNoPass) {
  auto run =
      start_held({"--set", "phases.pause.faults.0.for_s=3", "--set", "phases.pause.measure_s=4"});
  const std::string lab = lab_of(*run);
  const int paused = process_in(lab, "serve-0", "null-server");
  ASSERT_EQ(::kill(process_in(lab, "serve-0", "guard"), SIGKILL), 0);
  EXPECT_TRUE(eventually([&] { return state_of_process(paused) != 't'; }, Seconds(2)));
  const Ended ended = run->wait(kEnd);
  EXPECT_EQ(ended.status, 2) << ended.err;  // the fault did not last as long as the suite says
  expect_clean_report(report("run"));
}

TEST_F(Trouble, AWorkerThatHangsEndsAtADeadlineAndIsNotTheServersFailure) {
  auto run = start_run({suite("plain"), "-o", "run"});
  ASSERT_TRUE(run->wait_for("steady  ", kStart));
  ASSERT_EQ(::kill(process_in(lab_of(*run), "edge-0", "worker"), SIGSTOP), 0);
  const Ended ended = run->wait(kEnd);
  EXPECT_TRUE(ended.status == 2 || ended.status == 3) << ended.status << ended.err;
  EXPECT_TRUE(ended.says("users[0] did not end in time")) << ended.err;
  EXPECT_EQ(breaks("report", "run/report.json"), "");
  for (const Json& check : report("run")["checks"]) {
    const std::string status = text_at(check, "status");
    EXPECT_TRUE(status == "error" || status == "inconclusive") << check.dump(1);
  }
}

TEST_F(Trouble, AWorkerThatWasFrozenForAWhileIsNotTheServersFailure) {
  auto run = start_run({suite("plain"), "-o", "run", "--set", "phases.steady.measure_s=4"});
  ASSERT_TRUE(run->wait_for("steady  ", kStart));
  const int worker = process_in(lab_of(*run), "edge-0", "worker");
  std::this_thread::sleep_for(std::chrono::milliseconds(800));
  ASSERT_EQ(::kill(worker, SIGSTOP), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // beyond the limit, which is 1 s
  ASSERT_EQ(::kill(worker, SIGCONT), 0);
  const Ended ended = run->wait(kEnd);
  EXPECT_EQ(ended.status, 2) << ended.err;
  const Json check = report("run")["checks"][0];
  EXPECT_EQ(text_at(check, "status"), "inconclusive");
  EXPECT_EQ(text_at(check, "reason"), "measurement_invalid") << check.dump(1);
}

TEST_F(Trouble, AWorkerThatDiesEndsTheRun) {
  auto run = start_run({suite("plain"), "-o", "run", "--set", "phases.steady.measure_s=40"});
  ASSERT_TRUE(run->wait_for("steady  ", kStart));
  ASSERT_EQ(::kill(process_in(lab_of(*run), "edge-0", "worker"), SIGKILL), 0);
  const Ended ended = run->wait(kEnd);
  EXPECT_EQ(ended.status, 3) << ended.err;
  EXPECT_TRUE(ended.says("users[0] ended by itself: signal 9")) << ended.err;
  EXPECT_EQ(breaks("report", "run/report.json"), "");
}

TEST_F(Trouble, AServiceThatDiesIsRecordedAndItsRequestsFail) {
  auto run = start_run({suite("plain"), "-o", "run"});
  ASSERT_TRUE(run->wait_for("steady  ", kStart));
  std::this_thread::sleep_for(std::chrono::milliseconds(800));
  ASSERT_EQ(::kill(process_in(lab_of(*run), "serve-0", "null-server"), SIGKILL), 0);
  const Ended ended = run->wait(kEnd);
  EXPECT_TRUE(ended.status == 1 || ended.status == 3) << ended.status << ended.err;
  EXPECT_TRUE(ended.says("llm[0]")) << ended.err;
  const Json judged = report("run");
  EXPECT_TRUE(any_event(judged, "exit", "llm[0]"));
  EXPECT_NE(text_at(judged["checks"][0], "status"), "pass");
  const std::vector<Json> rows = recorded("run");
  EXPECT_GE(place_of_row(rows, "request", "outcome", "OK"), 0) << "before it died";
  EXPECT_GE(place_of_row(rows, "request", "outcome", "CONNECT_ERROR"), 0) << "afterwards";
}

TEST_F(Trouble, ANodeThatDiesIsNamedAndTheLabIsTakenDown) {
  auto run = start_held({"--set", "lease_s=2", "--set", "renew_s=0.5"});
  const int init = process_in(lab_of(*run), "serve-0", "lab-init");
  ASSERT_GT(init, 0);
  ASSERT_EQ(::kill(init, SIGKILL), 0);
  const Ended ended = run->wait(kEnd);
  EXPECT_EQ(ended.status, 5) << ended.err;  // nobody can be asked whether the fault is gone
  EXPECT_TRUE(ended.says("node serve-0 is lost")) << ended.err;
  EXPECT_EQ(breaks("report", "run/report.json"), "");
}

// A file system of 4 MiB that is unmounted on every path.
class SmallDisk {
 public:
  explicit SmallDisk(std::string path) : path_(std::move(path)) {
    std::filesystem::create_directories(path_);
    mounted_ = ::mount("mixproof-e2e", path_.c_str(), "tmpfs", 0, "size=4m") == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }
  void fill() const {
    std::ofstream file(path_ + "/filler");
    const std::string block(4096, 'x');
    while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }

 private:
  std::string path_;
  bool mounted_ = false;
};

TEST_F(Trouble, AFullDiskUnderTheReportEndsTheRunAndIsSaid) {
  const SmallDisk disk(path("disk"));
  ASSERT_TRUE(disk.mounted());
  auto run = start_run({suite("short"), "-o", "disk/run", "--set", "phases.pause.measure_s=60",
                        "--set", "phases.pause.faults.0.for_s=50"});
  ASSERT_TRUE(run->wait_for("process_pause on llm[0]: effective", kStart)) << run->err();
  const int paused = process_in(lab_of(*run), "serve-0", "null-server");
  ASSERT_EQ(state_of_process(paused), 't');
  disk.fill();
  const Ended ended = run->wait(kEnd);
  EXPECT_EQ(ended.status, 3) << ended.err;
  EXPECT_TRUE(ended.says("No space left on device")) << ended.err;
  EXPECT_TRUE(ended.says("disk/run")) << ended.err;
  EXPECT_TRUE(ended.says("ERROR  short")) << ended.err;
  expect_clean_report(report("disk/run"),
                      "disk/run");  // the room kept aside was enough for the way out
  EXPECT_FALSE(report("disk/run")["partial"].get<bool>());
  EXPECT_EQ(this->run({"rejudge", "disk/run"}).status, 3);
  EXPECT_TRUE(left_behind().empty()) << join(left_behind(), "\n");
}

TEST_F(Trouble, ADiskThatIsFullFromTheBeginningStartsNothing) {
  const SmallDisk disk(path("disk"));
  ASSERT_TRUE(disk.mounted());
  disk.fill();
  const Ended ended = run({"run", suite("plain"), "-o", "disk/run"});
  EXPECT_EQ(ended.status, 6) << "may work later";
  EXPECT_TRUE(ended.says("no room to record a run") && ended.says("No space left on device"))
      << ended.err;
  EXPECT_FALSE(ended.says("connecting")) << ended.err;
  EXPECT_TRUE(left_behind().empty()) << join(left_behind(), "\n");
}

}  // namespace
}  // namespace mixproof
