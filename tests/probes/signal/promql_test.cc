#include "probes/signal/promql.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mixproof::signal {
namespace {

TEST(PromQl, AnAnswersVectorOrScalarGivesItsValues) {
  const auto vector = query_values(
      R"({"status":"success","data":{"resultType":"vector","result":[
          {"metric":{"__name__":"up","job":"a"},"value":[1435781451.781,"1"]},
          {"metric":{"__name__":"up","job":"b"},"value":[1435781451.781,"0.5"]}]}})");
  ASSERT_TRUE(vector.ok()) << vector.error().message;
  EXPECT_EQ(*vector, (std::vector<double>{1, 0.5}));
  const auto scalar = query_values(
      R"({"status":"success","data":{"resultType":"scalar","result":[1435781460.781,"3"]}})");
  ASSERT_TRUE(scalar.ok());
  EXPECT_EQ(*scalar, std::vector<double>{3});
  const auto nan = query_values(
      R"({"status":"success","data":{"resultType":"scalar","result":[1435781460.781,"NaN"]}})");
  ASSERT_TRUE(nan.ok());
  EXPECT_TRUE(std::isnan(nan->at(0)));
}

TEST(PromQl, AnEmptyVectorIsNoValueAndNoError) {
  const auto none =
      query_values(R"({"status":"success","data":{"resultType":"vector","result":[]}})");
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
}

TEST(PromQl, AFailedQuerySaysTheServersWords) {
  const auto failed = query_values(
      R"({"status":"error","errorType":"bad_data","error":"invalid parameter \"query\""})");
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, Code::kUnavailable);
  EXPECT_EQ(failed.error().message, "bad_data: invalid parameter \"query\"");
}

TEST(PromQl, WhatIsNoInstantResultIsAnError) {
  for (const char* body :
       {"", "<html>", "{}", R"({"status":"success"})",
        R"({"status":"success","data":{"resultType":"matrix","result":[]}})",
        R"({"status":"success","data":{"resultType":"string","result":[1,"x"]}})",
        R"({"status":"success","data":{"resultType":"vector","result":[{"metric":{}}]}})",
        R"({"status":"success","data":{"resultType":"vector","result":[{"value":[1,2]}]}})",
        R"({"status":"success","data":{"resultType":"scalar","result":[1,"2x"]}})",
        R"({"status":"success","data":{"resultType":"scalar","result":[1,""]}})"}) {
    const auto values = query_values(body);
    ASSERT_FALSE(values.ok()) << body;
    EXPECT_EQ(values.error().code, Code::kCorrupt) << body;
  }
}

TEST(PromQl, QueriesAreEncoded) {
  EXPECT_EQ(query_target("sum(rate(a:b{c=\"d\"}[1m])) + 1"),
            "/api/v1/query?query=sum%28rate%28a%3Ab%7Bc%3D%22d%22%7D%5B1m%5D%29%29%20%2B%201");
}

}  // namespace
}  // namespace mixproof::signal
