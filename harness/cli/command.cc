#include "harness/cli/command.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace mixproof {

int exit_of(Code code) {
  switch (code) {
    case Code::kInvalid:
    case Code::kUnavailable: return 4;
    case Code::kRefused: return 6;
    default: return 3;
  }
}

int fail_command(const std::string& command, const Error& error) {
  std::fprintf(stderr, "mixproof %s: %s\n", command.c_str(), error.message.c_str());
  return exit_of(error.code);
}

std::string program_path() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "mixproof" : path.string();
}

std::string state_directory() {
  if (const char* given = std::getenv("MIXPROOF_STATE_DIR"); given != nullptr && *given != '\0') return given;
  if (::geteuid() == 0) return "/var/lib/mixproof";
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "/tmp" : home) + "/.local/state/mixproof";
}

}  // namespace mixproof
