#include "harness/cli/command.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace mixproof {

void raise_priority() {
  constexpr int kNice = -10;
  static_cast<void>(::setpriority(PRIO_PROCESS, 0, kNice));
}

std::string program_path() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "mixproof" : path.string();
}

std::string suite_directory() { return MIXPROOF_SOURCE_DIR "/suites"; }

std::string state_directory() {
  if (const char* given = std::getenv("MIXPROOF_STATE_DIR"); given != nullptr && *given != '\0')
    return given;
  if (::geteuid() == 0) return "/var/lib/mixproof";
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "/tmp" : home) + "/.local/state/mixproof";
}

}  // namespace mixproof
