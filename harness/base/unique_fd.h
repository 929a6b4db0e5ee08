// UniqueFd: owner of one file descriptor.
#pragma once

#include <unistd.h>

#include "harness/base/handle.h"

namespace mixproof {

struct FdTraits {
  using Raw = int;
  static Raw null() { return -1; }
  static void close(Raw fd) noexcept { ::close(fd); }
};
using UniqueFd = Handle<FdTraits>;

}  // namespace mixproof
