// Parameters: what a JSON object may hold, declared once. Reading, range checks, the nearest valid
// key in errors, JSON Schema and the reference text all follow from the declaration.
//
//   Params params() {
//     return {number("rate_per_s", &rate_, "arrivals a second", {.min = 0.001, .max = 1e5}),
//             choice("shape", &shape_, "arrival process", {"poisson", "constant"})};
//   }
//
// A parameter is bound to the variable that receives it; the variable's value at declaration is the
// default.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "harness/base/json.h"

namespace mixproof {

struct Param;
using Params = std::vector<Param>;

struct Range {
  double min = -1.7976931348623157e308, max = 1.7976931348623157e308;
};

namespace param {
struct Number {
  double* target;
  Range range;
};
struct Integer {
  std::int64_t* target;
  Range range;
};
struct Flag {
  bool* target;
};
struct Text {
  std::string* target;
};
struct Choice {
  std::string* target;
  std::vector<std::string> values;
};
struct Texts {
  std::vector<std::string>* target;
};
struct Numbers {
  std::vector<double>* target;
  Range range;  // of each
};
struct Any {
  Json* target;
};  // checked by someone else; must be an object
struct Object {
  Params members;
};
struct OneOf {
  std::string* tag;
  std::vector<std::pair<std::string, Params>> kinds;
};  // {"poisson": {...}}
// Collections ask for the declaration of each element as it is read; `create` returns parameters
// bound to it.
struct Map {
  std::function<Params(const std::string& key)> create;
};
struct List {
  std::function<Params(std::size_t index)> create;
};
}  // namespace param

struct Param {
  std::string name;  // the JSON key; ends with its unit: settle_s, bucket_bytes
  std::string help;
  std::variant<param::Number, param::Integer, param::Flag, param::Text, param::Choice, param::Texts,
               param::Numbers, param::Any, param::Object, param::OneOf, param::Map, param::List>
      kind;
  bool required = false;
  bool* seen = nullptr;  // set when the key was there
};

Param number(std::string name, double* target, std::string help, Range range = {});
Param integer(std::string name, std::int64_t* target, std::string help, Range range = {});
Param flag(std::string name, bool* target, std::string help);
Param text(std::string name, std::string* target, std::string help);
Param choice(std::string name, std::string* target, std::string help,
             std::vector<std::string> values);
Param texts(std::string name, std::vector<std::string>* target, std::string help);
Param numbers(std::string name, std::vector<double>* target, std::string help, Range range = {});
Param any(std::string name, Json* target, std::string help);
Param object(std::string name, std::string help, Params members);
Param one_of(std::string name, std::string* tag, std::string help,
             std::vector<std::pair<std::string, Params>> kinds);
Param map_of(std::string name, std::string help, std::function<Params(const std::string&)> create);
Param list_of(std::string name, std::string help, std::function<Params(std::size_t)> create);
Param required(Param param);
Param seen(Param param, bool* flag);

// Reads `json` into the bound variables. A missing key keeps its default, unless it is required.
// Errors are kInvalid and name the JSON pointer (`pointer` is that of `json` itself) and, for
// unknown keys, the nearest valid one.
Status read_params(const Json& json, const Params& params, const std::string& pointer = "");

// The values now held, under the same keys: reading it back gives the same parameters. Any, Map and
// List are left out.
Json write_params(const Params& params);

// JSON Schema (draft-07) of the object.
Json schema_of(const Params& params);

// One line a parameter: name, type and range, default, help; nested objects indented.
std::string describe(const Params& params, int indent = 2);

}  // namespace mixproof
