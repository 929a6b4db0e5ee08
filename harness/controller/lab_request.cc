#include <charconv>
#include <cmath>
#include <set>

#include "harness/base/text.h"
#include "harness/controller/lab.h"
#include "harness/controller/lab_files.h"
#include "harness/controller/lab_network.h"

namespace mixproof {
namespace {

using Roles = std::vector<std::pair<std::string, std::size_t>>;

std::optional<std::size_t> whole_number(std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<Roles> parse_roles(std::string_view text) {
  if (const auto count = whole_number(text)) {
    if (*count == 0 || *count > kLabNodesMax)
      return Error{Code::kInvalid, format("--nodes %zu: between 1 and %zu", *count, kLabNodesMax)};
    const std::size_t rest = *count - 1;
    return Roles{{"edge", 1}, {"serve", rest - rest / 2}, {"train", rest / 2}};
  }
  Roles roles;
  std::set<std::string> seen;
  for (const std::string& part : split(text, ',')) {
    const std::vector<std::string> halves = split(part, '=');
    const auto count = halves.size() == 2 ? whole_number(halves[1]) : std::nullopt;
    if (!count || *count == 0 || *count > kLabNodesMax)
      return Error{Code::kInvalid, "--nodes: \"" + part + "\" is neither a number nor ROLE=NUMBER"};
    TRY(check_lab_name(halves[0]));
    if (!seen.insert(halves[0]).second)
      return Error{Code::kInvalid, "--nodes: " + halves[0] + " is named twice"};
    roles.emplace_back(halves[0], *count);
  }
  return roles;
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> parse_lab_nodes(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> nodes;
  const Roles roles = TRY(parse_roles(text));
  for (const auto& [role, count] : roles) {
    for (std::size_t i = 0; i < count; ++i)
      nodes.emplace_back(role + "-" + std::to_string(i), role);
  }
  if (nodes.size() > kLabNodesMax)
    return Error{Code::kInvalid,
                 format("--nodes: %zu nodes, at most %zu fit into the lab's network", nodes.size(),
                        kLabNodesMax)};
  return nodes;
}

Result<double> parse_link_rate(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  const double scale = unit == "bit"    ? 1
                       : unit == "kbit" ? 1e3
                       : unit == "mbit" ? 1e6
                       : unit == "gbit" ? 1e9
                                        : 0;
  if (error != std::errc() || scale == 0)
    return Error{Code::kInvalid,
                 "link rate \"" + std::string(text) + "\": a number and bit, kbit, mbit or gbit"};
  const double rate = value * scale;
  if (!(rate >= 64e3 && rate <= 100e9))
    return Error{Code::kInvalid,
                 "link rate \"" + std::string(text) + "\": between 64kbit and 100gbit"};
  return rate;
}

}  // namespace mixproof
