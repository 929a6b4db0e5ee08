// The UCX communicator with its ranks as threads, over tcp on the loopback device.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <ctime>
#include <vector>

#include "tests/fake/thread_group.h"
#include "tests/fake/ucx_module.h"

namespace mixproof {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

Patience within(std::chrono::milliseconds time) { return {Clock::now() + time, {}}; }

Result<std::unique_ptr<Communicator>> make(CommunicatorOptions options) {
  options.net_devices = "lo";
  const BackendTable* backend = TRY(open_backend("ucx", fake::build_folder()));
  return backend->create_communicator(options);
}

Result<std::unique_ptr<Communicator>> join_group(Group& group, std::size_t bucket_bytes = 1 << 20) {
  auto communicator =
      TRY(make({.rank = group.rank(), .size = group.size(), .bucket_bytes = bucket_bytes}));
  const std::vector<std::string> addresses =
      TRY(group.all_gather("addresses", communicator->address(), 5s));
  const Outcome met = TRY(communicator->connect(addresses, within(5s)));
  if (met != Outcome::kDone) return Error{Code::kRefused, "stopped"};
  return communicator;
}

double thread_cpu_s() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

float value_of(int rank, std::size_t i) {
  return static_cast<float>((rank + 1) * static_cast<int>(i % 1'000));
}

TEST(UcxRing, SumsForAnyNumberOfRanksSizeAndBucket) {
  SKIP_WITHOUT_UCX();
  for (const int size : {1, 2, 3}) {
    for (const std::size_t bucket : {std::size_t{4}, std::size_t{1'000}, std::size_t{1} << 20}) {
      fake::ThreadGroup ranks(size);
      ranks.run([&](Group& group) {
        auto communicator = join_group(group, bucket);
        ASSERT_TRUE(communicator) << communicator.error().message;
        for (const std::size_t length :
             {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{301},
              bucket < 1'000 ? std::size_t{17} : std::size_t{100'003}}) {
          std::vector<float> data(length);
          for (std::size_t i = 0; i < length; ++i) data[i] = value_of(group.rank(), i);
          auto outcome = (*communicator)->all_reduce_sum(data, within(5s));
          ASSERT_TRUE(outcome) << outcome.error().message;
          for (std::size_t i = 0; i < length; ++i) {
            float expected = 0;
            for (int rank = 0; rank < size; ++rank) expected += value_of(rank, i);
            ASSERT_EQ(data[i], expected)
                << size << " ranks, bucket " << bucket << ", element " << i << " of " << length;
          }
        }
        EXPECT_EQ((*communicator)->transport().value(), size == 1 ? "none" : "tcp");
        Status closed = (*communicator)->close(within(5s));
        EXPECT_TRUE(closed) << closed.error().message;
      });
    }
  }
}

TEST(UcxRing, WaitsForALateRankWithoutSpinning) {
  SKIP_WITHOUT_UCX();
  fake::ThreadGroup ranks(2);
  std::atomic<bool> late_one_came = false;
  ranks.run([&](Group& group) {
    auto communicator = join_group(group);
    ASSERT_TRUE(communicator) << communicator.error().message;
    if (group.rank() == 1) {
      std::this_thread::sleep_for(1s);
      late_one_came = true;
    }
    const double before = thread_cpu_s();
    ASSERT_TRUE((*communicator)->barrier(within(20s)));
    if (group.rank() == 0) {
      EXPECT_TRUE(late_one_came);
      EXPECT_LT(thread_cpu_s() - before, 0.2);
    }
    EXPECT_TRUE((*communicator)->close(within(5s)));
  });
}

TEST(UcxRing, NamesARankThatNeverComes) {
  SKIP_WITHOUT_UCX();
  fake::ThreadGroup ranks(3);
  ranks.run([](Group& group) {
    auto communicator = join_group(group);
    ASSERT_TRUE(communicator) << communicator.error().message;
    if (group.rank() == 1) {
      EXPECT_TRUE(group.all_gather("all have given up", "", 10s));
      return;
    }
    // Rank 2 waits for rank 1, and rank 0 for rank 2: both must name rank 1.
    auto outcome = (*communicator)->barrier(within(600ms));
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, Code::kTimeout);
    EXPECT_NE(outcome.error().message.find("rank 1 did not answer"), std::string::npos)
        << outcome.error().message;
    auto again = (*communicator)->barrier(within(600ms));
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().message, outcome.error().message);
    EXPECT_TRUE(group.all_gather("all have given up", "", 10s));
  });
}

TEST(UcxRing, NamesARankThatDidNotConnect) {
  SKIP_WITHOUT_UCX();
  auto present = make({.rank = 0, .size = 2});
  auto absent = make({.rank = 1, .size = 2});
  ASSERT_TRUE(present && absent);
  const std::array addresses = {(*present)->address(), (*absent)->address()};
  auto outcome = (*present)->connect(addresses, within(500ms));
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kTimeout);
  EXPECT_NE(outcome.error().message.find("rank 1"), std::string::npos) << outcome.error().message;
}

TEST(UcxRing, LeavesSoonAfterAStop) {
  SKIP_WITHOUT_UCX();
  fake::ThreadGroup ranks(2);
  ranks.run([](Group& group) {
    auto communicator = join_group(group);
    ASSERT_TRUE(communicator) << communicator.error().message;
    if (group.rank() == 1) {
      std::this_thread::sleep_for(1100ms);
      auto outcome = (*communicator)->barrier(within(10s));
      ASSERT_TRUE(outcome) << outcome.error().message;
      EXPECT_EQ(*outcome, Outcome::kStopped);
      return;
    }
    std::stop_source stop;
    std::jthread later([&stop] {
      std::this_thread::sleep_for(200ms);
      stop.request_stop();
    });
    const auto begin = Clock::now();
    auto outcome = (*communicator)->barrier({begin + 20s, stop.get_token()});
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(*outcome, Outcome::kStopped);
    EXPECT_LT(Clock::now() - begin, 10s);
  });
}

TEST(UcxRing, RefusesRanksOfAnotherKind) {
  SKIP_WITHOUT_UCX();
  auto own = make({.rank = 0, .size = 2});
  ASSERT_TRUE(own);
  const std::string address = (*own)->address();
  const std::string other = "ucx 9.9.9 tcp\n" + address.substr(address.find('\n') + 1);
  auto outcome = (*own)->connect(std::array{address, other}, within(1s));
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kInvalid);
  EXPECT_NE(outcome.error().message.find("rank 1 runs \"ucx 9.9.9 tcp\""), std::string::npos)
      << outcome.error().message;
  EXPECT_EQ((*own)->connect(std::array{address, std::string("junk")}, within(1s)).error().code,
            Code::kInvalid);
  EXPECT_EQ((*own)->connect(std::array{address}, within(1s)).error().code, Code::kInvalid);
}

TEST(UcxRing, DoesNotStartOnATransportOrDeviceThatIsNotThere) {
  SKIP_WITHOUT_UCX();
  auto transport = make({.rank = 0, .size = 2, .transport = "nosuch"});
  ASSERT_FALSE(transport);
  EXPECT_EQ(transport.error().code, Code::kUnavailable) << transport.error().message;
  EXPECT_FALSE(make({.rank = 2, .size = 2}));
}

TEST(UcxRing, SaysThatItIsNotConnectedYetOrClosed) {
  SKIP_WITHOUT_UCX();
  auto alone = make({.rank = 0, .size = 2});
  ASSERT_TRUE(alone);
  EXPECT_EQ((*alone)->barrier(within(1s)).error().code, Code::kInvalid);
  ASSERT_TRUE((*alone)->close(within(1s)));
  EXPECT_EQ((*alone)->barrier(within(1s)).error().code, Code::kInvalid);
}

}  // namespace
}  // namespace mixproof
