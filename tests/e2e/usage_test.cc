// Bad input: exit status 4, the place and the nearest valid word on stderr, and nothing was
// started.
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "tests/e2e/command.h"
#include "tests/fake/paths.h"

namespace mixproof {
namespace {

namespace fs = std::filesystem;

class Usage : public EndToEnd {
 protected:
  Json short_suite() const { return json_file(suite("short")); }
  std::string suite_with(const std::string& pointer, const Json& value) const {
    Json json = short_suite();
    json[Json::json_pointer(pointer)] = value;
    return write("suite.json", json.dump());
  }

  // Every word stands on stderr, and neither a run's directory nor a lab has come into being.
  void refuses(const std::vector<std::string>& args, const std::vector<std::string>& words,
               CommandOptions options = {}) {
    const Ended ended = run(args, std::move(options));
    EXPECT_EQ(ended.status, 4) << join(args, " ");
    EXPECT_EQ(ended.out, "");
    for (const std::string& word : words)
      EXPECT_TRUE(ended.says(word)) << "'" << word << "' is not in: " << ended.err;
    EXPECT_FALSE(exists("mixproof-runs")) << join(args, " ");
    EXPECT_FALSE(ended.says("starting") || ended.says("connecting")) << ended.err;
  }
};

TEST_F(Usage, AMisspeltKeyOfASuiteIsNamedWithItsPlaceAndTheKeyMeant) {
  refuses({"run", suite_with("/phases/0/mesure_s", 3)},
          {"suite.json", "/phases/0", "mesure_s", "measure_s"});
  refuses({"run", suite_with("/placment", "none")}, {"/placment", "placement"});
  refuses({"run", suite_with("/loads/users/params/answer_token", 3)},
          {"/loads/users/params/answer_token", "answer_tokens"});
  refuses({"run", suite_with("/services/llm/params/ttft", 3)},
          {"/services/llm/params/ttft", "ttft_ms"});
  refuses({"run", suite_with("/phases/1/faults/0/fault", "proces_pause")},
          {"/phases/1/faults/0/fault", "process_pause"});
  refuses({"run", suite_with("/phases/1/faults/0/target", "lm[0]")},
          {"/phases/1/faults/0/target", "llm[0]"});
  refuses({"run", suite_with("/limits/0/metric", "inference.tft")},
          {"/limits/0/metric", "inference.ttft"});
}

TEST_F(Usage, AMisspeltKeyOfASettingIsNamedWithTheKeyMeant) {
  const std::string path = suite("short");
  refuses({"run", path, "--set", "limits.wait.at_mots=3"}, {"limits.wait.at_mots", "at_most"});
  refuses({"run", path, "--set", "limits.wiat.at_most=3"}, {"limits.wiat", "wait"});
  refuses({"run", path, "--set", "placement=phsical"}, {"placement", "physical"});
  refuses({"run", path, "--set", "placement"}, {"placement", "key=value"});
  refuses({"plan", path, "--set", "limits.wait.at_mots=3"}, {"at_mots", "at_most"});
}

TEST_F(Usage, AMisspeltKeyOfAnInventoryIsNamedWithItsPlaceAndTheKeyMeant) {
  const auto with = [&](const char* nodes) {
    return std::vector<std::string>{"run", suite("short"), "--yes", "-i",
                                    write("inventory.json", nodes)};
  };
  refuses(with(R"({"nodes": [{"name": "a", "adress": "127.0.0.1", "roles": ["edge"]}]})"),
          {"inventory.json", "/nodes/0", "adress", "address"});
  refuses(
      with(
          R"({"nodes": [{"name": "a", "address": "127.0.0.1", "roles": ["edge"], "transport": "locl"}]})"),
      {"/nodes/0/transport", "local"});
  refuses(with(R"({"nodes": [{"name": "a", "address": "127.0.0.1", "roles": ["edge"]}]})"),
          {"too few nodes", "serve", "serve-0"});
  refuses({"run", suite("short"), "--yes", "-i", "nowhere.json"}, {"nowhere.json", "No such file"});
}

TEST_F(Usage, UnknownCommandsAndOptionsAreNamedWithTheOneMeant) {
  refuses({"rnu"}, {"rnu", "run"});
  refuses({"run", suite("short"), "--seeed", "3"}, {"--seeed", "--seed"});
  refuses({"run", suite("short"), "--seed", "three"}, {"--seed", "whole number"});
  refuses({"run", suite("short"), "--output"}, {"--output", "value"});
  refuses({"run"}, {"usage: mixproof run SUITE"});
  refuses({"lab", "up", "--node", "3"}, {"--node", "--nodes"});
  refuses({"demo", "--compare", "--round", "3"}, {"--round", "--rounds"});
  refuses({"demo", "--compare", "--rounds", "0"}, {"--rounds", "whole number from 1"});
  refuses({"demo", "--compare", "--set", "phases.7.measure_s=3", "-o", path("new")}, {"phases"});
  refuses({}, {"usage: mixproof COMMAND"});
}

TEST_F(Usage, AFileThatCannotBeReadOrIsDamagedIsNamedWithThePlace) {
  refuses({"run", "nowhere.json"}, {"nowhere.json", "No such file"});
  refuses({"run", directory_}, {directory_, "directory"});
  refuses({"run", write("torn.json", "{\n  \"name\": \"x\",\n  \"claim\" 3}")},
          {"torn.json", "line 3"});
  refuses({"run", write("empty.json", "")}, {"empty.json", "empty"});
  refuses({"run", write("twice.json", R"({"name": "a", "name": "b"})")},
          {"twice.json", "duplicate key \"name\""});
  refuses({"report", "show", "nowhere"}, {"nowhere"});
  refuses({"rejudge", directory_}, {"run.json", "not the directory of a run"});
}

TEST_F(Usage, AnOutputDirectoryThatHoldsSomethingIsRefused) {
  ASSERT_TRUE(fs::create_directory(path("full")));
  write("full/mine.txt", "precious");
  refuses({"run", suite("short"), "-o", "full"}, {"full", "not empty"});
  EXPECT_TRUE(exists("full/mine.txt"));
  refuses({"run", suite("short"), "-o", "full/mine.txt"}, {"full/mine.txt", "not a directory"});
}

TEST_F(Usage, ARunOnAnInventoryAsksFirstAndWithoutATerminalRefuses) {
  const std::string inventory = write("inventory.json", R"({"nodes": [
      {"name": "a", "address": "127.0.0.1", "roles": ["edge"]},
      {"name": "b", "address": "127.0.0.1", "roles": ["serve"]},
      {"name": "c", "address": "127.0.0.1", "roles": ["serve"]}]})");
  refuses({"run", suite("short"), "-i", inventory},
          {"process_pause", "llm[0]", "127.0.0.1", "--yes"});
}

