// The report page: what it says of runs of every outcome, that it needs nothing beside itself, and
// that no text of a suite becomes part of its structure. The golden page is written anew with
// MIXPROOF_UPDATE_GOLDEN=1 in the environment.
#include "reports/page.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harness/base/text.h"
#include "reports/report.h"
#include "suites/judge.h"
#include "suites/timeline_series.h"
#include "tests/fake/fake_run.h"
#include "tests/fake/paths.h"

namespace mixproof {
namespace {

struct Made {
  Json report = nullptr;
  TimelineSeries series;
  std::string page() const { return page_text(report, &series); }
};

Made made_from(const FakeRun& run) {
  const Plan plan = run.plan();
  const std::vector<Json> rows = run.rows();
  return {build_report(fake_run_json(plan), judge(plan, rows), {"ab12", 1234}),
          timeline_series(plan, rows)};
}

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

// The values of all attributes of this name.
std::vector<std::string> attributes(const std::string& page, const std::string& name) {
  std::vector<std::string> out;
  const std::string begin = " " + name + "=\"";
  for (std::size_t at = page.find(begin); at != std::string::npos; at = page.find(begin, at + 1)) {
    const std::size_t from = at + begin.size();
    out.push_back(page.substr(from, page.find('"', from) - from));
  }
  return out;
}

// What a strict parser says against the page; empty when it accepts it.
std::string parser_complaint(const std::string& page) {
  const std::string path = testing::TempDir() + "page_test." + std::to_string(::getpid()) + ".html";
  std::ofstream(path, std::ios::binary) << page;
  const std::string command =
      "/usr/bin/python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' " + path +
      " 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::string words(4096, '\0');
  words.resize(std::fread(words.data(), 1, words.size(), pipe));
  const int status = ::pclose(pipe);
  std::filesystem::remove(path);
  return status == 0 ? "" : "not well formed: " + words;
}

FakeRun hostile() {
  FakeRun run;
  run.suite["claim"] = "<script>alert('claim')</script>";
  run.suite["limits"][0]["why"] = "\"><img src=x onerror=alert(1)> & <b>bold</b>";
  run.suite["limits"][0]["owner"] = "</style><script>alert(2)</script>";
  run.extra = {
      {{"row", "note"}, {"message", "</svg><script>alert(3)</script>\x01\xE2\x80\xAEgnihton"}},
      {{"row", "lost"},
       {"node", "<script>"},
       {"at", FakeRows::kStart + FakeRows::ns(9)},
       {"why", "]]><!--"}}};
  return run;
}

FakeRun cut() {
  FakeRun run;
  run.last_phase = "contention";
  run.complete = run.end_row = false;
  return run;
}

FakeRun with_a_fault_left() {
  FakeRun run;
  run.dirty = true;
  return run;
}

TEST(Page, IsTheGoldenOne) {
  FakeRun run;
  run.violations = 6;
  const std::string page = made_from(run).page();
  const std::string path = std::string(kSourceDir) + "/tests/golden/page.html";
  if (std::getenv("MIXPROOF_UPDATE_GOLDEN") != nullptr)
    std::ofstream(path, std::ios::binary) << page;
  std::ostringstream golden;
  golden << std::ifstream(path, std::ios::binary).rdbuf();
  EXPECT_TRUE(golden.str() == page) << "differs from " << path << "; see the top of this file";
}

TEST(Page, DrawsEverySignal) {
  FakeRun run;
  run.suite["signals"] = {{"queue", {{"page", "front"}, {"series", "depth"}}}};
  for (int tick = 0; tick < 70; ++tick)
    run.extra.push_back({{"row", "signal"},
                         {"load", "signals@edge"},
                         {"node", "edge-0"},
                         {"signal", "queue"},
                         {"instance", "front[0]"},
                         {"tick", tick},
                         {"at", FakeRows::kStart + FakeRows::ns(tick) - FakeRows::offset("edge-0")},
                         {"value", tick}});
  EXPECT_NE(made_from(run).page().find("queue: signal"), std::string::npos);
  EXPECT_EQ(made_from({}).page().find(": signal"), std::string::npos);
}

TEST(Page, SaysTheVerdictBeforeAnythingElse) {
  FakeRun failing;
  failing.violations = 40;
  const std::string page = made_from(failing).page();
  EXPECT_TRUE(has(page, "<title>fail: fake</title>"));
  EXPECT_TRUE(has(page, "1 of 4 required checks were measured outside their limit."));
  const std::size_t verdict = page.find("<h1>"), why = page.find("id=\"why\""),
                    timeline = page.find("id=\"timeline\"");
  EXPECT_LT(verdict, why);
  EXPECT_LT(why, timeline);
  const std::string deciding = page.substr(why, timeline - why);
  EXPECT_TRUE(has(deciding, "contention/sla"));
  EXPECT_FALSE(has(deciding, "stall/back")) << "it did not decide";
  EXPECT_TRUE(has(deciding, "contract 4.2"));
  EXPECT_FALSE(has(made_from({}).page(), "outside their limit"));
}

TEST(Page, TextOfASuiteIsOnlyText) {
  const std::string page = made_from(hostile()).page();
  EXPECT_FALSE(has(page, "<script"));
  EXPECT_FALSE(has(page, "<img"));
  EXPECT_FALSE(has(page, "<b>bold"));
  EXPECT_FALSE(has(page, "\xE2\x80\xAE")) << "text could be turned round";
  EXPECT_TRUE(has(page, "&lt;script&gt;alert(&#39;claim&#39;)&lt;/script&gt;"));
  EXPECT_TRUE(has(page, "&quot;&gt;&lt;img src=x"));
  EXPECT_TRUE(has(page, "&lt;/svg&gt;"));
}

TEST(Page, NeedsNothingBesideItself) {
  FakeRun run = hostile();
  run.suite["claim"] = "see http://example.org/x.js";  // as text it may stand there
  const std::string page = made_from(run).page();
  EXPECT_TRUE(has(page, "see http://example.org/x.js"));
  EXPECT_FALSE(attributes(page, "href").empty());
  for (const std::string& target : attributes(page, "href")) EXPECT_EQ(target[0], '#') << target;
  EXPECT_TRUE(attributes(page, "src").empty());
  for (const char* outside :
       {"url(", "@import", "<link", "<iframe", "<object", "srcset", "xlink", "style=\""})
    EXPECT_FALSE(has(page, outside)) << outside;
  EXPECT_TRUE(has(page, "default-src 'none'"));
}

TEST(Page, IsWellFormed) {
  if (!std::filesystem::exists("/usr/bin/python3"))
    GTEST_SKIP() << "needs /usr/bin/python3 as a strict parser";
  for (const FakeRun& run : {FakeRun{}, hostile(), cut(), with_a_fault_left()})
    EXPECT_EQ(parser_complaint(made_from(run).page()), "");
  EXPECT_EQ(parser_complaint(page_text(Json::object(), nullptr)), "");
  EXPECT_NE(parser_complaint("<p>not closed"), "");
}

TEST(Page, HeadingsDoNotSkipALevel) {
  const std::string page = made_from({}).page();
  int level = 0, tops = 0;
  for (std::size_t at = page.find("<h"); at != std::string::npos; at = page.find("<h", at + 1)) {
    const int next = page[at + 2] - '0';
    if (next < 1 || next > 6) continue;
    EXPECT_LE(next, level + 1) << page.substr(at, 60);
    level = next;
    tops += next == 1 ? 1 : 0;
  }
  EXPECT_EQ(tops, 1);
}

TEST(Page, OfACutRunSaysSo) {
  const std::string page = made_from(cut()).page();
  EXPECT_TRUE(has(page, "Partial: the run was cut"));
  EXPECT_TRUE(has(page, "did not begin"));
  EXPECT_TRUE(has(page, "cut short"));
  EXPECT_FALSE(has(made_from({}).page(), "Partial"));
}

TEST(Page, AFaultThatIsLeftIsNotOverlooked) {
  const std::string page = made_from(with_a_fault_left()).page(), clean = made_from({}).page();
  EXPECT_LT(page.find("a node may still be disturbed"), page.find("id=\"why\""));
  EXPECT_TRUE(has(page, "mixproof fault recover"));
  EXPECT_TRUE(has(page, "NOT proved clean"));
  EXPECT_TRUE(has(page, "fault-bar unproved"));
  EXPECT_FALSE(has(page, "Nothing is left"));
  EXPECT_TRUE(has(clean, "Nothing is left: every fault that touched something was undone"));
  EXPECT_FALSE(has(clean, "NOT proved clean"));
}

TEST(Page, AFaultThatIsOverAtOnceHasNoRevert) {
  FakeRun run;
  run.suite["phases"][3]["faults"] =
      Json::array({Json{{"fault", "process_kill"}, {"target", "llm[0]"}, {"at_s", 4}}});
  run.pause_s = 0.05;
  const Made made = made_from(run);
  const std::string page = made.page();
  EXPECT_TRUE(has(page, "process_kill on llm[0]"));
  EXPECT_TRUE(has(page, "users recovered from it in"));
  EXPECT_TRUE(has(page, "every fault that touched something is over or was undone"));
  EXPECT_FALSE(has(page, "reverting <b"));
  EXPECT_FALSE(has(page, "after the undo"));
  EXPECT_FALSE(has(page, "after its end was due"));
  EXPECT_TRUE(has(page, "class=\"fault-bar\"")) << "short as it was, it is drawn";
  EXPECT_TRUE(has(page, ">process_kill llm[0]</text>"));
  EXPECT_TRUE(has(made_from(FakeRun{}).page(), "users recovered after the undo in"));
}

TEST(Page, AFaultBetweenNodesNamesBothSides) {
  FakeRun run;
  run.suite["phases"][3]["faults"] = Json::array({Json{{"fault", "net_drop"},
                                                       {"target", "serve-0"},
                                                       {"peers", Json::array({"edge"})},
                                                       {"direction", "in"},
                                                       {"at_s", 4},
                                                       {"for_s", 4}}});
  EXPECT_TRUE(has(made_from(run).page(), "net_drop of what edge sends to serve-0"));
}

TEST(Page, OfANullServerSaysThatItIsSynthetic) {
  Made made = made_from({});
  EXPECT_FALSE(has(made.page(), "Synthetic"));
  made.report["plan"]["services"][0]["start"] = "null_server";
  EXPECT_TRUE(has(made.page(), "Synthetic: the answers came from a null server"));
}

TEST(Page, ShowsTheEvidenceOfControls) {
  Made made = made_from({});
  for (Json& event : made.report["timeline"]["events"]) {
    if (text_at(event, "state") == "planned")
      event["evidence"] = {{"plan",
                            {{"controls",
                              {{{"metric", "process.stopped_share"},
                                {"of", "target"},
                                {"positive", true},
                                {"low", 1},
                                {"high", 1}}}}}}};
    if (text_at(event, "state") == "effective")
      event["evidence"] = {{"before", {{"values", {{"control_0", {0, 0}}}}}},
                           {"during", {{"values", {{"control_0", {0.5, 1}}}}}}};
  }
  const std::string page = made.page();
  EXPECT_TRUE(has(page, "process.stopped_share of target (must change)"));
  EXPECT_TRUE(has(page, "0.5 to 1 (2 samples)"));
}

TEST(Page, WithoutARecordingSaysWhatIsMissing) {
  const Made made = made_from({});
  const std::string page = page_text(made.report, nullptr);
  EXPECT_TRUE(has(page, "The recording of this run is not beside the report"));
  EXPECT_FALSE(has(page, "class=\"rate\""));
  EXPECT_TRUE(has(made.page(), "class=\"rate\""));
}

TEST(Page, OfAnHourIsSmall) {
  FakeRun run;
  for (Json& phase : run.suite["phases"]) phase["measure_s"] = 900;
  run.stall_recovers_s = 100;
  const std::string page = made_from(run).page();
  EXPECT_LT(page.size(), 300'000u);
  EXPECT_TRUE(has(page, "class=\"bad\""));
}

TEST(Page, OfTooMuchLeavesOutAndSaysSo) {
  Made made = made_from({});
  EXPECT_FALSE(has(made.page(), "too long for a page"));
  Json check = made.report["checks"][0];
  check["detail"] = std::string(5000, 'x');
  for (int i = 0; i < 3000; ++i) made.report["checks"].push_back(check);
  const std::string page = made.page();
  EXPECT_LE(page.size(), kPageLimitBytes);
  EXPECT_TRUE(has(page, "too long for a page"));
  EXPECT_TRUE(has(page, "The others are in report.json."));
}

TEST(Page, OfAnythingIsAPage) {
  for (
      const char* text :
      {"{}", "[]", "null",
       R"({"checks": 3, "timeline": {"phases": [1], "events": "x"}, "safety": []})",
       R"({"checks": [null, {"limit": {"at_most": "x"}}], "metrics": [{"id": 1}], "plan": {"loads": [7]},
                               "timeline": {"phases": [{"begin_s": "x"}]}, "verdict": {"deciding": [{}], "reasons": [1, ""]}})"}) {
    const std::string page = page_text(*parse_json(text, "test"), nullptr);
    EXPECT_TRUE(has(page, "</html>")) << text;
  }
}

}  // namespace
}  // namespace mixproof
