// null_server: this program's own answerer, with delays that are asked for. An instrument: it shows
// what the client measures, never how an engine behaves, so whatever comes from it is labelled
// synthetic.
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "suites/services/kinds.h"

namespace mixproof {
namespace {

struct NullServerSettings {
  double ttft_ms = 20, gap_ms = 10;

  Params params() {
    const Range milliseconds{.min = 0, .max = 600000};
    return {number("ttft_ms", &ttft_ms, "wait before the first token", milliseconds),
            number("gap_ms", &gap_ms, "wait before each further token", milliseconds)};
  }
  Status check(const std::string&) const { return ok(); }
};

Result<std::string> own_program() {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) return system_error("read /proc/self/exe");
  return std::string(path.data(), static_cast<std::size_t>(length));
}

Status available() { return ok(); }

Result<ServiceCommand> command(const ServiceRequest& request) {
  const NullServerSettings settings = TRY(
      read_settings<NullServerSettings>(request.params, "/services/" + request.name + "/params"));
  const std::string ttft = format("%.10g", settings.ttft_ms),
                    gap = format("%.10g", settings.gap_ms);
  ServiceCommand out;
  const std::string program = TRY(own_program());
  out.argv = {program,     "null-server", "--listen", endpoint(request),
              "--ttft-ms", ttft,          "--gap-ms", gap};
  out.url = "http://" + endpoint(request);
  out.ready_url = out.url + "/health";
  out.labels = {{"engine", "null_server"},
                {"synthetic", "true"},
                {"shape", "ttft " + ttft + " ms gap " + gap + " ms"}};
  return out;
}

}  // namespace

const ServiceKind null_server_service = {
    .name = "null_server",
    .summary = "answers with delays that are asked for; an instrument, its figures are synthetic",
    .port = 8090,
    .check_params = check_settings<NullServerSettings>,
    .available = available,
    .command = command,
    .schema = settings_schema<NullServerSettings>,
};

}  // namespace mixproof
