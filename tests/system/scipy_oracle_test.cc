// The reference tables of the statistics, made again by scipy and compared with those in the tree.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/fake/paths.h"
#include "tests/system/lab_fixture.h"

namespace mixproof {
namespace {

std::string here() { return std::string(kSourceDir) + "/tests/base"; }

// The words of a table's lines; comments left out.
std::vector<std::vector<std::string>> table_of(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::vector<std::string>> out;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    out.emplace_back();
    for (std::string word; words >> word;) out.back().push_back(word);
  }
  return out;
}

TEST(ScipyOracle, MakesTheTablesThatAreInTheTree) {
  if (shell("/usr/bin/python3 -c 'import scipy.stats'").status != 0)
    GTEST_SKIP() << "scipy is not installed (python3-scipy)";
  char pattern[] = "/tmp/mixproof-oracle-XXXXXX";
  const char* folder = ::mkdtemp(pattern);
  ASSERT_NE(folder, nullptr);
  const auto made =
      shell(std::string("/usr/bin/python3 -B ") + here() + "/scipy_oracle.py " + folder);
  ASSERT_EQ(made.status, 0) << made.text;
  for (const char* name : {"clopper_pearson.txt", "scipy_ranks.txt", "scipy_power.txt"}) {
    const auto ours = table_of(here() + "/" + name),
               theirs = table_of(std::string(folder) + "/" + name);
    ASSERT_EQ(ours.size(), theirs.size()) << name;
    ASSERT_GT(ours.size(), 50u) << name;
    for (std::size_t row = 0; row < ours.size(); ++row) {
      ASSERT_EQ(ours[row].size(), theirs[row].size()) << name << " row " << row;
      for (std::size_t i = 0; i < ours[row].size(); ++i)
        EXPECT_NEAR(std::stod(ours[row][i]), std::stod(theirs[row][i]), 1e-9)
            << name << " row " << row << ", column " << i;
    }
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace mixproof
