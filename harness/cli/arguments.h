// Arguments of a subcommand: options with and without value, and what is left.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/base/result.h"

namespace mixproof {

struct Option {
  std::string name;        // "--on"
  std::string short_name;  // "-o"; empty: none
  bool takes_value = true;
};

class Arguments {
 public:
  // kInvalid names an unknown option (with the nearest known one) or a value that is missing.
  // Everything after "--" is positional. "--name=value" and "--name value" are the same.
  static Result<Arguments> parse(std::span<const std::string> args,
                                 const std::vector<Option>& options);

  bool has(const std::string& name) const { return values_.count(name) != 0; }
  std::string get(const std::string& name,
                  const std::string& fallback = "") const;  // the last one given
  std::vector<std::string> all(const std::string& name) const;
  const std::vector<std::string>& positional() const { return positional_; }

 private:
  std::map<std::string, std::vector<std::string>> values_;
  std::vector<std::string> positional_;
};

// Every --param KEY=VALUE as a member of an object; a value is JSON where it parses, else a string.
Result<Json> params_from(const Arguments& arguments);

// "4s", "250ms", "2m", "1.5s", "10": seconds.
Result<double> parse_duration_s(const std::string& text);

}  // namespace mixproof
