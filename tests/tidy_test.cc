// Rules of the tree that are objective: who may include whom, where vendor headers live, one test
// an entry, every test built, generated files fresh.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "faults/fault.h"
#include "harness/base/text.h"
#include "harness/cli/catalog_text.h"
#include "harness/cli/catalogue.h"
#include "probes/probe.h"
#include "reports/report.h"
#include "tests/fake/paths.h"

namespace mixproof {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = kSourceDir;

std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

struct Source {
  std::string path;  // relative to the root
  std::vector<std::string> includes;
};

// The path of an #include line; empty for any other.
std::string included(const std::string& line) {
  const std::size_t word = line.find("#include ");
  if (word == std::string::npos || line.find_first_not_of(" \t") != word) return "";
  const std::size_t begin = line.find_first_of("<\"", word), end = line.find_last_of(">\"");
  return begin == std::string::npos || end <= begin ? "" : line.substr(begin + 1, end - begin - 1);
}

// Whether a word stands there by itself.
bool has_word(const std::string& text, const std::string& word) {
  const auto part_of_word = [&](std::size_t at) {
    return at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
  };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    if (!(at > 0 && part_of_word(at - 1)) && !part_of_word(at + word.size())) return true;
  return false;
}

std::vector<Source> sources() {
  std::vector<Source> out;
  for (const char* room : {"harness", "probes", "faults", "suites", "reports", "tests"})
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / room)) {
      const std::string extension = entry.path().extension();
      if (extension != ".cc" && extension != ".h") continue;
      Source source{fs::relative(entry.path(), kRoot), {}};
      std::istringstream text(read(entry.path()));
      for (std::string line; std::getline(text, line);)
        if (const std::string path = included(line); !path.empty()) source.includes.push_back(path);
      out.push_back(std::move(source));
    }
  return out;
}

// The longest of these that begins a path is its room.
const std::vector<std::string> kRooms = {"harness/base",
                                         "harness/transport",
                                         "harness/agent",
                                         "harness/controller",
                                         "harness/cli",
                                         "probes/backends/ucx",
                                         "probes/backends/cpu",
                                         "probes/backends",
                                         "probes/checkpoint",
                                         "probes/inference",
                                         "probes/signal",
                                         "probes",
                                         "faults",
                                         "suites/services",
                                         "suites",
                                         "reports",
                                         "tests"};

std::string room_of(const std::string& path) {
  std::string best;
  for (const std::string& room : kRooms)
    if (starts_with(path, room + "/") && room.size() > best.size()) best = room;
  return best;
}

// Besides itself, what each room may include. The command line and the tests may include
// everything.
const std::map<std::string, std::set<std::string>> kMay = {
    {"harness/base", {}},
    {"harness/transport", {"harness/base"}},
    {"harness/agent", {"harness/base", "harness/transport", "probes", "faults"}},
    {"harness/controller",
     {"harness/base", "harness/transport", "suites", "suites/services", "reports"}},
    {"probes",
     {"harness/base", "probes/inference", "probes/signal", "probes/backends", "probes/backends/cpu",
      "probes/checkpoint"}},
    {"probes/inference", {"harness/base", "probes"}},
    {"probes/signal", {"harness/base", "probes/inference"}},
    {"probes/backends", {"harness/base"}},
    {"probes/checkpoint", {"harness/base"}},
    {"probes/backends/cpu", {"harness/base", "probes/backends"}},
    {"probes/backends/ucx", {"harness/base", "probes/backends"}},
    {"faults", {"harness/base"}},
    {"suites/services", {"harness/base"}},
    {"suites", {"harness/base", "reports", "suites/services"}},
    {"reports", {"harness/base"}},
};

std::string complaint(const Source& source, const std::string& include) {
  const std::string from = room_of(source.path), to = room_of(include);
  if (to.empty() || from == to || kMay.count(from) == 0) return "";
  if (kMay.at(from).count(to) != 0) {
    // Of a catalog's folder only its interface may be seen from outside.
    const bool entry = (to == "probes" && include != "probes/probe.h") ||
                       (to == "faults" && include != "faults/fault.h");
    if (!entry) return "";
  }
  return source.path + " includes " + include;
}

