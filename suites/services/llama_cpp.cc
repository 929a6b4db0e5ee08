// llama_cpp: llama.cpp's own server with random weights of a declared shape.
#include "suites/services/llama_cpp.h"

#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "suites/services/kinds.h"
#include "suites/services/run_program.h"

namespace mixproof {
namespace {

constexpr const char* kRemedy =
    "; run .ci/setup in the project's folder, or set MIXPROOF_PYTHON to a Python that has "
    "what suites/services/requirements.txt lists";

Error missing(const std::string& what) { return {Code::kInvalid, what + kRemedy}; }

std::string python_path() {
  const char* chosen = std::getenv("MIXPROOF_PYTHON");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  return MIXPROOF_SOURCE_DIR "/.venv/bin/python";
}

Status available() {
  TRY(describe_llama(true));
  return ok();
}

Result<ServiceCommand> command(const ServiceRequest& request) {
  const LlamaSettings settings =
      TRY(read_settings<LlamaSettings>(request.params, "/services/" + request.name + "/params"));
  const LlamaEngine engine = TRY(describe_llama(false));
  return llama_command(settings, engine, request);
}

}  // namespace

Params LlamaSettings::params() {
  return {integer("layers", &layers, "transformer blocks", {.min = 1, .max = 128}),
          integer("width", &width, "length of the hidden state", {.min = 32, .max = 8192}),
          integer("heads", &heads, "attention heads; an even part of the width each",
                  {.min = 1, .max = 128}),
          integer("ff_multiple", &ff_multiple, "feed-forward width as a multiple of width",
                  {.min = 1, .max = 8}),
          integer("context", &context, "tokens of prompt and answer together, of one slot",
                  {.min = 64, .max = 131072}),
          integer("slots", &slots, "requests worked on at once", {.min = 1, .max = 64}),
          integer("threads", &threads, "compute threads", {.min = 1, .max = 256}),
          integer("seed", &seed, "of the weights", {.min = 0, .max = 4294967295.0})};
}

Status LlamaSettings::check(const std::string& pointer) const {
  if (width % 32 != 0) return Error{Code::kInvalid, pointer + "/width: must be a multiple of 32"};
  if (width % (heads * 2) != 0)
    return Error{
        Code::kInvalid,
        pointer + format("/heads: %lld heads do not divide a width of %lld into even parts",
                         static_cast<long long>(heads), static_cast<long long>(width))};
  return ok();
}

Result<LlamaEngine> describe_llama(bool load) {
  LlamaEngine engine;
  engine.python = python_path();
  engine.script = MIXPROOF_SOURCE_DIR "/suites/services/llm_server.py";
  if (access(engine.python.c_str(), X_OK) != 0) return missing("no Python at " + engine.python);
  if (access(engine.script.c_str(), R_OK) != 0)
    return Error{
        Code::kInvalid,
        engine.script + " cannot be read: the sources this program was built from have moved"};
  std::vector<std::string> argv = {engine.python, engine.script, "--describe"};
  if (load) argv.push_back("--load");
  const ProgramOutput printed = TRY(run_program(argv, std::chrono::seconds(30)));
  if (printed.exit_code != 0) return missing(engine.python + ": " + first_line(printed.out));
  const Result<Json> facts = parse_json(printed.out, "llm_server.py --describe");
  if (!facts) return missing(facts.error().message);
  engine.version = text_at(*facts, "version");
  engine.native_sha256 = text_at(*facts, "native_sha256");
  engine.weights_recipe = text_at(*facts, "weights_recipe");
  if (engine.version.empty() || engine.native_sha256.empty() || engine.weights_recipe.empty())
    return missing("llm_server.py --describe says too little: " + first_line(printed.out));
  return engine;
}

// The digest is handed to the server, which refuses to serve with another library: the label stays
// true wherever it is started.
ServiceCommand llama_command(const LlamaSettings& settings, const LlamaEngine& engine,
                             const ServiceRequest& request) {
  const std::int64_t ff = settings.width * settings.ff_multiple;
  ServiceCommand out;
  out.argv = {engine.python,   engine.script,     "--address",
              request.address, "--native-sha256", engine.native_sha256};
  const std::pair<const char*, std::int64_t> values[] = {{"port", request.port},
                                                         {"layers", settings.layers},
                                                         {"width", settings.width},
                                                         {"heads", settings.heads},
                                                         {"ff", ff},
                                                         {"context", settings.context},
                                                         {"slots", settings.slots},
                                                         {"threads", settings.threads},
                                                         {"seed", settings.seed}};
  for (const auto& [name, value] : values) {
    out.argv.push_back(std::string("--") + name);
    out.argv.push_back(std::to_string(value));
  }
  out.url = "http://" + endpoint(request);
  out.ready_url = out.url + "/health";
  out.labels = {
      {"engine", "llama.cpp"},
      {"wheel", "xllamacpp " + engine.version},
      {"wheel_digest", "sha256 of the native library " + engine.native_sha256},
      {"weights",
       "random, recipe " + engine.weights_recipe + " seed " + std::to_string(settings.seed)},
      {"shape",
       format("%lldx%lld heads %lld ff %lld context %lld slots %lld threads %lld",
              static_cast<long long>(settings.layers), static_cast<long long>(settings.width),
              static_cast<long long>(settings.heads), static_cast<long long>(ff),
              static_cast<long long>(settings.context), static_cast<long long>(settings.slots),
              static_cast<long long>(settings.threads))}};
  return out;
}

const ServiceKind llama_cpp_service = {
    .name = "llama_cpp",
    .summary =
        "llama.cpp's server (PyPI xllamacpp) with random weights of a declared shape; OpenAI chat "
        "API",
    .port = 8080,
    .check_params = check_settings<LlamaSettings>,
    .available = available,
    .command = command,
    .schema = settings_schema<LlamaSettings>,
};

}  // namespace mixproof
