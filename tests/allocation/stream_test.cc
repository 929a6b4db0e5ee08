// Once its buffers have grown, the client allocates nothing for a token: neither reading an answer
// nor around it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "probes/inference/client.h"
#include "tests/probes/inference/running_null_server.h"

namespace {

thread_local long allocations = 0;  // of this thread

}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  std::abort();
}
void* operator new[](std::size_t size) { return ::operator new(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace mixproof::inference {
namespace {

constexpr long kWarmUp = 200;

TEST(Allocations, AreCounted) {
  const long before = allocations;
  const std::string long_enough(100, 'a');
  EXPECT_EQ(allocations - before, 1) << long_enough;
}

// Chunks as engines send them: of differing length, with escapes, comments, and one in two reads.
TEST(Allocations, ReadingATokenMakesNone) {
  Exchange exchange;
  exchange.start(0, 0, 0, nullptr);
  const std::string head =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
  ASSERT_FALSE(exchange.read(head, 1, std::nullopt));
  std::vector<std::string> reads;
  for (int i = 0; i < 8; ++i) {
    const std::string text =
        R"( to\u00e9ken \")" + std::string(static_cast<std::size_t>(i) * 9, 'x');
    const std::string event =
        std::string(i % 3 == 0 ? ": still here\n" : "") + (i % 2 == 0 ? "data: " : "data:") +
        R"({"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":")" + text +
        R"("},"finish_reason":null}],"usage":null})" + (i % 4 == 0 ? "\r\n\r\n" : "\n\n");
    char size[16];
    std::snprintf(size, sizeof(size), "%zx\r\n", event.size());
    const std::string chunk = size + event + "\r\n";
    reads.push_back(chunk.substr(0, 40));
    reads.push_back(chunk.substr(40));
  }
  long before = 0;
  for (long token = 0; token < 20'000; ++token) {
    if (token == kWarmUp) before = allocations;
    const std::size_t which = 2 * (static_cast<std::size_t>(token) % 8);
    ASSERT_FALSE(exchange.read(reads[which], 2 * token + 2, 10));
    ASSERT_FALSE(exchange.read(reads[which + 1], 2 * token + 3, 10));
  }
  EXPECT_EQ(allocations - before, 0);
  EXPECT_EQ(exchange.record().events, 20'000);
}

// The first answer comes in reads as large as they get, so that every buffer has its size when the
// second one is looked at.
TEST(Allocations, NorDoesTheClientAroundIt) {
  RunningNullServer server(1, 0.2);
  const Endpoint endpoint = *resolve_endpoint(server.url());
  class Counter final : public ClientEvents {
   public:
    explicit Counter(const Endpoint& to)
        : at_once_(to, {.model = "at_once"}), plain_(to, {.model = "mixproof"}) {}
    std::string_view request(std::int64_t i) override {
      return (i == 0 ? at_once_ : plain_).write("0000 able", 3000);
    }
    void token(const RequestRecord& record, std::int64_t, std::string_view) override {
      if (record.i != 1) return;
      if (record.events == kWarmUp) at_begin = allocations;
      at_end = allocations;
    }
    void finished(const RequestRecord& record) override { last = record; }
    long at_begin = -1, at_end = -1;
    RequestRecord last;

   private:
    RequestWriter at_once_, plain_;
  } events(endpoint);
  auto client = Client::create(endpoint, {.connections = 1}).value();
  ASSERT_TRUE(client->open_pool(monotonic_ns() + kSecond, {}).ok());
  const std::vector<Send> sends = {{0, monotonic_ns(), 3000},
                                   {1, monotonic_ns() + 700 * kMillisecond, 3000}};
  const Timeouts timeouts{30 * kSecond, 30 * kSecond, 30 * kSecond};
  ASSERT_TRUE(client->run(sends, 0, timeouts, {}, events).ok());
  EXPECT_EQ(events.last.i, 1);
  EXPECT_EQ(events.last.outcome, Outcome::kOk) << events.last.detail;
  EXPECT_EQ(events.last.events, 3000);
  EXPECT_EQ(server.counts.connections, 1);
  // A read that is larger than any before it makes the connection's buffer grow, once for each size.
  EXPECT_LE(events.at_end - events.at_begin, 4);
}

}  // namespace
}  // namespace mixproof::inference
