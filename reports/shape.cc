#include "reports/shape.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace mixproof {
namespace {

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return false;
}

std::string at(const std::string& pointer, const std::string& what) {
  return (pointer.empty() ? "/" : pointer) + ": " + what;
}

std::string breaks_type(const Json& value, const Json& types, const std::string& pointer) {
  if (types.is_string())
    return is_of_type(value, types.get<std::string>()) ? "" : at(pointer, "is not " + types.dump());
  const bool any = std::any_of(types.begin(), types.end(), [&](const Json& type) {
    return is_of_type(value, type.get<std::string>());
  });
  return any ? "" : at(pointer, "is none of " + types.dump());
}

std::string breaks_object(const Json& value, const Json& schema, const std::string& pointer) {
  if (const Json* required = member(schema, "required"))
    for (const Json& key : *required)
      if (!value.contains(key.get<std::string>())) return at(pointer, key.dump() + " is missing");
  const Json* properties = member(schema, "properties");
  const Json* others = member(schema, "additionalProperties");
  for (auto it = value.begin(); it != value.end(); ++it) {
    const std::string place = pointer + "/" + it.key();
    const Json* known = properties == nullptr ? nullptr : member(*properties, it.key());
    if (known == nullptr && others != nullptr && others->is_boolean() && !others->get<bool>())
      return at(place, "is not a known key");
    if (known == nullptr && others != nullptr && others->is_object()) known = others;
    if (known == nullptr) continue;
    if (std::string broken = breaks_schema(*it, *known, place); !broken.empty()) return broken;
  }
  return "";
}

constexpr std::string_view kKnown[] = {"type",        "enum",  "const",   "required",
                                       "properties",  "items", "minimum", "additionalProperties",
                                       "description", "title", "$schema", "$id"};

}  // namespace

std::string breaks_schema(const Json& value, const Json& schema, const std::string& pointer) {
  for (auto it = schema.begin(); it != schema.end(); ++it)
    if (std::find(std::begin(kKnown), std::end(kKnown), it.key()) == std::end(kKnown))
      return at(pointer, "its schema uses \"" + it.key() + "\"");
  if (const Json* type = member(schema, "type"))
    if (std::string broken = breaks_type(value, *type, pointer); !broken.empty()) return broken;
  if (const Json* choices = member(schema, "enum"))
    if (std::find(choices->begin(), choices->end(), value) == choices->end())
      return at(pointer, value.dump() + " is not one of " + choices->dump());
  if (const Json* only = member(schema, "const"))
    if (value != *only) return at(pointer, "is not " + only->dump());
  if (const Json* minimum = member(schema, "minimum"))
    if (value.is_number() && value.get<double>() < minimum->get<double>())
      return at(pointer, value.dump() + " is below " + minimum->dump());
  if (value.is_object()) return breaks_object(value, schema, pointer);
  const Json* items = member(schema, "items");
  for (std::size_t i = 0; value.is_array() && items != nullptr && i < value.size(); ++i)
    if (std::string broken = breaks_schema(value[i], *items, pointer + "/" + std::to_string(i));
        !broken.empty())
      return broken;
  return "";
}

}  // namespace mixproof
