// `mixproof doctor load` as a whole: what must hold on any machine, and that a starved client is
// noticed.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/base/cpus.h"
#include "harness/base/json.h"
#include "probes/inference/own_process.h"
#include "tests/fake/paths.h"

namespace mixproof {
namespace {

struct Examined {
  int exit_code = -1;
  Json out = nullptr;
  std::map<std::string, Json> checks;
  std::string status(const std::string& id) const {
    const auto found = checks.find(id);
    return found == checks.end() ? "absent" : text_at(found->second, "status");
  }
  std::string all() const { return out.dump(1); }
};

Examined doctor_load(const std::string& options) {
  Examined result;
  const std::string command =
      std::string(kMixproofBinary) + " doctor load --json " + options + " 2>/dev/null";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return result;
  std::string text;
  std::array<char, 4096> buffer;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    text.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (const auto json = parse_json(text, "doctor"); json.ok()) {
    result.out = *json;
    for (const Json& check : (*json)["checks"]) result.checks[text_at(check, "id")] = check;
  }
  return result;
}

// A loop without rest on one processor.
class BusyLoop {
 public:
  explicit BusyLoop(int cpu) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    ::sched_setaffinity(0, sizeof set, &set);
    for (std::atomic<unsigned> rounds = 0;;) ++rounds;
  }
  ~BusyLoop() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

// What is timed to microseconds may fail on a busy machine, and then says so; what counts, or asks
// the judge, may not.
TEST(DoctorLoad, CountsAgreeAndTheJudgeIsNotFooled) {
  const Examined examined = doctor_load("--quick");
  ASSERT_EQ(examined.checks.size(), 11u) << examined.all();
  for (const char* id : {"f", "g", "h", "j"})
    EXPECT_EQ(examined.status(id), "pass") << examined.all();
  bool fail = false, other = false;
  for (const auto& [id, check] : examined.checks) {
    EXPECT_NE(text_at(check, "status"), "error") << check.dump();
    EXPECT_EQ(text_at(check, "reason").empty(), text_at(check, "status") == "pass");
    fail = fail || text_at(check, "status") == "fail";
    other = other || text_at(check, "status") == "inconclusive";
    if (text_at(check, "status") != "pass") std::printf("%s\n", check.dump().c_str());
  }
  EXPECT_EQ(examined.exit_code, fail ? 1 : other ? 2 : 0);
}

TEST(DoctorLoad, AStarvedClientFailsTheSendLateness) {
  const std::vector<int> cpus = allowed_cpus();
  ASSERT_FALSE(cpus.empty());
  const BusyLoop loop(cpus.front());  // where the client runs
  const Examined examined = doctor_load("--quick --only cdh --plain-priority");
  EXPECT_EQ(examined.exit_code, 1) << examined.all();
  EXPECT_EQ(examined.checks.size(), 3u);
  EXPECT_EQ(examined.status("d"), "fail") << examined.all();
  EXPECT_NE(text_at(examined.checks.at("d"), "reason").find("p99 is"), std::string::npos)
      << examined.all();
  EXPECT_EQ(examined.status("h"), "pass");  // late, but nothing is lost
}

}  // namespace
}  // namespace mixproof
