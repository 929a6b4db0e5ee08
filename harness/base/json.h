// JSON: the only place that parses and prints it. Parsing is strict: duplicate keys, NaN and
// trailing text are errors that name the place. Printing refuses numbers that JSON cannot hold.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "harness/base/result.h"

namespace mixproof {

using Json = nlohmann::json;

// `what` names the source in errors: a path, "agent edge-0". kInvalid on anything but one strict
// JSON value.
Result<Json> parse_json(std::string_view text, std::string_view what);

// Canonical text: keys sorted, doubles round-trip. kInternal when a number is not finite (with its
// pointer).
Result<std::string> print_json(const Json& json, int indent = -1);

// For messages between our own processes, whose numbers are ours: CHECKs instead of returning an
// error.
std::string line_of(const Json& json);

// Members of an object, or the fallback when absent or of another type. For messages that were
// checked before.
std::string text_at(const Json& json, std::string_view key, std::string_view fallback = "");
double number_at(const Json& json, std::string_view key, double fallback = 0);
std::int64_t integer_at(const Json& json, std::string_view key, std::int64_t fallback = 0);
std::uint64_t unsigned_at(const Json& json, std::string_view key, std::uint64_t fallback = 0);
bool flag_at(const Json& json, std::string_view key, bool fallback = false);
const Json* member(const Json& json, std::string_view key);  // null when absent or not an object

Json error_to_json(const Error& error);  // {"code", "message"}
Error error_from_json(const Json& json);

}  // namespace mixproof
