#include "harness/base/result.h"

#include <array>
#include <cerrno>
#include <cstring>

namespace mixproof {
namespace {

constexpr std::array<std::string_view, 10> kNames = {
    "invalid", "refused", "unavailable", "timeout",  "peer_lost",
    "device",  "corrupt", "system",      "conflict", "internal"};

}  // namespace

std::string_view code_name(Code code) { return kNames.at(static_cast<std::size_t>(code)); }

std::optional<Code> code_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames.at(i) == name) return static_cast<Code>(i);
  return std::nullopt;
}

Error system_error(std::string_view what) { return system_error(what, errno); }

Error system_error(std::string_view what, int error_number) {
  return {Code::kSystem, std::string(what) + ": " + std::strerror(error_number)};
}

}  // namespace mixproof
