// Writes a little again and again in a directory, into a file without a name that is emptied at
// once: how often that is refused for lack of space. The control of faults that fill a disk.
#include <fcntl.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "harness/base/unique_fd.h"
#include "probes/probe.h"

namespace mixproof {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetween{10};

std::int64_t now_ns() { return nanoseconds(steady_clock::now().time_since_epoch()).count(); }

bool lacks_space(int error) { return error == ENOSPC || error == EDQUOT; }

class FreeSpace final : public Probe {
 public:
  Params params() override {
    return {required(text("path", &path_, "a directory on the file system to look at")),
            number("window_s", &window_s_, "how long to look", {.min = 0.05, .max = 60}),
            integer("write_bytes", &write_bytes_, "of one test write", {.min = 1, .max = 0x1p26}),
            choice("moment", &moment_, "goes into the row", {"before", "during", "after", "now"}),
            choice("control", &control_, "goes into the row", {"positive", "negative", "none"}),
            text("fault", &fault_, "goes into the row")};
  }

  Cost cost() override {
    return {.storage_bytes_per_s = static_cast<double>(write_bytes_) /
                                   std::chrono::duration<double>(kBetween).count()};
  }

  Status prepare(ProbeContext&) override {
    directory_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory_) return system_error("open " + path_);
    bytes_.assign(static_cast<std::size_t>(write_bytes_), 'x');
    return ok();
  }

  Status run(ProbeContext& context) override {
    const std::int64_t begin = now_ns();
    const auto end = steady_clock::now() + std::chrono::duration_cast<nanoseconds>(
                                               std::chrono::duration<double>(window_s_));
    std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0, refused = 0;
    do {
      const std::int64_t free = TRY(free_bytes());
      least = std::min(least, free);
      most = std::max(most, free);
      const bool written = TRY(test_write());
      refused += written ? 0 : 1;
      ++writes_;
      std::this_thread::sleep_for(kBetween);
    } while (steady_clock::now() < end && !context.stop.stop_requested());
    context.rows.row(
        {{"row", "space"},
         {"path", path_},
         {"begin", begin},
         {"end", now_ns()},
         {"free_space", least},
         {"free_space_most", most},
         {"writes", writes_},
         {"refused_share", static_cast<double>(refused) / static_cast<double>(writes_)},
         {"moment", moment_},
         {"control", control_},
         {"fault", fault_}});
    return ok();
  }

  Status check(ProbeContext&) override {
    if (writes_ > 0) return ok();
    return Error{Code::kUnavailable, "nothing was written"};
  }

 private:
  Result<std::int64_t> free_bytes() const {
    struct statvfs space {};
    if (::fstatvfs(directory_.get(), &space) != 0) return system_error("statvfs " + path_);
    return static_cast<std::int64_t>(space.f_bavail) * static_cast<std::int64_t>(space.f_frsize);
  }

  // Opens the file unless it is open; 0, or the number of the error.
  int open_file() {
    if (file_) return 0;
    file_ = UniqueFd(::openat(directory_.get(), ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
    if (file_) return 0;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) return errno;
    std::string name = path_ + "/.mixproof-space-XXXXXX";
    file_ = UniqueFd(::mkostemp(name.data(), O_CLOEXEC));
    if (!file_) return errno;
    ::unlink(name.c_str());
    return 0;
  }

  // False when it was refused for lack of space, be it for the last byte. Any other failure is an
  // error, never "full".
  Result<bool> test_write() {
    // A new file may need space of its own.
    if (const int error = open_file(); error != 0) {
      if (lacks_space(error)) return false;
      return system_error("make a file in " + path_, error);
    }
    bool written = true;
    for (std::size_t at = 0; at < bytes_.size();) {
      const ssize_t count =
          ::pwrite(file_.get(), bytes_.data() + at, bytes_.size() - at, static_cast<off_t>(at));
      if (count > 0) {
        at += static_cast<std::size_t>(count);
      } else if (count < 0 && lacks_space(errno)) {
        written = false;
        break;
      } else if (count == 0 || errno != EINTR) {
        return system_error("write in " + path_);
      }
    }
    if (::ftruncate(file_.get(), 0) != 0) return system_error("empty a file in " + path_);
    return written;
  }

  std::string path_;
  std::int64_t write_bytes_ = 64 << 10;
  double window_s_ = 0.4;
  std::string moment_ = "now", control_ = "none", fault_;
  UniqueFd directory_, file_;
  std::vector<char> bytes_;
  std::int64_t writes_ = 0;
};

constexpr MetricSpec kMetrics[] = {
    {"fs.free_space", "B", Better::kNone,
     "bytes that the file system says are available, the least of the window"},
    {"fs.refused_share", "1", Better::kNone,
     "share of small test writes that are refused for lack of space"},
};

}  // namespace

extern const ProbeSpec free_space_probe;
const ProbeSpec free_space_probe = {
    .name = "free_space",
    .summary = "Whether a file system takes writes: free bytes, and small test writes.",
    .load = false,
    .generator = true,
    .ranks = false,
    .metrics = kMetrics,
    .create = []() -> std::unique_ptr<Probe> { return std::make_unique<FreeSpace>(); },
};

}  // namespace mixproof
