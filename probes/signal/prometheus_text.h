// Prometheus text, version 0.0.4: the samples of one metric on a page.
// https://prometheus.io/docs/instrumenting/exposition_formats/
// What OpenMetrics adds is taken too: "# EOF", exemplars, times in seconds.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/result.h"

namespace mixproof::signal {

using Labels = std::map<std::string, std::string>;

struct Sample {
  Labels labels;
  double value = 0;  // may be NaN or infinite
};

// Those of `name` that carry all `wanted` labels with these values, in the order of the page. Of a
// histogram or summary the series that hold its parts (NAME_bucket, NAME_sum, NAME_count) are
// metrics like any other. The whole page is read: kCorrupt names the first line that is not of that
// format, and a page that does not end with a line feed is cut short. Times of samples are not
// looked at.
Result<std::vector<Sample>> samples_of(std::string_view page, std::string_view name,
                                       const Labels& wanted);

}  // namespace mixproof::signal
