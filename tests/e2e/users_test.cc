// Users on several nodes, several servers, and a token that nobody else gets to see.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/e2e/command.h"

namespace mixproof {
namespace {

class Users : public LabRun {
 protected:
  // The file of the run's directory that holds the text; empty when none does.
  std::string file_with(const std::string& text) const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      if (bytes.find(text) != std::string::npos) return entry.path();
    }
    return "";
  }
};

TEST_F(Users, OfTwoNodesShareOneScheduleOverTwoServersAndKeepTheirToken) {
  const std::string token = "sk-e2e-5f1c9a77";
  auto running = start_run({suite("spread"), "-o", "run"},
                           {.directory = "", .environment = {"MIXPROOF_E2E_TOKEN=" + token}});
  const Ended ended = running->wait(Seconds(60));
  EXPECT_TRUE(ended.status == 0 || ended.status == 2) << ended.err;  // 2: too busy to measure
  std::set<std::int64_t> requests;
  std::map<std::string, int> by_node;
  std::map<std::int64_t, int> by_target;
  std::int64_t announced = 0;
  const std::vector<Json> rows = recorded("run");
  for (const Json& row : rows) {
    EXPECT_EQ(row.dump().find(token), std::string::npos) << row;
    if (text_at(row, "row") == "ready" && text_at(row, "what") == "users")
      announced += integer_at(row["info"]["arrivals"]["by_phase"], "steady");
    if (text_at(row, "row") != "request") continue;
    EXPECT_TRUE(requests.insert(integer_at(row, "i")).second) << row;
    EXPECT_EQ(text_at(row, "outcome"), "OK") << row;
    EXPECT_EQ(integer_at(row, "i") % 2, integer_at(row, "worker")) << row;
    ++by_node[text_at(row, "node")];
    ++by_target[integer_at(row, "target")];
  }
  EXPECT_GT(announced, 20);
  EXPECT_EQ(std::ssize(requests), announced);
  EXPECT_EQ(by_node.size(), 2U);
  EXPECT_EQ(by_target.size(), 2U);
  EXPECT_LE(std::abs(by_target[0] - by_target[1]), 2);
  EXPECT_EQ(file_with(token), "");
  EXPECT_NE(file_with("MIXPROOF_E2E_TOKEN"), "");  // it would be found: its name is
  EXPECT_EQ(ended.out.find(token), std::string::npos);
  EXPECT_EQ(ended.err.find(token), std::string::npos);
  const Ended again = run({"rejudge", "run"});
  EXPECT_EQ(again.status, ended.status) << again.err;
}

TEST_F(Users, WithoutTheirTokenDoNotStart) {
  const Ended ended = start_run({suite("spread"), "-o", "run"})->wait(Seconds(60));
  EXPECT_NE(ended.status, 0);
  EXPECT_TRUE(ended.says("MIXPROOF_E2E_TOKEN is not set where the load runs")) << ended.err;
}

}  // namespace
}  // namespace mixproof
