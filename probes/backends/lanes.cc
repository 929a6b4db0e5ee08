#include "probes/backends/lanes.h"

#include <vector>

#include "harness/base/text.h"

namespace mixproof {
namespace {

// "  lane[0]:  2:tcp/eth0.0 md[1]" -> "tcp"; empty when the line has another form.
std::string transport_of(std::string_view line) {
  const std::size_t label_end = line.find("]:");
  if (label_end == std::string_view::npos) return "";
  std::string_view rest = line.substr(label_end + 2);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const std::size_t colon = rest.find(':');
  const std::size_t slash = rest.find('/');
  if (colon == std::string_view::npos || slash == std::string_view::npos || slash < colon)
    return "";
  if (rest.substr(0, colon).find_first_not_of("0123456789") != std::string_view::npos) return "";
  return std::string(rest.substr(colon + 1, slash - colon - 1));
}

bool allowed(const std::string& transport, const std::vector<std::string>& asked) {
  for (const std::string& name : asked)
    if (!name.empty() && (transport == name || starts_with(transport, name + "_"))) return true;
  return false;
}

}  // namespace

Result<std::set<std::string>> lane_transports(std::string_view printed) {
  std::set<std::string> transports;
  for (const std::string& line : split(printed, '\n')) {
    if (line.find("lane[") == std::string::npos) continue;
    const std::string transport = transport_of(line);
    if (transport.empty())
      return Error{Code::kDevice, "cannot read the transport from \"" + line + "\""};
    transports.insert(transport);
  }
  if (transports.empty())
    return Error{Code::kDevice, "the endpoint shows no lane, so its transport is not known"};
  return transports;
}

Status check_transports(const std::set<std::string>& used, const std::string& asked) {
  const std::vector<std::string> names = split(asked, ',');
  for (const std::string& transport : used) {
    if (allowed(transport, names)) continue;
    return Error{Code::kUnavailable,
                 "ranks meet through " + transport + ", but transport " + asked + " was asked for"};
  }
  return ok();
}

}  // namespace mixproof
