// Operations on file systems.
// What each operation is and needs, its fields as JSON (read_fields: kCorrupt when they cannot be
// an operation's), and in words. host_operation.h has them all behind one type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "harness/base/json.h"
#include "harness/base/result.h"

namespace mixproof {

// Every free block of the file system that holds the directory, in a file without a name: the
// kernel frees it when the process that holds it dies.
struct FillDisk {
  static constexpr std::string_view kType = "fill_disk";
  std::string directory;
  std::uint64_t device = 0;  // st_dev of the directory when it was planned
};

Json fields_of(const FillDisk& fill);
Status read_fields(const Json& json, FillDisk& fill);
std::string describe(const FillDisk& fill);

}  // namespace mixproof
