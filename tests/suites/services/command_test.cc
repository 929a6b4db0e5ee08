// Servers by argv, and the null server.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "suites/services/service.h"

namespace mixproof {
namespace {

ServiceRequest request() {
  return {.name = "web",
          .address = "10.77.0.9",
          .port = 8123,
          .params = Json::object(),
          .argv = {"server", "--bind={address}:{port}", "{port}{port}", "{other}"}};
}

TEST(CommandService, SubstitutesAddressAndPort) {
  const Result<ServiceCommand> command = service_kind("command")->command(request());
  ASSERT_TRUE(command.ok()) << command.error().message;
  EXPECT_EQ(command->argv,
            (std::vector<std::string>{"server", "--bind=10.77.0.9:8123", "81238123", "{other}"}));
  EXPECT_EQ(command->url, "http://10.77.0.9:8123");
  EXPECT_EQ(command->ready_url, "http://10.77.0.9:8123/health");
  EXPECT_EQ(command->labels.at("command"), "server --bind={address}:{port} {port}{port} {other}");
}

TEST(CommandService, TakesItsPathsFromTheParameters) {
  ServiceRequest with_paths = request();
  with_paths.params = {{"ready_path", "/up"}, {"url_path", "/api"}};
  const Result<ServiceCommand> command = service_kind("command")->command(with_paths);
  ASSERT_TRUE(command.ok());
  EXPECT_EQ(command->url, "http://10.77.0.9:8123/api");
  EXPECT_EQ(command->ready_url, "http://10.77.0.9:8123/up");
}

TEST(CommandService, NeedsAnArgv) {
  ServiceRequest without = request();
  without.argv.clear();
  const Result<ServiceCommand> command = service_kind("command")->command(without);
  ASSERT_FALSE(command.ok());
  EXPECT_EQ(command.error().message, "web: a command needs \"argv\"");
}

TEST(NullServerService, IsThisProgramAndLabelledSynthetic) {
  ServiceRequest null_request = request();
  null_request.params = {{"ttft_ms", 2.5}};
  const Result<ServiceCommand> command = service_kind("null_server")->command(null_request);
  ASSERT_TRUE(command.ok());
  ASSERT_EQ(command->argv.size(), 8u);
  EXPECT_EQ(command->argv[0].front(), '/');
  const std::vector<std::string> rest(command->argv.begin() + 1, command->argv.end());
  EXPECT_EQ(rest, (std::vector<std::string>{"null-server", "--listen", "10.77.0.9:8123",
                                            "--ttft-ms", "2.5", "--gap-ms", "10"}));
  EXPECT_EQ(command->labels.at("synthetic"), "true");
  for (const char* real : {"command", "haproxy", "llama_cpp"}) {
    ServiceRequest other = request();
    other.backends = {"10.77.0.3:8080"};
    const Result<ServiceCommand> real_command = service_kind(real)->command(other);
    EXPECT_TRUE(!real_command.ok() || !real_command->labels.contains("synthetic")) << real;
  }
}

}  // namespace
}  // namespace mixproof
