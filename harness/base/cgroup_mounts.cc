#include <algorithm>

#include "harness/base/cgroup.h"
#include "harness/base/text.h"

namespace mixproof {
namespace {

// The kernel writes space, tab, newline and backslash of a path as \ooo.
std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto octal = [&](std::size_t at) { return text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && i + 3 < text.size() && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                               (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool has_option(const std::string& options, std::string_view wanted) {
  const std::vector<std::string> words = split(options, ',');
  return std::find(words.begin(), words.end(), wanted) != words.end();
}

// The first mount of a hierarchy wins, unless a later one shows all of it (root "/").
void take(std::string& found, bool& whole, const std::string& root, const std::string& point) {
  if (!found.empty() && (whole || root != "/")) return;
  found = point;
  whole = root == "/";
}

}  // namespace

CgroupMounts find_cgroup_mounts(std::string_view mountinfo) {
  CgroupMounts mounts;
  bool cpuset_whole = false, freezer_whole = false, unified_whole = false;
  for (const std::string& line : split(mountinfo, '\n')) {
    // id parent major:minor root point options [tags...] - type source super-options
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> head = split(std::string_view(line).substr(0, dash), ' ');
    const std::vector<std::string> tail = split(std::string_view(line).substr(dash + 3), ' ');
    if (head.size() < 6 || tail.size() < 3) continue;
    const std::string point = unescape(head[4]);
    if (tail[0] == "cgroup2") take(mounts.unified, unified_whole, head[3], point);
    if (tail[0] != "cgroup") continue;
    if (has_option(tail[2], "cpuset")) take(mounts.cpuset, cpuset_whole, head[3], point);
    if (has_option(tail[2], "freezer")) take(mounts.freezer, freezer_whole, head[3], point);
  }
  return mounts;
}

Status check_cgroup_name(const std::string& group) {
  const std::vector<std::string> parts = split(group, '/');
  bool good = parts.size() >= 2 && parts[0] == "mixproof";
  for (const std::string& part : parts) {
    const bool plain =
        std::all_of(part.begin(), part.end(), [](unsigned char c) { return c > ' ' && c < 127; });
    good = good && !part.empty() && part != "." && part != ".." && plain;
  }
  if (good) return ok();
  return Error{Code::kInvalid,
               "cgroup \"" + group + "\" is not below \"mixproof/\": only such groups are ours"};
}

}  // namespace mixproof
