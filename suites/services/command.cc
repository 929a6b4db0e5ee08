// command: any server, by its argv. "{address}" and "{port}" in it stand for where it has to
// listen.
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "suites/services/kinds.h"

namespace mixproof {
namespace {

struct CommandSettings {
  std::string ready_path = "/health", url_path;

  Params params() {
    return {text("ready_path", &ready_path, "answers 200 when the server is ready"),
            text("url_path", &url_path, "what users append to the address to reach it")};
  }
  Status check(const std::string& pointer) const {
    if (!starts_with(ready_path, "/"))
      return Error{Code::kInvalid, pointer + "/ready_path: must begin with \"/\""};
    if (!url_path.empty() && !starts_with(url_path, "/"))
      return Error{Code::kInvalid, pointer + "/url_path: must be empty or begin with \"/\""};
    return ok();
  }
};

Status available() { return ok(); }

Result<ServiceCommand> command(const ServiceRequest& request) {
  if (request.argv.empty() || request.argv[0].empty())
    return Error{Code::kInvalid, request.name + ": a command needs \"argv\""};
  const CommandSettings settings =
      TRY(read_settings<CommandSettings>(request.params, "/services/" + request.name + "/params"));
  ServiceCommand out;
  for (const std::string& argument : request.argv) {
    const std::string with_address = replace_all(argument, "{address}", request.address);
    out.argv.push_back(replace_all(with_address, "{port}", std::to_string(request.port)));
  }
  out.url = "http://" + endpoint(request) + settings.url_path;
  out.ready_url = "http://" + endpoint(request) + settings.ready_path;
  out.labels = {{"engine", "command"}, {"command", join(request.argv, " ")}};
  return out;
}

}  // namespace

const ServiceKind command_service = {
    .name = "command",
    .summary = "any server, started by the argv of the suite",
    .port = 8080,
    .check_params = check_settings<CommandSettings>,
    .available = available,
    .command = command,
    .schema = settings_schema<CommandSettings>,
};

}  // namespace mixproof
