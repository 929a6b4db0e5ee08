#include "harness/base/json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "harness/base/check.h"

namespace mixproof {
namespace {

// Builds the value as nlohmann's own DOM parser does, and refuses a key that an object already has.
class StrictSax final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override {
    if (!std::isfinite(value)) return fail("number out of range");
    return put(value);
  }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return fail("binary value"); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool key(string_t& name) override {
    if (stack_.back()->contains(name)) return fail("duplicate key \"" + name + "\"");
    key_ = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& e) override {
    const std::string text = e.what();
    const std::size_t bracket = text.find("] ");
    error_ = (bracket == std::string::npos ? text : text.substr(bracket + 2));
    if (token.empty() && position == 0) error_ = "empty";
    return false;
  }

  Json root;
  const std::string& error() const { return error_; }

 private:
  static constexpr std::size_t kDepth = 64;

  Json* place(Json value) {
    if (stack_.empty()) {
      root = std::move(value);
      return &root;
    }
    Json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    Json& slot = parent[key_];
    slot = std::move(value);
    return &slot;
  }
  bool put(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (stack_.size() >= kDepth) return fail("nested deeper than 64 levels");
    stack_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }
  bool fail(std::string why) {
    error_ = std::move(why);
    return false;
  }

  std::vector<Json*> stack_;
  std::string key_;
  std::string error_;
};

Status check_finite(const Json& json, const std::string& pointer) {
  if (json.is_number_float() && !std::isfinite(json.get<double>()))
    return Error{Code::kInternal,
                 "number at " + (pointer.empty() ? "/" : pointer) + " is not finite"};
  if (json.is_object()) {
    for (auto it = json.begin(); it != json.end(); ++it)
      TRY(check_finite(it.value(), pointer + "/" + it.key()));
  } else if (json.is_array()) {
    for (std::size_t i = 0; i < json.size(); ++i)
      TRY(check_finite(json[i], pointer + "/" + std::to_string(i)));
  }
  return ok();
}

std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view what) {
  StrictSax sax;
  if (!Json::sax_parse(text, &sax))
    return Error{Code::kInvalid, std::string(what) + ": not valid JSON: " + sax.error()};
  return std::move(sax.root);
}

Result<std::string> print_json(const Json& json, int indent) {
  TRY(check_finite(json, ""));
  return dump(json, indent);
}

std::string line_of(const Json& json) {
  CHECK(check_finite(json, "").ok());
  return dump(json, -1);
}

const Json* member(const Json& json, std::string_view key) {
  if (!json.is_object()) return nullptr;
  const auto it = json.find(key);
  return it == json.end() ? nullptr : &*it;
}

std::string text_at(const Json& json, std::string_view key, std::string_view fallback) {
  const Json* found = member(json, key);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string(fallback);
}

double number_at(const Json& json, std::string_view key, double fallback) {
  const Json* found = member(json, key);
  return found != nullptr && found->is_number() ? found->get<double>() : fallback;
}

std::int64_t integer_at(const Json& json, std::string_view key, std::int64_t fallback) {
  const Json* found = member(json, key);
  return found != nullptr && found->is_number_integer() ? found->get<std::int64_t>() : fallback;
}

std::uint64_t unsigned_at(const Json& json, std::string_view key, std::uint64_t fallback) {
  const Json* found = member(json, key);
  return found != nullptr && found->is_number_integer() ? found->get<std::uint64_t>() : fallback;
}

bool flag_at(const Json& json, std::string_view key, bool fallback) {
  const Json* found = member(json, key);
  return found != nullptr && found->is_boolean() ? found->get<bool>() : fallback;
}

Json error_to_json(const Error& error) {
  return {{"code", code_name(error.code)}, {"message", error.message}};
}

Error error_from_json(const Json& json) {
  return {code_from_name(text_at(json, "code")).value_or(Code::kInternal),
          text_at(json, "message", "no message")};
}

}  // namespace mixproof
