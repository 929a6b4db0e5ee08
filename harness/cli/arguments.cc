#include "harness/cli/arguments.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"

namespace mixproof {

Result<Arguments> Arguments::parse(std::span<const std::string> args,
                                   const std::vector<Option>& options) {
  Arguments out;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string& word = args[i];
    if (word == "--") {
      out.positional_.insert(out.positional_.end(),
                             args.begin() + static_cast<std::ptrdiff_t>(i) + 1, args.end());
      break;
    }
    if (word.size() < 2 || word[0] != '-') {
      out.positional_.push_back(word);
      continue;
    }
    const std::size_t equals = starts_with(word, "--") ? word.find('=') : std::string::npos;
    const std::string name = word.substr(0, equals);
    const Option* found = nullptr;
    std::vector<std::string> known;
    for (const Option& option : options) {
      if (option.name == name || (!option.short_name.empty() && option.short_name == name))
        found = &option;
      known.push_back(option.name);
    }
    if (found == nullptr) {
      const std::string near = nearest(name, known);
      return Error{Code::kInvalid,
                   "unknown option " + name + (near.empty() ? "" : "; did you mean " + near + "?")};
    }
    std::string value;
    if (found->takes_value) {
      if (equals == std::string::npos && i + 1 == args.size())
        return Error{Code::kInvalid, name + " needs a value"};
      value = equals == std::string::npos ? args[++i] : word.substr(equals + 1);
    } else if (equals != std::string::npos) {
      return Error{Code::kInvalid, name + " takes no value"};
    }
    out.values_[found->name].push_back(value);
  }
  return out;
}

std::string Arguments::get(const std::string& name, const std::string& fallback) const {
  const auto it = values_.find(name);
  return it == values_.end() ? fallback : it->second.back();
}

std::vector<std::string> Arguments::all(const std::string& name) const {
  const auto it = values_.find(name);
  return it == values_.end() ? std::vector<std::string>() : it->second;
}

Result<Json> params_from(const Arguments& arguments) {
  Json params = Json::object();
  for (const std::string& setting : arguments.all("--param")) {
    const std::size_t equals = setting.find('=');
    if (equals == 0 || equals == std::string::npos)
      return Error{Code::kInvalid, "--param " + setting + " is not KEY=VALUE"};
    const std::string key = setting.substr(0, equals), value = setting.substr(equals + 1);
    const Result<Json> parsed = parse_json(value, key);
    params[key] = parsed.ok() ? *parsed : Json(value);
  }
  return params;
}

Result<double> parse_duration_s(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  const double scale = unit.empty() || unit == "s" ? 1 : unit == "ms" ? 1e-3 : unit == "m" ? 60 : 0;
  if (error != std::errc() || scale == 0 || !(value > 0) || value * scale > 86400)
    return Error{Code::kInvalid, "'" + text + "' is not a duration (4s, 250ms, 2m)"};
  return value * scale;
}

}  // namespace mixproof
