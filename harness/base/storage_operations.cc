#include "harness/base/storage_operations.h"

#include <nlohmann/json.hpp>

namespace mixproof {

Json fields_of(const FillDisk& fill) {
  return {{"directory", fill.directory}, {"device", fill.device}};
}

Status read_fields(const Json& json, FillDisk& fill) {
  fill = {.directory = text_at(json, "directory"), .device = unsigned_at(json, "device")};
  if (fill.directory.empty()) return Error{Code::kCorrupt, "a fill_disk operation without place"};
  return ok();
}

std::string describe(const FillDisk& fill) {
  return "take every free block of the file system at " + fill.directory;
}

}  // namespace mixproof
