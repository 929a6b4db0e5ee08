// The table of a comparison for a terminal, and its schema.
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "suites/compare.h"

namespace mixproof {
namespace {

std::string value_text(const Json& figure, const char* key) {
  if (flag_at(figure, std::string(key) + "_infinite")) return "no answer";
  const Json* value = member(figure, key);
  if (value == nullptr || !value->is_number()) return "-";
  const std::string unit = text_at(figure, "unit");
  const double number = value->get<double>();
  if (unit == "s") return number < 1 ? format("%.2f ms", number * 1e3) : format("%.2f s", number);
  if (unit == "1") return format("%.1f %%", number * 100);
  return format("%.2f /s", number);
}

std::string ratio_text(const Json& figure) {
  if (const std::string missing = text_at(figure, "missing_reason"); !missing.empty())
    return "- (" + missing + ")";
  const Json& interval = figure["interval"];
  const auto end = [&](const char* key) {
    return interval[key].is_number() ? format("%.2f", interval[key].get<double>())
                                     : std::string("infinity");
  };
  return (figure["ratio"].is_number() ? format("%.2f", figure["ratio"].get<double>())
                                      : std::string("infinite")) +
         " (" + end("low") + " to " + end("high") + ")";
}

Json typed(const Json& type, const char* help) { return {{"type", type}, {"description", help}}; }

Json list(Json items, const char* help) {
  return {{"type", "array"}, {"items", std::move(items)}, {"description", help}};
}

struct Key {
  const char* name;
  Json schema;
  bool required = true;
};

Json object(const std::vector<Key>& keys, const char* help) {
  Json properties = Json::object(), required = Json::array();
  for (const Key& key : keys) {
    properties[key.name] = key.schema;
    if (key.required) required.push_back(key.name);
  }
  return {{"type", "object"},
          {"properties", properties},
          {"required", required},
          {"additionalProperties", false},
          {"description", help}};
}

Json words(std::vector<std::string> allowed, const char* help) {
  return {{"type", "string"}, {"enum", allowed}, {"description", help}};
}

Json figure_schema() {
  std::vector<std::string> ids;
  for (const ComparisonFigure& figure : comparison_figures()) ids.emplace_back(figure.id);
  const Json maybe = {"number", "null"};
  Json interval = object({{"low", typed(maybe, "one-sided bound; null is infinity")},
                          {"high", typed(maybe, "one-sided bound; null is infinity")}},
                         "of the ratio");
  interval["type"] = {"object", "null"};
  return object(
      {{"id", words(ids, "of the figure")},
       {"metric", typed("string", "that it is taken from")},
       {"quantile", typed("string", "of metrics with samples"), false},
       {"unit", typed("string", "SI base unit of alone and together")},
       {"better", words({"lower", "higher"}, "direction")},
       {"alone", typed(maybe, "without the other load; null when missing or infinite")},
       {"together", typed(maybe, "beside it; null when missing or infinite")},
       {"alone_infinite", typed("boolean", "no complete answer at that quantile"), false},
       {"together_infinite", typed("boolean", "no complete answer at that quantile"), false},
       {"n_alone", typed("integer", "samples of all rounds")},
       {"n_together", typed("integer", "samples of all rounds")},
       {"ratio", typed(maybe, "together / alone; null when missing or infinite")},
       {"interval", interval},
       {"missing_reason", typed("string", "why there is no ratio"), false}},
      "of one placement");
}

}  // namespace

std::string comparison_text(const Json& comparison) {
  std::string out = format(
      "%-21s %-10s %10s %11s   %s\n", "", "placement", "alone", "together",
      format("ratio (each end at %.0f %%)", number_at(comparison, "confidence") * 100).c_str());
  for (std::size_t f = 0; f < comparison_figures().size(); ++f) {
    std::string title(comparison_figures()[f].title);
    for (const Json& placement : comparison["placements"]) {
      const Json& figure = placement["figures"][f];
      out += format("%-21s %-10s %10s %11s   %s\n", title.c_str(),
                    text_at(placement, "placement").c_str(), value_text(figure, "alone").c_str(),
                    value_text(figure, "together").c_str(), ratio_text(figure).c_str());
      title.clear();
    }
  }
  for (const Json& run : comparison["runs"])
    for (const Json& problem : run["problems"])
      out += format("  %s, round %lld: ", text_at(run, "placement").c_str(),
                    static_cast<long long>(integer_at(run, "round"))) +
             problem.get<std::string>() + "\n";
  const std::string status = text_at(comparison, "status");
  if (status == "error") return out + "\nerror: not every run was measured\n";
  if (status != "measured") out += "\n" + status + ": not every figure can be trusted\n";
  return out + "\n" + text_at(comparison, "meaning") + "\n";
}

Json comparison_schema() {
  const Json placement =
      object({{"placement", typed("string", "none or physical")},
              {"rounds", typed("integer", "runs that count")},
              {"block_s", typed("number", "length of a block")},
              {"blocks", typed("integer", "the fewest of any phase, over all rounds")},
              {"figures", list(figure_schema(), "one a row of the table")}},
             "the same suite under one placement");
  const Json apart = object({{"figure", typed("string", "id of the figure")},
                             {"placements", list(typed("string", "placement"), "the two")},
                             {"apart", typed("boolean", "their intervals do not overlap")},
                             {"lower", typed("string", "whose ratio is lower"), false}},
                            "two placements, one figure");
  const Json run = object(
      {{"placement", typed("string", "of the run")},
       {"round", typed("integer", "from 1")},
       {"directory", typed("string", "with its report")},
       {"exit_code", typed("integer", "of the run")},
       {"problems", list(typed("string", "in words"), "why it was not measured, or not well")}},
      "one run");
  Json schema =
      object({{"schema_version",
               Json{{"const", kComparisonSchemaVersion}, {"description", "of this document"}}},
              {"kind", words({"comparison"}, "of document")},
              {"suite", typed("string", "name")},
              {"seed", typed("string", "of every run")},
              {"confidence", typed("number", "of each end of an interval")},
              {"placements", list(placement, "in the order of their first run")},
              {"apart", list(apart, "every pair, every figure")},
              {"runs", list(run, "in their order")},
              {"status", words({"measured", "inconclusive", "error"}, "of the comparison")},
              {"meaning", typed("string", "one sentence")}},
             "Comparison of placements");
  schema["$schema"] = "http://json-schema.org/draft-07/schema#";
  schema["title"] = "Mixproof comparison";
  return schema;
}

}  // namespace mixproof
