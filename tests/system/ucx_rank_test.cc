// What ranks say of each other when one of them, a real process, is stopped or killed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <deque>
#include <thread>

#include "harness/base/text.h"
#include "tests/fake/ucx_module.h"

namespace mixproof {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

class RankProcess {
 public:
  RankProcess(int rank, int size, std::chrono::milliseconds deadline) {
    std::array<int, 2> in{}, out{};
    EXPECT_EQ(pipe2(in.data(), O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(out.data(), O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    std::array<std::string, 5> words = {UCX_RANK_BINARY, fake::build_folder(), std::to_string(rank),
                                        std::to_string(size), std::to_string(deadline.count())};
    std::array<char*, 6> argv = {words[0].data(), words[1].data(), words[2].data(),
                                 words[3].data(), words[4].data(), nullptr};
    EXPECT_EQ(posix_spawn(&pid_, UCX_RANK_BINARY, &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    in_ = in[1];
    out_ = out[0];
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;
  ~RankProcess() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(in_);
    close(out_);
  }

  void signal(int number) const { ASSERT_EQ(::kill(pid_, number), 0); }
  void tell(const std::string& line) const {
    ASSERT_EQ(write(in_, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  }

  // The next line that starts so; empty when none came in time.
  std::string line(const std::string& start, std::chrono::milliseconds deadline) {
    const auto end = Clock::now() + deadline;
    for (;;) {
      for (std::size_t at = text_.find('\n'); at != std::string::npos; at = text_.find('\n')) {
        const std::string line = text_.substr(0, at);
        text_.erase(0, at + 1);
        if (starts_with(line, start)) return line;
      }
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
      pollfd ready = {out_, POLLIN, 0};
      if (left <= 0ms || poll(&ready, 1, static_cast<int>(left.count())) <= 0) return "";
      std::array<char, 4096> bytes;
      const ssize_t count = read(out_, bytes.data(), bytes.size());
      if (count <= 0) return "";
      text_.append(bytes.data(), static_cast<std::size_t>(count));
    }
  }

 private:
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
  std::string text_;
};

struct UcxRanks : testing::Test {
  std::deque<RankProcess> ranks;

  void start(int size, std::chrono::milliseconds deadline) {
    std::vector<std::string> addresses;
    for (int rank = 0; rank < size; ++rank) ranks.emplace_back(rank, size, deadline);
    for (RankProcess& rank : ranks) addresses.push_back(rank.line("address ", 10s).substr(8));
    for (RankProcess& rank : ranks) rank.tell(join(addresses, " ") + "\n");
    for (RankProcess& rank : ranks) ASSERT_NE(rank.line("round 20", 10s), "");
  }
};

TEST_F(UcxRanks, NameTheOneThatWasKilledWithinASecond) {
  SKIP_WITHOUT_UCX();
  start(3, 10s);
  const auto begin = Clock::now();
  ranks[2].signal(SIGKILL);
  for (const std::size_t rank : {0U, 1U}) {
    const std::string line = ranks[rank].line("error ", 5s);
    EXPECT_TRUE(starts_with(line, "error peer_lost")) << line;
    EXPECT_NE(line.find("rank 2"), std::string::npos) << line;
  }
  EXPECT_LT(Clock::now() - begin, 1s);
}

TEST_F(UcxRanks, NameTheOneThatStandsStillWithinTheDeadline) {
  SKIP_WITHOUT_UCX();
  start(3, 1500ms);
  const auto begin = Clock::now();
  ranks[1].signal(SIGSTOP);
  for (const std::size_t rank : {0U, 2U}) {
    const std::string line = ranks[rank].line("error ", 5s);
    EXPECT_TRUE(starts_with(line, "error timeout")) << line;
    EXPECT_NE(line.find("rank 1 "), std::string::npos) << line;
  }
  EXPECT_GT(Clock::now() - begin, 1s);
  EXPECT_LT(Clock::now() - begin, 3s);
  ranks[1].signal(SIGCONT);
  EXPECT_NE(ranks[1].line("error ", 5s), "") << "it must find out that the others gave up on it";
}

TEST_F(UcxRanks, GoOnAfterAPauseThatIsShorterThanTheDeadline) {
  SKIP_WITHOUT_UCX();
  start(2, 10s);
  ranks[1].signal(SIGSTOP);
  std::this_thread::sleep_for(1s);
  EXPECT_EQ(ranks[0].line("error ", 300ms), "");  // reads away all rounds before the pause
  EXPECT_EQ(ranks[0].line("round ", 300ms), "");
  ranks[1].signal(SIGCONT);
  for (RankProcess& rank : ranks) {
    EXPECT_NE(rank.line("round ", 5s), "");
    EXPECT_EQ(rank.line("error ", 300ms), "");
  }
}

}  // namespace
}  // namespace mixproof
