// The real World with real children.
#include "harness/base/epoll_world.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace mixproof {
namespace {

TEST(EpollWorld, GoesWhileItsChildrenAndTimersAreStillThere) {
  for (int i = 0; i < 20; ++i) {
    std::vector<ProcessId> children;
    {
      Result<std::unique_ptr<RealWorld>> world = make_epoll_world();
      ASSERT_TRUE(world.ok());
      std::vector<std::unique_ptr<Child>> held;
      for (int n = 0; n < 6; ++n) {
        ChildSpec spec;
        spec.argv = {"/bin/cat"};
        Result<std::unique_ptr<Child>> child =
            (*world)->spawn(spec, {.on_line = {}, .on_exit = [](int) {}});
        ASSERT_TRUE(child.ok()) << child.error().message;
        children.push_back((*child)->id());
        held.push_back(std::move(*child));
        (*world)->after(std::chrono::hours(1), [] {});
      }
      held.resize(3);  // half of them are forgotten, the others are let go with the world
      bool turned = false;
      (*world)->after(std::chrono::milliseconds(5), [&turned] { turned = true; });
      (*world)->run_until([&turned] { return turned; });
    }
    for (const ProcessId& child : children) {
      ::kill(child.pid, SIGKILL);
      ::waitpid(child.pid, nullptr, 0);
    }
  }
}

TEST(EpollWorld, ASignalIsHeldBackUntilSomebodyListens) {
  Result<std::unique_ptr<RealWorld>> world = make_epoll_world();
  ASSERT_TRUE(world.ok());
  ::kill(::getpid(), SIGTERM);  // would end this process if any of its threads took it
  int seen = 0;
  (*world)->listen(
      {.on_line = {}, .on_end = {}, .on_signal = [&seen](int signal) { seen = signal; }});
  (*world)->run_until([&seen] { return seen != 0; });
  EXPECT_EQ(seen, SIGTERM);
}

}  // namespace
}  // namespace mixproof
