// Opens the UCX module of this build for tests, whose executables do not lie beside it.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include "harness/base/build.h"
#include "probes/backends/module.h"
#include "tests/fake/paths.h"

namespace mixproof::fake {

inline std::string build_folder() {
  const std::string binary = kMixproofBinary;
  return binary.substr(0, binary.rfind('/'));
}

// Empty when this build has the UCX module; else why not, as the build says.
inline std::string ucx_left_out() {
  int count = 0;
  const BackendFact* facts = backend_facts(&count);
  for (int i = 0; i < count; ++i)
    if (std::string_view(facts[i].name) == "ucx" && !facts[i].found) return facts[i].detail;
  return "";
}

}  // namespace mixproof::fake

// A test that needs the module is skipped only where the build left it out, never because it cannot
// be opened.
#define SKIP_WITHOUT_UCX()                                       \
  do {                                                           \
    const std::string reason_ = mixproof::fake::ucx_left_out();  \
    if (!reason_.empty()) GTEST_SKIP() << "no UCX: " << reason_; \
  } while (false)
