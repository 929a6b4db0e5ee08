#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "harness/base/text.h"
#include "probes/inference/null_server.h"

namespace mixproof::inference {
namespace {

constexpr const char* kHelp =
    "usage: mixproof null-server --listen ADDR:PORT [--ttft-ms 20] [--gap-ms 10] [--slots N]\n"
    "An OpenAI-compatible streaming server that computes nothing and stamps its clock into each "
    "token: an instrument\n"
    "for testing clients, never a stand-in for an engine. Serves until killed. Port 0 takes any "
    "free one.\n"
    "With --slots at most N answers are under way at once, further requests wait their turn.\n";

constexpr int kExitUsage = 4, kExitRefused = 6, kExitError = 3;

std::optional<double> milliseconds(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (!(value >= 0) || value > 60'000) return std::nullopt;
  return value;
}

Status set_listen(NullServerOptions& options, const std::string& value) {
  const std::size_t colon = value.rfind(':');
  if (colon == std::string::npos) return Error{Code::kInvalid, "--listen wants ADDR:PORT"};
  const std::string port = value.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), options.port);
  if (error != std::errc{} || end != port.data() + port.size() || options.port < 0 ||
      options.port > 65535)
    return Error{Code::kInvalid, "--listen: \"" + port + "\" is not a port"};
  options.address = value.substr(0, colon);
  if (options.address.size() > 2 && options.address.front() == '[' && options.address.back() == ']')
    options.address = options.address.substr(1, options.address.size() - 2);
  return ok();
}

Result<NullServerOptions> parse(std::span<const std::string> args) {
  NullServerOptions options;
  bool listens = false;
  for (std::size_t a = 0; a < args.size(); a += 2) {
    if (a + 1 >= args.size()) return Error{Code::kInvalid, args[a] + " wants a value"};
    const std::string& value = args[a + 1];
    if (args[a] == "--listen") {
      TRY(set_listen(options, value));
      listens = true;
    } else if (args[a] == "--ttft-ms" || args[a] == "--gap-ms") {
      const std::optional<double> number = milliseconds(value);
      if (!number)
        return Error{Code::kInvalid, args[a] + ": \"" + value + "\" is not between 0 and 60000"};
      (args[a] == "--gap-ms" ? options.gap_ms : options.ttft_ms) = *number;
    } else if (args[a] == "--slots") {
      const auto [end, error] =
          std::from_chars(value.data(), value.data() + value.size(), options.slots);
      if (error != std::errc{} || end != value.data() + value.size() || options.slots < 0)
        return Error{Code::kInvalid, "--slots: \"" + value + "\" is not a count"};
    } else {
      return Error{Code::kInvalid, "unknown option " + args[a]};
    }
  }
  if (!listens) return Error{Code::kInvalid, "--listen is missing"};
  return options;
}

}  // namespace

int null_server_main(std::span<const std::string> args) {
  for (const std::string& arg : args)
    if (arg == "--help" || arg == "-h") {
      std::fputs(kHelp, stdout);
      return 0;
    }
  Result<NullServerOptions> options = parse(args);
  if (!options) {
    std::fprintf(stderr, "mixproof null-server: %s\n%s", options.error().message.c_str(), kHelp);
    return kExitUsage;
  }
  options->on_listening = [&](int port) {
    std::fprintf(stderr, "null server: http://%s:%d\n", options->address.c_str(), port);
  };
  const Status status = serve_null(*options, std::stop_token{});
  if (status.ok()) return 0;
  std::fprintf(stderr, "mixproof null-server: %s\n", status.error().message.c_str());
  return status.error().code == Code::kRefused ? kExitRefused : kExitError;
}

}  // namespace mixproof::inference
