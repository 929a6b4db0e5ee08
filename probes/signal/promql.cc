#include "probes/signal/promql.h"

#include <cctype>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "harness/base/json.h"
#include "harness/base/text.h"

namespace mixproof::signal {
namespace {

// [1435781451.781, "1"]; numbers are text, since JSON has no NaN.
Result<double> number_of(const Json* pair) {
  const Error wrong{Code::kCorrupt, "a value that is not [time, \"number\"]"};
  if (pair == nullptr || !pair->is_array() || pair->size() != 2 || !(*pair)[1].is_string())
    return wrong;
  const std::string text = (*pair)[1].get<std::string>();
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return wrong;
  return value;
}

}  // namespace

std::string query_target(std::string_view query) {
  std::string out = "/api/v1/query?query=";
  for (const char c : query) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.' || c == '~')
      out += c;
    else
      out += format("%%%02X", byte);
  }
  return out;
}

Result<std::vector<double>> query_values(const std::string& body) {
  const Result<Json> answer = parse_json(body, "the answer");
  if (!answer.ok()) return Error{Code::kCorrupt, answer.error().message};
  const std::string status = text_at(*answer, "status");
  if (status == "error")
    return Error{Code::kUnavailable,
                 text_at(*answer, "errorType") + ": " + text_at(*answer, "error")};
  const Json* data = member(*answer, "data");
  if (status != "success" || data == nullptr)
    return Error{Code::kCorrupt, "neither success nor error"};
  const std::string type = text_at(*data, "resultType");
  const Json* result = member(*data, "result");
  std::vector<double> out;
  if (type == "scalar") {
    out.push_back(TRY(number_of(result)));
    return out;
  }
  if (type != "vector" || result == nullptr || !result->is_array())
    return Error{Code::kCorrupt, "the result is a " + type + ", not an instant vector or a scalar"};
  for (const Json& one : *result) out.push_back(TRY(number_of(member(one, "value"))));
  return out;
}

}  // namespace mixproof::signal
