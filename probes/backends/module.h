// Backend module: one vendor library behind a shared object, opened when it is used. Only workers
// open modules, so a machine that lacks the vendor library can still run everything else, and a
// crash in it costs one measurement.
#pragma once

#include <memory>
#include <string>

#include "harness/base/result.h"
#include "probes/backends/communicator.h"

namespace mixproof {

// What a module hands out. The digest is first and stays first: it is all that may be read of
// another build's table.
struct BackendTable {
  const char* build_digest;     // of the build that made the module
  const char* name;             // "ucx"
  const char* library_version;  // of the vendor library that runs: "1.13.1"
  Result<std::unique_ptr<Communicator>> (*create_communicator)(const CommunicatorOptions& options);
};

// The one entry of a module: `extern "C" const BackendTable* mixproof_backend_entry()`.
inline constexpr const char* kBackendEntry = "mixproof_backend_entry";

// Where modules are: MIXPROOF_MODULE_DIR, or else the folder of the running executable.
Result<std::string> module_directory();

// Opens mixproof_<name>.so of that folder; for as long as the process lives, because vendor
// libraries start threads and hook memory functions, and do not survive being unloaded.
// kUnavailable with the reason when the file or a library that it needs is missing, or when it
// comes from another build.
Result<const BackendTable*> open_backend(const std::string& name, const std::string& directory);

// kUnavailable unless the table is there and was made by the build with `own_digest`. `path` is for
// the message.
Status check_backend(const BackendTable* table, const std::string& own_digest,
                     const std::string& path);

}  // namespace mixproof
