// The proxy's configuration, compared with the golden text.
#include "suites/services/haproxy.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/fake/paths.h"

namespace mixproof {
namespace {

ServiceRequest front() {
  return {.name = "front",
          .address = "10.77.0.2",
          .port = 8000,
          .params = Json::object(),
          .backends = {"10.77.0.3:8080", "10.77.0.4:8080"}};
}

std::string golden() {
  std::ifstream file(std::string(kSourceDir) + "/tests/golden/haproxy.cfg");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Haproxy, WritesTheConfigurationOfTheGoldenFile) {
  HaproxySettings settings;
  settings.connect_timeout_s = 2.5;
  EXPECT_EQ(haproxy_config(settings, front()), golden());
}

TEST(Haproxy, IsReadyOnlyWithAllItsReplicas) {
  ServiceRequest request = front();
  request.backends.push_back("10.77.0.5:8080");
  const std::string config = haproxy_config({}, request);
  EXPECT_NE(config.find("nbsrv(replicas) lt 3"), std::string::npos);
  EXPECT_NE(config.find("server replica-2 10.77.0.5:8080"), std::string::npos);
}

TEST(Haproxy, NeedsAServiceBehindIt) {
  ServiceRequest request = front();
  request.backends.clear();
  const Result<ServiceCommand> command = service_kind("haproxy")->command(request);
  ASSERT_FALSE(command.ok());
  EXPECT_EQ(command.error().code, Code::kInvalid);
  EXPECT_NE(command.error().message.find("before"), std::string::npos);
}

TEST(Haproxy, IsStartedInTheForegroundFromItsOwnFile) {
  if (!service_kind("haproxy")->available().ok())
    GTEST_SKIP() << service_kind("haproxy")->available().error().message;
  const Result<ServiceCommand> command = service_kind("haproxy")->command(front());
  ASSERT_TRUE(command.ok()) << command.error().message;
  ASSERT_EQ(command->argv.size(), 4u);
  EXPECT_EQ(command->argv[1], "-db");
  EXPECT_EQ(command->argv[3], "{dir}/haproxy.cfg");
  EXPECT_EQ(command->files.at("haproxy.cfg"), haproxy_config({}, front()));
  EXPECT_EQ(command->url, "http://10.77.0.2:8000");
  EXPECT_EQ(command->ready_url, "http://10.77.0.2:8000/mixproof-ready");
  EXPECT_EQ(command->labels.at("proxy").rfind("haproxy ", 0), 0u);
  EXPECT_GT(command->labels.at("proxy").size(), 10u);
}

}  // namespace
}  // namespace mixproof
