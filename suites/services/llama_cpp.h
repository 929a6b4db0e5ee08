// The inference engine's settings and what is known about the one installed.
#pragma once

#include <string>

#include "suites/services/service.h"

namespace mixproof {

struct LlamaSettings {
  std::int64_t layers = 4, width = 256, heads = 8, ff_multiple = 4;
  std::int64_t context = 256, slots = 4, threads = 1, seed = 1;

  Params params();
  Status check(const std::string& pointer) const;
};

// What `llm_server.py --describe` says: all that makes two engines of one shape different.
struct LlamaEngine {
  std::string python, script;  // what runs it
  std::string version;         // of the wheel: "2026.10.11549"
  std::string native_sha256;   // of the installed native library
  std::string weights_recipe;  // digest of the program that writes the weights
};

// $MIXPROOF_PYTHON, else the environment that .ci/setup made beside the sources. `load` imports the
// packages too, which takes about 0.3 s instead of 0.15. kInvalid with what is missing and what to
// do.
Result<LlamaEngine> describe_llama(bool load);

ServiceCommand llama_command(const LlamaSettings& settings, const LlamaEngine& engine,
                             const ServiceRequest& request);

}  // namespace mixproof