TEST_F(Usage, SomeoneWhoIsNotRootIsToldWhatToDo) {
  if (::geteuid() != 0) {
    refuses({"run", suite("short")}, {"needs root", "-i"});
    return;
  }
  // The build folder may be closed to others: a copy of the program in a directory that is open to
  // all.
  CommandOptions nobody;
  nobody.program = path("mixproof");
  nobody.before = {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
  ASSERT_TRUE(fs::copy_file(kMixproofBinary, nobody.program));
  const std::string copy = write("copy.json", short_suite().dump());
  refuses({"run", copy}, {"needs root", "-i"}, nobody);
  refuses({"lab", "up"}, {"root"}, nobody);
}

class Missing : public Usage {
 protected:
  void SetUp() override {
    if (::geteuid() != 0)
      GTEST_SKIP() << "needs root: it hides a program in a mount namespace of its own";
    Usage::SetUp();
  }
  // Runs with something that is no program in place of an installed one.
  static CommandOptions without(const std::string& program) {
    CommandOptions options;
    options.before = {
        "unshare", "--mount", "sh", "-c", "mount --bind /dev/null \"$0\" && exec \"$@\"", program};
    return options;
  }
};

TEST_F(Missing, WithoutHaproxyTheRunSaysWhatToInstall) {
  if (!fs::exists("/usr/sbin/haproxy")) {
    refuses({"run", suite("short")},
            {"service front", "haproxy is not installed", "package haproxy"});
    return;
  }
  refuses({"run", suite("short")}, {"service front", "haproxy is not installed", "package haproxy"},
          without("/usr/sbin/haproxy"));
}

TEST_F(Missing, WithoutTheEnginesPythonTheRunSaysWhatToDo) {
  CommandOptions options;
  options.environment = {"MIXPROOF_PYTHON=/nonexistent/python"};
  refuses({"run", std::string(kSourceDir) + "/suites/smoke.json"},
          {"service llm", "/nonexistent/python", ".ci/setup"}, options);
}

}  // namespace
}  // namespace mixproof
