#include "harness/cli/command.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace mixproof {

std::string program_path() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "mixproof" : path.string();
}

std::string suite_directory() { return MIXPROOF_SOURCE_DIR "/suites"; }

std::string state_directory() {
  if (const char* given = std::getenv("MIXPROOF_STATE_DIR"); given != nullptr && *given != '\0') return given;
  if (::geteuid() == 0) return "/var/lib/mixproof";
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "/tmp" : home) + "/.local/state/mixproof";
}

}  // namespace mixproof
