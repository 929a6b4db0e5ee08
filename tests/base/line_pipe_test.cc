#include "harness/base/line_pipe.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace mixproof {
namespace {

// Out of line, because GCC 12 takes the inlined constructor for a write out of bounds.
[[gnu::noinline]] std::string many(std::size_t count, char letter) {
  return std::string(count, letter);
}

struct Lines {
  explicit Lines(const std::string& input) {
    int fds[2];
    EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0);
    reactor = Reactor::create().value();
    reader = std::make_unique<LineReader>(
        *reactor, UniqueFd(fds[0]), [this](std::string_view line) { got.emplace_back(line); },
        [this] { ++ends; });
    EXPECT_TRUE(reader->start().ok());
    std::jthread writer([fd = fds[1], &input] {
      std::string_view rest = input;
      while (!rest.empty()) {
        const ssize_t written = ::write(fd, rest.data(), rest.size());
        if (written <= 0) break;
        rest.remove_prefix(static_cast<std::size_t>(written));
      }
      ::close(fd);
    });
    while (ends == 0) reactor->turn();
  }
  std::unique_ptr<Reactor> reactor;
  std::unique_ptr<LineReader> reader;
  std::vector<std::string> got;
  int ends = 0;
};

TEST(LineReader, SplitsAndDeliversAnUnfinishedLastLine) {
  const Lines lines("one\n\ntwo\nthr");
  EXPECT_EQ(lines.got, (std::vector<std::string>{"one", "", "two", "thr"}));
  EXPECT_EQ(lines.ends, 1);
}

TEST(LineReader, AnOverlongLineIsCutAndWhatFollowsIsStillLines) {
  const Lines lines(many(kLineBytesMax + 5000, 'x') + "\nnext\n");
  ASSERT_EQ(lines.got.size(), 3u);
  EXPECT_EQ(lines.got[0], many(kLineBytesMax, 'x'));
  EXPECT_EQ(lines.got[1], many(5000, 'x')) << "no byte is lost in the cut";
  EXPECT_EQ(lines.got[2], "next");
}

TEST(LineReader, ALineOfExactlyTheLimitIsWhole) {
  const Lines lines(many(kLineBytesMax, 'y') + "\nnext\n");
  ASSERT_EQ(lines.got.size(), 2u);
  EXPECT_EQ(lines.got[0].size(), kLineBytesMax);
  EXPECT_EQ(lines.got[1], "next");
}

}  // namespace
}  // namespace mixproof
