#include "harness/base/params.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"

namespace mixproof {
namespace {

constexpr Range kAnyRange{};

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};

Error wrong(const std::string& pointer, const std::string& what) {
  return {Code::kInvalid, (pointer.empty() ? "/" : pointer) + ": " + what};
}

std::string pointer_token(const std::string& key) {  // RFC 6901
  std::string out;
  for (const char c : key) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

std::string number_text(double value) { return format("%.10g", value); }

std::string range_text(const Range& range) {
  const bool low = range.min != kAnyRange.min, high = range.max != kAnyRange.max;
  if (low && high) return number_text(range.min) + " to " + number_text(range.max);
  if (low) return "at least " + number_text(range.min);
  if (high) return "at most " + number_text(range.max);
  return "";
}

Status check_range(double value, const Range& range, const std::string& pointer) {
  if (value >= range.min && value <= range.max) return ok();
  return wrong(pointer, number_text(value) + " is out of range (" + range_text(range) + ")");
}

struct Reader {
  const Json& value;
  const std::string& pointer;

  Status operator()(const param::Number& p) const {
    if (!value.is_number()) return wrong(pointer, "must be a number");
    TRY(check_range(value.get<double>(), p.range, pointer));
    *p.target = value.get<double>();
    return ok();
  }
  Status operator()(const param::Integer& p) const {
    if (!value.is_number_integer()) return wrong(pointer, "must be a whole number");
    TRY(check_range(value.get<double>(), p.range, pointer));
    *p.target = value.get<std::int64_t>();
    return ok();
  }
  Status operator()(const param::Flag& p) const {
    if (!value.is_boolean()) return wrong(pointer, "must be true or false");
    *p.target = value.get<bool>();
    return ok();
  }
  Status operator()(const param::Text& p) const {
    if (!value.is_string()) return wrong(pointer, "must be a string");
    *p.target = value.get<std::string>();
    return ok();
  }
  Status operator()(const param::Choice& p) const {
    if (!value.is_string()) return wrong(pointer, "must be one of: " + join(p.values, ", "));
    const auto chosen = value.get<std::string>();
    for (const std::string& allowed : p.values)
      if (allowed == chosen) {
        *p.target = chosen;
        return ok();
      }
    return wrong(pointer, "\"" + chosen + "\" is not one of: " + join(p.values, ", "));
  }
  Status operator()(const param::Texts& p) const {
    if (!value.is_array()) return wrong(pointer, "must be a list of strings");
    std::vector<std::string> out;
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (!value[i].is_string())
        return wrong(pointer + "/" + std::to_string(i), "must be a string");
      out.push_back(value[i].get<std::string>());
    }
    *p.target = std::move(out);
    return ok();
  }
  Status operator()(const param::Numbers& p) const {
    if (!value.is_array()) return wrong(pointer, "must be a list of numbers");
    std::vector<double> out;
    for (std::size_t i = 0; i < value.size(); ++i) {
      const std::string place = pointer + "/" + std::to_string(i);
      if (!value[i].is_number()) return wrong(place, "must be a number");
      out.push_back(value[i].get<double>());
      TRY(check_range(out.back(), p.range, place));
    }
    *p.target = std::move(out);
    return ok();
  }
  Status operator()(const param::Any& p) const {
    if (!value.is_object()) return wrong(pointer, "must be an object");
    *p.target = value;
    return ok();
  }
  Status operator()(const param::Object& p) const { return read_params(value, p.members, pointer); }
  Status operator()(const param::OneOf& p) const {
    std::vector<std::string> names;
    for (const auto& kind : p.kinds) names.push_back(kind.first);
    if (!value.is_object() || value.size() != 1)
      return wrong(pointer, "must be an object with exactly one of: " + join(names, ", "));
    const std::string& tag = value.begin().key();
    for (const auto& kind : p.kinds)
      if (kind.first == tag) {
        *p.tag = tag;
        return read_params(value.begin().value(), kind.second, pointer + "/" + pointer_token(tag));
      }
    return wrong(pointer, "\"" + tag + "\" is not one of: " + join(names, ", "));
  }
  Status operator()(const param::Map& p) const {
    if (!value.is_object()) return wrong(pointer, "must be an object");
    for (auto it = value.begin(); it != value.end(); ++it)
      TRY(read_params(it.value(), p.create(it.key()), pointer + "/" + pointer_token(it.key())));
    return ok();
  }
  Status operator()(const param::List& p) const {
    if (!value.is_array()) return wrong(pointer, "must be a list");
    for (std::size_t i = 0; i < value.size(); ++i)
      TRY(read_params(value[i], p.create(i), pointer + "/" + std::to_string(i)));
    return ok();
  }
};

Json with_range(Json schema, const Range& range) {
  if (range.min != kAnyRange.min) schema["minimum"] = range.min;
  if (range.max != kAnyRange.max) schema["maximum"] = range.max;
  return schema;
}

Json schema_of_kind(const Param& param) {
  return std::visit(
      Overloaded{
          [](const param::Number& p) {
            return with_range({{"type", "number"}}, p.range);
          },
          [](const param::Integer& p) {
            return with_range({{"type", "integer"}}, p.range);
          },
          [](const param::Flag&) {
            return Json{{"type", "boolean"}};
          },
          [](const param::Text&) {
            return Json{{"type", "string"}};
          },
          [](const param::Choice& p) {
            return Json{{"type", "string"}, {"enum", p.values}};
          },
          [](const param::Texts&) {
            return Json{{"type", "array"}, {"items", {{"type", "string"}}}};
          },
          [](const param::Numbers& p) {
            return Json{{"type", "array"}, {"items", with_range({{"type", "number"}}, p.range)}};
          },
          [](const param::Any&) {
            return Json{{"type", "object"}};
          },
          [](const param::Object& p) { return schema_of(p.members); },
          [](const param::OneOf& p) {
            Json kinds = Json::object();
            for (const auto& kind : p.kinds) kinds[kind.first] = schema_of(kind.second);
            return Json{{"type", "object"},
                        {"properties", kinds},
                        {"additionalProperties", false},
                        {"minProperties", 1},
                        {"maxProperties", 1}};
          },
          [](const param::Map& p) {
            return Json{{"type", "object"}, {"additionalProperties", schema_of(p.create("name"))}};
          },
          [](const param::List& p) {
            return Json{{"type", "array"}, {"items", schema_of(p.create(0))}};
          },
      },
      param.kind);
}

std::string type_text(const Param& param) {
  const auto ranged = [](const std::string& type, const Range& range) {
    const std::string bounds = range_text(range);
    return bounds.empty() ? type : type + ", " + bounds;
  };
  return std::visit(Overloaded{
                        [&](const param::Number& p) { return ranged("number", p.range); },
                        [&](const param::Integer& p) { return ranged("integer", p.range); },
                        [](const param::Flag&) { return std::string("true or false"); },
                        [](const param::Text&) { return std::string("string"); },
                        [](const param::Choice& p) { return "one of " + join(p.values, ", "); },
                        [](const param::Texts&) { return std::string("list of strings"); },
                        [&](const param::Numbers& p) { return ranged("list of numbers", p.range); },
                        [](const param::Any&) { return std::string("object"); },
                        [](const param::Object&) { return std::string("object"); },
                        [](const param::OneOf&) { return std::string("object with one member"); },
                        [](const param::Map&) { return std::string("object by name"); },
                        [](const param::List&) { return std::string("list"); },
                    },
                    param.kind);
}

}  // namespace

