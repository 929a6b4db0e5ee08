#include "reports/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/base/epoll_world.h"
#include "reports/shape.h"
#include "reports/summary.h"
#include "suites/judge.h"
#include "tests/fake/fake_run.h"

namespace mixproof {
namespace {

Json report_of(const FakeRun& run) {
  const Plan plan = run.plan();
  return build_report(fake_run_json(plan), judge(plan, run.rows()), {"ab12", 1234});
}

FakeRun interrupted() {
  FakeRun run;
  run.last_phase = "contention";
  run.complete = false;
  run.stop_why = "signal 15";
  return run;
}

class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("report_test." + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

TEST(Report, FollowsItsOwnSchema) {
  for (const FakeRun& run : {FakeRun{}, interrupted()}) {
    const auto text = report_text(report_of(run));
    EXPECT_TRUE(text.ok()) << text.error().message;
  }
}

TEST(Report, ThatBreaksItsSchemaIsNotWritten) {
  Json report = report_of({});
  report["checks"][0]["status"] = "ok";
  auto text = report_text(report);
  ASSERT_FALSE(text.ok());
  EXPECT_NE(text.error().message.find("/checks/0/status: \"ok\" is not one of"), std::string::npos)
      << text.error().message;
  report = report_of({});
  report["metrics"][0]["unit"] = "ms";
  EXPECT_FALSE(report_text(report).ok());
  report = report_of({});
  report.erase("safety");
  EXPECT_FALSE(report_text(report).ok());
}

TEST(Report, NumbersThatAreNotFiniteAreNotWritten) {
  Json report = report_of({});
  report["ext"]["x"] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(report_text(report).ok());
}

TEST(Report, SameInputGivesTheSameBytes) {
  EXPECT_EQ(*report_text(report_of({})), *report_text(report_of({})));
}

// python3-jsonschema: a validator that nobody here wrote.
TEST(Report, IsValidForAnotherValidator) {
  if (std::system("/usr/bin/python3 -c 'import jsonschema' 2>/dev/null") != 0)
    GTEST_SKIP() << "python3-jsonschema is not installed";
  const Folder folder;
  std::ofstream(folder.file("schema.json")) << *print_json(report_schema());
  std::ofstream(folder.file("check.py"))
      << "import json, sys, jsonschema\n"
         "schema = json.load(open(sys.argv[1]))\n"
         "jsonschema.Draft7Validator.check_schema(schema)\n"
         "jsonschema.validate(json.load(open(sys.argv[2])), schema, cls=jsonschema.Draft7Validator)\n";
  const auto is_valid = [&](const Json& report) {
    std::ofstream(folder.file("report.json")) << *print_json(report);
    const std::string command = "/usr/bin/python3 " + folder.file("check.py") + " " +
                                folder.file("schema.json") + " " + folder.file("report.json") +
                                " 2>/dev/null";
    return std::system(command.c_str()) == 0;
  };
  EXPECT_TRUE(is_valid(report_of({})));
  EXPECT_TRUE(is_valid(report_of(interrupted())));
  Json broken = report_of({});
  broken["verdict"]["status"] = "fine";
  EXPECT_FALSE(is_valid(broken));
}

TEST(Report, IsWrittenAndReadBack) {
  const Folder folder;
  const auto files = make_real_files();
  const Json report = report_of({});
  ASSERT_TRUE(write_report(*files, folder.file("report.json"), report).ok());
  const auto read = read_report(*files, folder.file("report.json"));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, report);
}

TEST(Report, AFullDiskIsSaidClearly) {
  const auto files = make_real_files();
  const Status written = write_report(*files, "/nonexistent/report.json", report_of({}));
  ASSERT_FALSE(written.ok());
  EXPECT_NE(written.error().message.find("the report could not be written"), std::string::npos);
  EXPECT_NE(written.error().message.find("mixproof rejudge"), std::string::npos);
}

TEST(Report, WhatIsNoReportIsRefused) {
  const Folder folder;
  const auto files = make_real_files();
  for (const char* text : {"{}", "[]", "{\"schema_version\": \"1.0\"}",
                           "{\"schema_version\": \"0.1\", \"plan\": {}}", "{"}) {
    std::ofstream(folder.file("bad.json")) << text;
    const auto read = read_report(*files, folder.file("bad.json"));
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.error().code, Code::kInvalid);
  }
}

TEST(Shape, NoRuleGoesUnheeded) {
  EXPECT_NE(breaks_schema(Json(1), {{"maximum", 0}}), "");
  EXPECT_EQ(breaks_schema(Json(1), {{"type", {"number", "null"}}}), "");
  EXPECT_NE(breaks_schema(Json("x"), {{"type", {"number", "null"}}}), "");
  EXPECT_NE(
      breaks_schema({{"b", 1}}, {{"properties", Json::object()}, {"additionalProperties", false}}),
      "");
}

TEST(Summary, SaysVerdictDecidingChecksFaultsAndWhatNext) {
  FakeRun run;
  run.violations = 40;
  const std::string text = summary_text(report_of(run), "runs/latest/report.json", "latest");
  EXPECT_EQ(text.rfind("FAIL  fake   1 of 4 checks decided it\n  fail  contention/sla", 0), 0u)
      << text;
  EXPECT_NE(text.find("good), needs 0.95 at 95 % confidence"), std::string::npos) << text;
  EXPECT_NE(text.find("faults: 1 injected, 1 effective, 1 clean; nothing left\n"),
            std::string::npos)
      << text;
  EXPECT_NE(
      text.find("report: runs/latest/report.json\nnext: mixproof explain latest contention/sla\n"),
      std::string::npos)
      << text;
  const std::string with_page = summary_text(report_of(run), "r.json", "latest", "r.html");
  EXPECT_NE(with_page.find("report: r.json   page: r.html\n"), std::string::npos) << with_page;
}

TEST(Summary, FiguresOfTheNullServerAreCalledSynthetic) {
  FakeRun run;
  Json report = report_of(run);
  EXPECT_EQ(summary_text(report, "r", "r").find("synthetic"), std::string::npos);
  report["plan"]["services"][0]["start"] = "null_server";
  EXPECT_NE(summary_text(report, "r", "r").find("synthetic: a null server answered"),
            std::string::npos);
}

TEST(Summary, AFaultThatIsLeftIsNotOverlooked) {
  FakeRun run;
  run.clean = false;
  const std::string text = summary_text(report_of(run), "r", "r");
  EXPECT_EQ(text.rfind("UNSAFE  fake", 0), 0u) << text;
  EXPECT_NE(text.find("NOT PROVED CLEAN: stall/0 (process_pause on llm[0])"), std::string::npos)
      << text;
  EXPECT_NE(text.find("next: mixproof fault recover"), std::string::npos) << text;
}

}  // namespace
}  // namespace mixproof