TEST(Tidy, IncludesPointDown) {
  std::vector<std::string> bad;
  for (const Source& source : sources())
    for (const std::string& include : source.includes)
      if (const std::string one = complaint(source, include); !one.empty()) bad.push_back(one);
  EXPECT_TRUE(bad.empty()) << join(bad, "\n");
}

TEST(Tidy, AWrongDirectionIsNoticed) {
  EXPECT_NE(complaint({"harness/base/x.h", {}}, "harness/agent/agent.h"), "");
  EXPECT_NE(complaint({"harness/controller/x.cc", {}}, "probes/probe.h"), "");
  EXPECT_NE(complaint({"faults/x.cc", {}}, "suites/plan.h"), "");
  EXPECT_NE(complaint({"harness/agent/x.cc", {}}, "probes/training.h"), "");
  EXPECT_EQ(complaint({"harness/agent/x.cc", {}}, "probes/probe.h"), "");
}

TEST(Tidy, VendorHeadersStayInTheirBackends) {
  const std::map<std::string, std::string> homes = {
      {"ucp/", "probes/backends/ucx/"},     {"ucs/", "probes/backends/ucx/"},
      {"cblas.h", "probes/backends/cpu/"},  {"nccl.h", "probes/backends/"},
      {"cuda", "probes/backends/"},         {"liburing.h", "probes/backends/"},
      {"nftables/", "harness/agent/nft.cc"}};
  for (const Source& source : sources())
    for (const std::string& include : source.includes)
      for (const auto& [vendor, home] : homes)
        if (starts_with(include, vendor)) {
          EXPECT_TRUE(starts_with(source.path, home)) << source.path << " includes " << include;
        }
}

TEST(Tidy, HeadersDoNotPullInTheJsonLibrary) {
  for (const Source& source : sources())
    if (source.path.ends_with(".h") && !starts_with(source.path, "tests/")) {
      EXPECT_EQ(std::count(source.includes.begin(), source.includes.end(), "nlohmann/json.hpp"), 0)
          << source.path;
    }
}

TEST(Tidy, EveryEntryHasItsFileAndItsTest) {
  for (const ProbeSpec* spec : all_probes()) {
    const std::string name(spec->name);
    EXPECT_TRUE(fs::exists(kRoot / "probes" / (name + ".cc"))) << name;
    EXPECT_TRUE(fs::exists(kRoot / "tests/probes" / (name + "_test.cc"))) << name << " has no test";
  }
  for (const FaultSpec* spec : all_faults()) {
    const std::string name(spec->name);
    EXPECT_TRUE(fs::exists(kRoot / "faults" / (name + ".cc"))) << name;
    EXPECT_TRUE(fs::exists(kRoot / "tests/faults" / (name + "_test.cc"))) << name << " has no test";
  }
}

TEST(Tidy, EveryTestIsBuilt) {
  const std::string build = read(kRoot / "tests/CMakeLists.txt");
  for (const auto& entry : fs::directory_iterator(kRoot / "tests")) {
    if (!entry.is_directory()) continue;
    bool has_tests = false;
    for (const auto& file : fs::recursive_directory_iterator(entry.path()))
      has_tests = has_tests || file.path().string().ends_with("_test.cc");
    const std::string folder = entry.path().filename();
    if (has_tests) {
      EXPECT_TRUE(has_word(build, folder)) << folder << " is not in tests/CMakeLists.txt";
    }
  }
}

TEST(Tidy, NothingIsLeftForLater) {
  // In two halves, so that this file does not find itself.
  const std::vector<std::string> later = {std::string("TO") + "DO", std::string("FIX") + "ME",
                                          std::string("XX") + "X", std::string("HA") + "CK"};
  for (const Source& source : sources()) {
    const std::string text = read(kRoot / source.path);
    for (const std::string& word : later)
      EXPECT_FALSE(has_word(text, word)) << source.path << " says " << word;
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 600)
        << source.path << " does more than one job";
  }
}

// Stale: run the command at the top of the page and commit what it writes.
TEST(Tidy, CatalogsAreFresh) {
  EXPECT_EQ(read(kRoot / "probes/CATALOG.md"), probes_markdown())
      << "mixproof list probes --markdown > probes/CATALOG.md";
  EXPECT_EQ(read(kRoot / "faults/CATALOG.md"), faults_markdown())
      << "mixproof list faults --markdown > faults/CATALOG.md";
}

}  // namespace
}  // namespace mixproof
