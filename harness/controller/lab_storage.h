// The shared storage of a lab: an ext4 in a fully allocated file, on a loop device. Internal to the
// lab.
#pragma once

#include "harness/controller/lab.h"

namespace mixproof {

Status make_storage(const Lab& lab, std::int64_t bytes, const std::string& tools_cgroup);

// Lets writers of a frozen file system go on, so that they can be killed. Not mounted or not frozen
// is success.
void thaw_storage(const std::string& lab_directory);

// Unmounts everything below the lab's directory and waits for its loop device to be free. An
// unmount that is still refused after 2 s is done lazily and reported.
Status clear_storage(const std::string& lab_directory);

Result<std::vector<std::string>> mounts_below(
    const std::string& directory);  // mount points, in the order of mounting
std::vector<std::string> loops_of(const std::string& image);  // "/dev/loop0"

}  // namespace mixproof
