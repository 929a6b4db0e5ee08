#include "probes/inference/null_server.h"

#include <gtest/gtest.h>

#include "tests/probes/inference/running_null_server.h"

namespace mixproof::inference {
namespace {

TEST(NullServer, ATakenPortIsRefused) {
  RunningNullServer server;
  NullServerOptions options;
  options.port = server.port();
  const Status status = serve_null(options, {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kRefused);
  options.address = "localhost";
  EXPECT_EQ(serve_null(options, {}).error().code, Code::kInvalid);
}

int main_with(const std::vector<std::string>& args) { return null_server_main(args); }

TEST(NullServer, TheCommandRefusesWhatItDoesNotKnow) {
  EXPECT_EQ(main_with({"--help"}), 0);
  EXPECT_EQ(main_with({}), 4);
  EXPECT_EQ(main_with({"--listen", "127.0.0.1"}), 4);
  EXPECT_EQ(main_with({"--listen", "127.0.0.1:99999"}), 4);
  EXPECT_EQ(main_with({"--listen", "127.0.0.1:0", "--ttft-ms", "soon"}), 4);
  EXPECT_EQ(main_with({"--listen", "127.0.0.1:0", "--gap-ms"}), 4);
  EXPECT_EQ(main_with({"--listen", "127.0.0.1:0", "--gaps", "1"}), 4);
  EXPECT_EQ(main_with({"--listen", "127.0.0.1:0", "--slots", "-1"}), 4);
  EXPECT_EQ(main_with({"--listen", "127.0.0.1:0", "--slots", "2.5"}), 4);
  RunningNullServer server;
  EXPECT_EQ(main_with({"--listen", "127.0.0.1:" + std::to_string(server.port())}), 6);
}

}  // namespace
}  // namespace mixproof::inference
