#include "probes/signal/prometheus_text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mixproof::signal {
namespace {

constexpr const char* kPage =
    "# HELP http_requests_total The total number of HTTP requests.\n"
    "# TYPE http_requests_total counter\n"
    "http_requests_total{method=\"post\",code=\"200\"} 1027 1395066363000\n"
    "http_requests_total{method=\"post\",code=\"400\"}    3 1395066363000\n"
    "\n"
    "# Escaping in label values:\n"
    "msdos_file_access_time_seconds{path=\"C:\\\\DIR\\\\FILE.TXT\",error=\"Cannot find "
    "file:\\n\\\"FILE.TXT\\\"\"} 1.458255915e9\n"
    "metric_without_timestamp_and_labels 12.47\n"
    "something_weird{problem=\"division by zero\"} +Inf -3982045\n"
    "# TYPE rpc_duration_seconds summary\n"
    "rpc_duration_seconds{quantile=\"0.01\"} 3102\n"
    "rpc_duration_seconds_sum 1.7560473e+07\n"
    "http_request_duration_seconds_bucket{le=\"+Inf\"} 144320\n"
    "llamacpp:requests_processing 2\n"
    "\t spaced \t { a = \"1\" , } \t 4 \t\n";

std::vector<Sample> of(const std::string& page, const std::string& name,
                       const Labels& wanted = {}) {
  const auto samples = samples_of(page, name, wanted);
  EXPECT_TRUE(samples.ok()) << (samples.ok() ? "" : samples.error().message);
  return samples.ok() ? *samples : std::vector<Sample>{};
}

double only(const std::string& page, const std::string& name, const Labels& wanted = {}) {
  const auto samples = of(page, name, wanted);
  EXPECT_EQ(samples.size(), 1u) << name;
  return samples.size() == 1 ? samples[0].value : -1;
}

TEST(PrometheusText, ReadsWhatTheFormatsOwnExampleSays) {
  EXPECT_EQ(of(kPage, "http_requests_total").size(), 2u);
  EXPECT_EQ(only(kPage, "http_requests_total", {{"code", "400"}}), 3);
  EXPECT_EQ(only(kPage, "metric_without_timestamp_and_labels"), 12.47);
  EXPECT_EQ(only(kPage, "llamacpp:requests_processing"), 2);
  EXPECT_EQ(only(kPage, "rpc_duration_seconds_sum"), 1.7560473e+07);
  EXPECT_EQ(only(kPage, "http_request_duration_seconds_bucket", {{"le", "+Inf"}}), 144320);
  EXPECT_EQ(only(kPage, "spaced", {{"a", "1"}}), 4);
  EXPECT_TRUE(std::isinf(only(kPage, "something_weird")));
  const auto escaped = of(kPage, "msdos_file_access_time_seconds");
  ASSERT_EQ(escaped.size(), 1u);
  EXPECT_EQ(escaped[0].labels.at("path"), "C:\\DIR\\FILE.TXT");
  EXPECT_EQ(escaped[0].labels.at("error"), "Cannot find file:\n\"FILE.TXT\"");
}

TEST(PrometheusText, OnlyThatMetricAndOnlyThoseLabels) {
  EXPECT_TRUE(of(kPage, "http_requests").empty());
  EXPECT_TRUE(of(kPage, "rpc_duration_seconds", {{"quantile", "0.5"}}).empty());
  EXPECT_TRUE(of(kPage, "metric_without_timestamp_and_labels", {{"code", "400"}}).empty());
  EXPECT_TRUE(of("", "x").empty());
}

TEST(PrometheusText, TakesWhatOpenMetricsAdds) {
  EXPECT_EQ(
      only("# TYPE a counter\na_total{x=\"1\"} 17 1520879607.789 # {trace_id=\"k\"} 0.67 1.5\n"
           "# EOF",
           "a_total"),
      17);
  EXPECT_EQ(only("a_total 3 # {t=\"x\"} 1\n# EOF\n", "a_total"), 3);
  EXPECT_EQ(only("a 1\r\nb 2\r\n", "b"), 2);
}

TEST(PrometheusText, NumbersAreWhatTheFormatCallsNumbers) {
  EXPECT_TRUE(std::isnan(only("a NaN\n", "a")));
  EXPECT_EQ(only("a -Inf\n", "a"), -HUGE_VAL);
  EXPECT_EQ(only("a +1e3\n", "a"), 1000);
  EXPECT_EQ(only("a 1e-400\n", "a"), 0);
  for (const char* wrong : {"a\n", "a x\n", "a 1x\n", "a 1 2 3\n", "a 1 later\n", "a +-1\n"})
    EXPECT_FALSE(samples_of(wrong, "a", {}).ok()) << wrong;
}

TEST(PrometheusText, WhatIsNotOfTheFormatIsAnErrorThatNamesItsLine) {
  for (const auto& [page, line] : {std::pair<const char*, const char*>{"<html>\n", "line 1"},
                                   {"a 1\n{\"status\": \"ok\"}\n", "line 2"},
                                   {"a{x=\"1} 1\n", "line 1"},
                                   {"a{x=1} 1\n", "line 1"},
                                   {"a{x=\"1\" y=\"2\"} 1\n", "line 1"},
                                   {"a{x=\"1\",x=\"2\"} 1\n", "line 1"},
                                   {"a{\"b\"} 1\n", "line 1"},
                                   {"9a 1\n", "line 1"}}) {
    const auto samples = samples_of(page, "b", {});
    ASSERT_FALSE(samples.ok()) << page;
    EXPECT_EQ(samples.error().code, Code::kCorrupt);
    EXPECT_NE(samples.error().message.find(line), std::string::npos) << samples.error().message;
  }
}

// "1234" cut to "12" would read as a value.
TEST(PrometheusText, APageThatEndsInTheMiddleOfALineIsCutShort) {
  const auto samples = samples_of("b 1\na 12", "a", {});
  ASSERT_FALSE(samples.ok());
  EXPECT_NE(samples.error().message.find("line 2 is cut short"), std::string::npos);
}

}  // namespace
}  // namespace mixproof::signal
