// The commands on what a run left, on directories made here.
#include "harness/cli/judging.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "harness/base/epoll_world.h"
#include "reports/recording.h"
#include "suites/judge.h"
#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

class RunFolder {
 public:
  explicit RunFolder(const FakeRun& run, bool with_report = true) {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("judging_test." + std::to_string(::getpid()) + "." + std::to_string(count++));
    std::filesystem::create_directories(path_);
    RecordingEncoder encoder;
    std::ofstream recording(path(kRecordingFile), std::ios::binary);
    int in_frame = 0;
    for (const Json& row : run.rows()) {
      encoder.add(row);
      if (++in_frame % 100 == 0) recording << encoder.take_frame();
    }
    recording << encoder.take_frame();
    recording.close();
    std::ofstream(path(kRunFile)) << *print_json(fake_run_json(run.plan()));
    if (!with_report) return;
    const auto files = make_real_files();
    const auto judged = judge_directory(*files, folder());
    EXPECT_TRUE(judged.ok());
    EXPECT_TRUE(write_report(*files, path(kReportFile), judged->report).ok());
  }
  ~RunFolder() { std::filesystem::remove_all(path_); }
  std::string folder() const { return path_.string(); }
  std::string path(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

struct Outcome {
  int exit_code = 0;
  std::string out, err;
};

Outcome call(int (*command)(std::span<const std::string>), std::vector<std::string> args) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.exit_code = command(args);
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

FakeRun failing() {
  FakeRun run;
  run.violations = 40;
  return run;
}

TEST(Explain, SaysWhatIsKnownOfTheDependenceOfRequests) {
  FakeRun run;
  run.violations = 8;  // within a second
  const RunFolder folder(run);
  const Outcome requests = call(explain_main, {folder.folder(), "contention/sla"});
  EXPECT_NE(requests.out.find("requests are independent of each other; violations of 20 blocks of "
                              "1 s vary 5."),
            std::string::npos)
      << requests.out;
  run.suite["limits"][0]["dependence"] = "blocks";
  const RunFolder other(run);
  const Outcome blocks = call(explain_main, {other.folder(), "contention/sla"});
  EXPECT_NE(blocks.out.find("so they are worth 18 trials"), std::string::npos) << blocks.out;
  run.suite["limits"][0]["dependence"] = "requests";
  run.suite["phases"][2]["measure_s"] = 15;
  const RunFolder shorter(run);
  const Outcome untested = call(explain_main, {shorter.folder(), "contention/sla"});
  EXPECT_NE(untested.out.find("dependence untested"), std::string::npos) << untested.out;
}

TEST(Explain, SaysHowLittleOneFaultProves) {
  const RunFolder folder({});
  const Outcome back = call(explain_main, {folder.folder(), "stall/back"});
  EXPECT_NE(back.out.find("claims a chance of at least 5 % only"), std::string::npos) << back.out;
  EXPECT_NE(back.out.find("power      20 requests prove it"), std::string::npos) << back.out;
  const Outcome wait = call(explain_main, {folder.folder(), "stall/wait"});
  EXPECT_EQ(wait.out.find("claims"), std::string::npos) << wait.out;
}

TEST(Rejudge, ReproducesAReportByteForByte) {
  for (const auto& [run, exit_code] : {std::pair{FakeRun{}, 0}, {failing(), 1}}) {
    const RunFolder folder(run);
    const Outcome outcome = call(rejudge_main, {folder.folder()});
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    EXPECT_NE(outcome.out.find("identical"), std::string::npos);
    EXPECT_EQ(call(rejudge_main, {folder.path(kReportFile)}).exit_code, exit_code);
  }
}

TEST(Rejudge, NoticesAChangedReport) {
  const RunFolder folder(failing());
  Json report = *read_report(*make_real_files(), folder.path(kReportFile));
  report["checks"][0]["status"] = "pass";
  std::ofstream(folder.path(kReportFile)) << report.dump();
  const Outcome outcome = call(rejudge_main, {folder.folder()});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_NE(outcome.err.find("not reproduced: the recording gives other checks (contention/sla)"),
            std::string::npos)
      << outcome.err;
}

TEST(Rejudge, RefusesARecordingWithAnotherDigest) {
  const RunFolder folder({}), other(failing());
  std::filesystem::copy_file(other.path(kRecordingFile), folder.path(kRecordingFile),
                             std::filesystem::copy_options::overwrite_existing);
  const Outcome outcome = call(rejudge_main, {folder.folder()});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_NE(outcome.err.find("is not the recording of this report"), std::string::npos)
      << outcome.err;
  std::filesystem::remove(folder.path(kRecordingFile));
  EXPECT_EQ(call(rejudge_main, {folder.folder()}).exit_code, 3);
}

TEST(Rejudge, WritesThePartialReportOfAKilledRun) {
  FakeRun killed;
  killed.end_row = false;
  killed.complete = false;
  killed.clean = false;
  const RunFolder folder(killed, false);
  std::filesystem::resize_file(folder.path(kRecordingFile),
                               std::filesystem::file_size(folder.path(kRecordingFile)) - 7);
  const Outcome outcome = call(rejudge_main, {folder.folder()});
  EXPECT_EQ(outcome.exit_code, 5) << outcome.err << outcome.out;  // the fault has no clean event
  const auto report = read_report(*make_real_files(), folder.path(kReportFile));
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(flag_at(*report, "partial"));
  EXPECT_EQ(call(rejudge_main, {folder.folder()}).exit_code, 5);  // and reproduces what it wrote
}

TEST(Rejudge, SaysWhatIsNoRun) {
  const Outcome outcome = call(rejudge_main, {"/nonexistent"});
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_NE(outcome.err.find("/nonexistent"), std::string::npos);
  EXPECT_EQ(call(rejudge_main, {}).exit_code, 4);
}

TEST(Explain, SaysWhyAndWhatWouldSettleIt) {
  FakeRun run;
  run.violations = 6;
  const RunFolder folder(run);
  const Outcome outcome = call(explain_main, {folder.folder()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.rfind("inconclusive  contention/sla\n", 0), 0u) << outcome.out;
  EXPECT_NE(outcome.out.find("more clean requests: about"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("ask serving"), std::string::npos);
  EXPECT_NE(call(explain_main, {folder.folder(), "stall/back"}).out.find("pass  stall/back\n"),
            std::string::npos);
}

TEST(Explain, NamesTheNearestCheck) {
  const RunFolder folder({});
  const Outcome outcome = call(explain_main, {folder.folder(), "stall/bak"});
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_NE(outcome.err.find("did you mean \"stall/back\"?"), std::string::npos) << outcome.err;
}

TEST(ReportShow, ShowsPhasesMetricsChecksAndTheSummary) {
  const RunFolder folder({});
  const Outcome outcome = call(report_main, {"show", folder.folder()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* words :
       {"contention", "inference.ttft_ratio", "training.retained", "inference.time_to_impact",
        "stall/wait", "PASS  fake", "faults: 1 injected, 1 effective, 1 clean; nothing left"})
    EXPECT_NE(outcome.out.find(words), std::string::npos) << words;
  EXPECT_EQ(call(report_main, {"junit", folder.folder()}).exit_code, 4);
  EXPECT_EQ(call(report_main, {"show", folder.folder(), "-o", folder.path("text")}).exit_code, 4);
  EXPECT_EQ(call(report_main, {"show", "/nonexistent"}).exit_code, 4);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ReportHtml, WritesThePageBesideTheReportOrWhereItIsTold) {
  const RunFolder folder({});
  const Outcome outcome = call(report_main, {"html", folder.folder()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("page: " + folder.path("report.html")), std::string::npos)
      << outcome.err;
  EXPECT_NE(text_of(folder.path("report.html")).find("class=\"good\""), std::string::npos);
  EXPECT_EQ(call(report_main, {"html", folder.path(kReportFile), "-o", folder.path("other.html")})
                .exit_code,
            0);
  EXPECT_EQ(text_of(folder.path("other.html")), text_of(folder.path("report.html")));
  EXPECT_EQ(call(report_main, {"html", folder.folder(), "-o", "/nonexistent/page.html"}).exit_code,
            3);
  EXPECT_EQ(call(report_main, {"html", "/nonexistent"}).exit_code, 4);
}

TEST(ReportHtml, DoesNotDrawTheRecordingOfAnotherRun) {
  const RunFolder folder({}), other(failing());
  std::filesystem::copy_file(other.path(kRecordingFile), folder.path(kRecordingFile),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(call(report_main, {"html", folder.folder()}).exit_code, 0);
  const std::string page = text_of(folder.path("report.html"));
  EXPECT_NE(page.find("The recording of this run is not beside the report"), std::string::npos);
  EXPECT_EQ(page.find("class=\"rate\""), std::string::npos);
}

TEST(Schema, IsPrintedForWhatThisBuildReadsAndWrites) {
  for (const char* name : {"suite", "report", "inventory"}) {
    const Outcome outcome = call(schema_main, {name});
    EXPECT_EQ(outcome.exit_code, 0);
    const auto schema = parse_json(outcome.out, name);
    ASSERT_TRUE(schema.ok());
    EXPECT_EQ(text_at(*schema, "$schema"), "http://json-schema.org/draft-07/schema#");
  }
  EXPECT_EQ(call(schema_main, {"weather"}).exit_code, 4);
}

}  // namespace
}  // namespace mixproof
