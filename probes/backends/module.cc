#include "probes/backends/module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "harness/base/build.h"

namespace mixproof {
namespace {

// Libraries that read the environment while they are loaded. UCX writes its log to standard output
// unless told otherwise, and there a worker speaks to its agent. What a person has set stays.
void set_library_defaults() { setenv("UCX_LOG_FILE", "stderr", 0); }

}  // namespace

Result<std::string> module_directory() {
  const char* directory = std::getenv("MIXPROOF_MODULE_DIR");
  if (directory != nullptr && *directory != '\0') return std::string(directory);
  std::array<char, 4096> path;
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length < 0) return system_error("read link /proc/self/exe");
  const std::string executable(path.data(), static_cast<std::size_t>(length));
  return executable.substr(0, executable.rfind('/'));
}

Status check_backend(const BackendTable* table, const std::string& own_digest,
                     const std::string& path) {
  if (table == nullptr || table->build_digest == nullptr)
    return Error{Code::kUnavailable,
                 path + ": states no build digest: it is not a module of this build"};
  if (own_digest != table->build_digest)
    return Error{Code::kUnavailable, path + ": belongs to build " + table->build_digest +
                                         ", this is build " + own_digest +
                                         "; build or install both together"};
  return ok();
}

Result<const BackendTable*> open_backend(const std::string& name, const std::string& directory) {
  const std::string path = directory + "/mixproof_" + name + ".so";
  if (access(path.c_str(), R_OK) != 0)
    return Error{Code::kUnavailable,
                 "backend " + name + ": " + system_error("open " + path).message +
                     "; was its library found when this was built? (mixproof list backends)"};
  set_library_defaults();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return Error{Code::kUnavailable, "backend " + name + ": " + dlerror()};
  using Entry = const BackendTable* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, kBackendEntry));
  if (entry == nullptr)
    return Error{Code::kUnavailable, "backend " + name + ": " + path + ": has no " + kBackendEntry};
  const BackendTable* table = entry();
  Status same_build = check_backend(table, build_digest(), path);
  if (!same_build) return std::move(same_build).error().in("backend " + name);
  return table;
}

}  // namespace mixproof