Param number(std::string name, double* target, std::string help, Range range) {
  return {std::move(name), std::move(help), param::Number{target, range}};
}
Param integer(std::string name, std::int64_t* target, std::string help, Range range) {
  return {std::move(name), std::move(help), param::Integer{target, range}};
}
Param flag(std::string name, bool* target, std::string help) {
  return {std::move(name), std::move(help), param::Flag{target}};
}
Param text(std::string name, std::string* target, std::string help) {
  return {std::move(name), std::move(help), param::Text{target}};
}
Param choice(std::string name, std::string* target, std::string help,
             std::vector<std::string> values) {
  return {std::move(name), std::move(help), param::Choice{target, std::move(values)}};
}
Param texts(std::string name, std::vector<std::string>* target, std::string help) {
  return {std::move(name), std::move(help), param::Texts{target}};
}
Param numbers(std::string name, std::vector<double>* target, std::string help, Range range) {
  return {std::move(name), std::move(help), param::Numbers{target, range}};
}
Param any(std::string name, Json* target, std::string help) {
  return {std::move(name), std::move(help), param::Any{target}};
}
Param object(std::string name, std::string help, Params members) {
  return {std::move(name), std::move(help), param::Object{std::move(members)}};
}
Param one_of(std::string name, std::string* tag, std::string help,
             std::vector<std::pair<std::string, Params>> kinds) {
  return {std::move(name), std::move(help), param::OneOf{tag, std::move(kinds)}};
}
Param map_of(std::string name, std::string help, std::function<Params(const std::string&)> create) {
  return {std::move(name), std::move(help), param::Map{std::move(create)}};
}
Param list_of(std::string name, std::string help, std::function<Params(std::size_t)> create) {
  return {std::move(name), std::move(help), param::List{std::move(create)}};
}
Param required(Param param) {
  param.required = true;
  return param;
}
Param seen(Param param, bool* flag) {
  param.seen = flag;
  return param;
}

