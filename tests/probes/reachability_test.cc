#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "probes/probe.h"
#include "tests/fake/row_list.h"

namespace mixproof {
namespace {

std::unique_ptr<Probe> reachability(const Json& params, Status& read) {
  for (const ProbeSpec* spec : all_probes())
    if (spec->name == "reachability") {
      auto probe = spec->create();
      read = read_params(params, probe->params());
      return probe;
    }
  return nullptr;
}

Json target(const std::string& address) {
  return {{"targets", {{{"name", "node"}, {"address", address}}}}};
}

Status prepared(const Json& params) {
  Status read = ok();
  const auto probe = reachability(params, read);
  if (!read.ok()) return read;
  fake::RowList rows;
  ProbeContext context{.rows = rows};
  return probe->prepare(context);
}

TEST(Reachability, WantsTargetsWithNumericAddresses) {
  for (const Json& bad :
       {Json::object(), Json{{"targets", Json::array()}}, target("node-1"), target("10.0.0.0/8"),
        target(""), Json{{"targets", {{{"name", "node"}}}}}}) {
    const Status status = prepared(bad);
    ASSERT_FALSE(status.ok()) << bad;
    EXPECT_EQ(status.error().code, Code::kInvalid) << status.error().message;
  }
}

TEST(Reachability, CountAndTimesHaveBounds) {
  for (const char* key : {"count", "window_s", "deadline_s"})
    for (const int value : {-1, 0, 100000}) {
      Json params = target("10.0.0.1");
      params[key] = value;
      Status read = ok();
      reachability(params, read);
      EXPECT_FALSE(read.ok()) << key << " " << value;
    }
  Status read = ok();
  reachability(target("10.0.0.1"), read);
  EXPECT_TRUE(read.ok());
}

TEST(Reachability, CostsWhatItSends) {
  Json params = target("10.0.0.1");
  params["count"] = 100;
  params["window_s"] = 2;
  Status read = ok();
  const auto probe = reachability(params, read);
  EXPECT_DOUBLE_EQ(probe->cost().network_bytes_per_s, 66.0 * 100 / 2);
}

}  // namespace
}  // namespace mixproof
