// --set key=value on a suite's JSON.
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "suites/plan.h"
#include "suites/suite_params.h"

namespace mixproof {
namespace {

// The schema below one key: null when the key is unknown there; an empty object where anything
// goes.
const Json* schema_below(const Json* schema, const std::string& key, bool exists) {
  static const Json kAnything = Json::object();
  if (schema == nullptr || schema->empty()) return schema;
  if (const Json* properties = member(*schema, "properties")) {
    const Json* found = member(*properties, key);
    return found != nullptr && found->contains("type") && (*found)["type"] == "object" &&
                   !found->contains("properties") && !found->contains("additionalProperties")
               ? &kAnything
               : found;
  }
  if (const Json* items = member(*schema, "items")) return items;
  // Names of loads, services and roles: only those that the suite has.
  const Json* named = member(*schema, "additionalProperties");
  return exists ? named : nullptr;
}

std::vector<std::string> members_of(const Json& at, const Json* schema) {
  std::vector<std::string> out;
  if (at.is_object())
    for (auto it = at.begin(); it != at.end(); ++it) out.push_back(it.key());
  if (at.is_array())
    for (std::size_t i = 0; i < at.size(); ++i) {
      for (const char* key : {"id", "name"})
        if (const std::string name = text_at(at[i], key); !name.empty()) out.push_back(name);
      out.push_back(std::to_string(i));
    }
  const Json* properties = schema == nullptr ? nullptr : member(*schema, "properties");
  if (properties != nullptr && at.is_object())
    for (auto it = properties->begin(); it != properties->end(); ++it)
      if (!at.contains(it.key())) out.push_back(it.key());
  return out;
}

Json* list_member(Json& list, const std::string& key) {
  Json* found = nullptr;
  int matches = 0;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (text_at(list[i], "id") == key || text_at(list[i], "name") == key) {
      found = &list[i];
      ++matches;
    }
  if (matches == 1) return found;
  const bool digits =
      !key.empty() && key.size() < 7 && key.find_first_not_of("0123456789") == std::string::npos;
  if (matches == 0 && digits && std::stoul(key) < list.size()) return &list[std::stoul(key)];
  return nullptr;
}

}  // namespace

Status apply_setting(Json& suite, const std::string& setting) {
  const std::size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0)
    return Error{Code::kInvalid, "--set " + setting + ": must be key=value"};
  const std::string value = setting.substr(equals + 1);
  const Json root_schema = bare_suite_schema();
  const Json* schema = &root_schema;
  Json changed = suite;  // so that a wrong path leaves the suite as it was
  Json* at = &changed;
  std::string walked;
  for (const std::string& key : split(setting.substr(0, equals), '.')) {
    Json* next = nullptr;
    if (at->is_object() && at->contains(key)) next = &(*at)[key];
    if (at->is_array()) next = list_member(*at, key);
    const Json* below = schema_below(schema, key, next != nullptr);
    if (next == nullptr && !at->is_array() && (at->is_object() || at->is_null()) &&
        below != nullptr && !key.empty())
      next = &(*at)[key];
    if (next == nullptr) {
      const std::vector<std::string> known = members_of(*at, schema);
      const std::string near = nearest(key, known);
      return Error{Code::kInvalid,
                   "--set " + setting + ": " +
                       (walked.empty() ? "the suite" : "\"" + walked + "\"") + " has no \"" + key +
                       "\"" +
                       (near.empty() ? (known.empty() ? "" : " (it has: " + join(known, ", ") + ")")
                                     : "; did you mean \"" + near + "\"?")};
    }
    walked += (walked.empty() ? "" : ".") + key;
    at = next;
    schema = below;
  }
  auto parsed = parse_json(value, "value");
  *at = parsed ? std::move(*parsed) : Json(value);
  suite = std::move(changed);
  return ok();
}

}  // namespace mixproof