Status read_params(const Json& json, const Params& params, const std::string& pointer) {
  if (!json.is_object()) return wrong(pointer, "must be an object");
  for (auto it = json.begin(); it != json.end(); ++it) {
    const Param* found = nullptr;
    std::vector<std::string> names;
    for (const Param& param : params) {
      if (param.name == it.key()) found = &param;
      names.push_back(param.name);
    }
    const std::string place = pointer + "/" + pointer_token(it.key());
    if (found == nullptr) {
      const std::string near = nearest(it.key(), names);
      return wrong(place, "unknown key" + (near.empty() ? " (known: " + join(names, ", ") + ")"
                                                        : "; did you mean \"" + near + "\"?"));
    }
    if (found->seen != nullptr) *found->seen = true;
    TRY(std::visit(Reader{it.value(), place}, found->kind));
  }
  for (const Param& param : params)
    if (param.required && !json.contains(param.name))
      return wrong(pointer, "\"" + param.name + "\" is missing");
  return ok();
}

Json write_params(const Params& params) {
  Json out = Json::object();
  for (const Param& param : params)
    std::visit(Overloaded{
                   [&](const param::Number& p) { out[param.name] = *p.target; },
                   [&](const param::Integer& p) { out[param.name] = *p.target; },
                   [&](const param::Flag& p) { out[param.name] = *p.target; },
                   [&](const param::Text& p) { out[param.name] = *p.target; },
                   [&](const param::Choice& p) { out[param.name] = *p.target; },
                   [&](const param::Texts& p) { out[param.name] = *p.target; },
                   [&](const param::Numbers& p) { out[param.name] = *p.target; },
                   [&](const param::Any&) {},
                   [&](const param::Object& p) { out[param.name] = write_params(p.members); },
                   [&](const param::OneOf& p) {
                     for (const auto& kind : p.kinds)
                       if (kind.first == *p.tag)
                         out[param.name] = {{*p.tag, write_params(kind.second)}};
                   },
                   [&](const param::Map&) {},
                   [&](const param::List&) {},
               },
               param.kind);
  return out;
}

Json schema_of(const Params& params) {
  Json properties = Json::object();
  Json required_names = Json::array();
  for (const Param& param : params) {
    Json schema = schema_of_kind(param);
    schema["description"] = param.help;
    properties[param.name] = std::move(schema);
    if (param.required) required_names.push_back(param.name);
  }
  Json out = {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  if (!required_names.empty()) out["required"] = required_names;
  return out;
}

std::string describe(const Params& params, int indent) {
  std::string out;
  const std::string margin(static_cast<std::size_t>(indent), ' ');
  const Json defaults = write_params(params);
  for (const Param& param : params) {
    out += margin + param.name + " (" + type_text(param);
    const Json* value = member(defaults, param.name);
    if (param.required)
      out += "; required";
    else if (value != nullptr && value->is_primitive() &&
             !(value->is_string() && value->get<std::string>().empty()))
      out += "; default " + line_of(*value);
    out += "): " + param.help + "\n";
    if (const auto* nested = std::get_if<param::Object>(&param.kind))
      out += describe(nested->members, indent + 2);
    if (const auto* tagged = std::get_if<param::OneOf>(&param.kind))
      for (const auto& kind : tagged->kinds)
        out += margin + "  " + kind.first + (kind.first == *tagged->tag ? " (default)" : "") +
               ":\n" + describe(kind.second, indent + 4);
  }
  return out;
}

}  // namespace mixproof
