#include "harness/base/host_operation.h"

#include <nlohmann/json.hpp>

namespace mixproof {
namespace {

// Those without a function of their own leave nothing under a name.
template <typename Operation>
std::string mark_of(const Operation&) {
  return "";
}

// The alternative of this number or one after it whose type the JSON names.
template <std::size_t kIndex = 0>
Result<HostOperation> read_as(const std::string& type, const Json& json) {
  if constexpr (kIndex == std::variant_size_v<HostOperation>) {
    return Error{Code::kCorrupt, "unknown operation '" + type + "'"};
  } else {
    using Operation = std::variant_alternative_t<kIndex, HostOperation>;
    if (Operation::kType != type) return read_as<kIndex + 1>(type, json);
    Operation operation;
    TRY(read_fields(json, operation));
    return HostOperation{std::move(operation)};
  }
}

}  // namespace

Json operation_to_json(const HostOperation& operation) {
  return std::visit(
      [](const auto& one) {
        Json json = fields_of(one);
        json["type"] = one.kType;
        return json;
      },
      operation);
}

Result<HostOperation> operation_from_json(const Json& json) {
  return read_as(text_at(json, "type"), json);
}

std::string describe(const HostOperation& operation) {
  return std::visit([](const auto& one) { return describe(one); }, operation);
}

std::string mark_of(const HostOperation& operation) {
  return std::visit([](const auto& one) { return mark_of(one); }, operation);
}

Result<Json> HostOperator::counted(const HostOperation&) { return Json::object(); }

}  // namespace mixproof
