#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "harness/base/epoll_world.h"
#include "probes/probe.h"
#include "tests/fake/row_list.h"

namespace mixproof {
namespace {

const ProbeSpec& spec() {
  for (const ProbeSpec* one : all_probes())
    if (one->name == "process_progress") return *one;
  std::abort();
}

// A process that wakes up every millisecond, until it is let go.
class Busy {
 public:
  Busy() : pid_(::fork()) {
    if (pid_ != 0) return;
    while (true) ::usleep(1000);
  }
  ~Busy() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

  Json json() const {
    const Result<ProcessId> id = make_real_host_view()->identify(pid_);
    Json out = process_to_json(*id);
    out["name"] = "busy";
    return out;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

struct Seen {
  std::vector<Json> rows;
  Status checked = ok();
};

Result<Seen> look(const Json& processes, const std::string& control, double window_s = 0.1) {
  const auto probe = spec().create();
  TRY(read_params({{"processes", processes}, {"window_s", window_s}, {"control", control}},
                  probe->params()));
  fake::RowList rows;
  ProbeContext context{.rows = rows};
  TRY(probe->prepare(context));
  TRY(probe->run(context));
  Seen seen{rows.rows(), ok()};
  seen.checked = probe->check(context);
  return seen;
}

TEST(ProcessProgress, SeesThatAProcessMoves) {
  const Busy busy;
  const auto seen = look(Json::array({busy.json()}), "positive");
  ASSERT_TRUE(seen.ok()) << seen.error().message;
  ASSERT_EQ(seen->rows.size(), 1u);
  EXPECT_EQ(seen->rows[0]["stopped_share"], 0.0);
  EXPECT_GT(seen->rows[0]["switches_per_s"].get<double>(), 0);  // 1000 on an idle machine
  EXPECT_TRUE(seen->checked.ok());
}

TEST(ProcessProgress, SeesThatAProcessStandsStill) {
  const Busy busy;
  ::kill(busy.pid(), SIGSTOP);
  ::waitpid(busy.pid(), nullptr, WUNTRACED);
  const auto seen = look(Json::array({busy.json()}), "positive");
  ::kill(busy.pid(), SIGCONT);
  ASSERT_TRUE(seen.ok());
  EXPECT_EQ(seen->rows[0]["stopped_share"], 1.0);
  EXPECT_EQ(seen->rows[0]["switches_per_s"], 0.0);
}

Json one_that_is_gone() {
  const Busy busy;
  return busy.json();
}

// The control of a pause must say no to that, the control of a kill yes.
TEST(ProcessProgress, AProcessThatIsGoneIsNotStandingStill) {
  const auto seen = look(Json::array({one_that_is_gone()}), "positive");
  ASSERT_TRUE(seen.ok());
  ASSERT_EQ(seen->rows.size(), 1u);
  EXPECT_EQ(seen->rows[0]["stopped_share"], 0.0);
  EXPECT_EQ(seen->rows[0]["gone_share"], 1.0);
  EXPECT_TRUE(seen->checked.ok()) << "that it is gone is an answer";
}

TEST(ProcessProgress, ANegativeControlWithNothingThereHasSeenNothing) {
  for (const char* control : {"negative", "none"}) {
    const auto seen = look(Json::array({one_that_is_gone()}), control);
    ASSERT_TRUE(seen.ok());
    EXPECT_FALSE(seen->checked.ok()) << control;
  }
}

TEST(ProcessProgress, AProcessThatIsThereIsNotGone) {
  const Busy busy;
  for (const char* control : {"positive", "negative"}) {
    const auto seen = look(Json::array({busy.json()}), control);
    ASSERT_TRUE(seen.ok());
    EXPECT_EQ(seen->rows[0]["gone_share"], 0.0) << control;
  }
}

TEST(ProcessProgress, AnotherProcessUnderTheSameNumberDoesNotCountForIt) {
  const Busy busy;
  Json replaced = busy.json();
  replaced["start_ticks"] = integer_at(replaced, "start_ticks") + 1;
  const auto seen = look(Json::array({replaced}), "positive");
  ASSERT_TRUE(seen.ok());
  EXPECT_EQ(seen->rows[0]["gone_share"], 1.0);
}

TEST(ProcessProgress, OfSeveralProcessesOfANameAllMustBeGone) {
  const Busy busy;
  const auto seen = look(Json::array({one_that_is_gone(), busy.json()}), "positive");
  ASSERT_TRUE(seen.ok());
  ASSERT_EQ(seen->rows.size(), 1u);
  EXPECT_EQ(seen->rows[0]["gone_share"], 0.5);
}

// It dies in mid-look: a positive control must not take that for gone all the time, and a negative
// one must not miss it.
TEST(ProcessProgress, AProcessThatDiesMeanwhileCountsAgainstBothControls) {
  for (const auto& [control, share] : {std::pair{"positive", 0.0}, std::pair{"negative", 1.0}}) {
    const Busy busy, other;
    Json survivor = other.json();
    survivor["name"] = "other";
    std::jthread killer([&busy] {
      ::usleep(200'000);
      ::kill(busy.pid(), SIGKILL);
    });
    const auto seen = look(Json::array({busy.json(), survivor}), control, 0.6);
    ASSERT_TRUE(seen.ok());
    ASSERT_EQ(seen->rows.size(), 2u);
    EXPECT_EQ(seen->rows[0]["gone_share"], share) << control;
    EXPECT_EQ(seen->rows[1]["gone_share"], 0.0) << control;
  }
}

TEST(ProcessProgress, NothingToLookAtIsAnError) {
  EXPECT_FALSE(look(Json::array(), "positive").ok());
}

}  // namespace
}  // namespace mixproof
