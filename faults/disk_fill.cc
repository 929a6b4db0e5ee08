// Takes every free block of one file system, so that whoever writes there meets "No space left on
// device". The blocks belong to a file without a name: the kernel frees them when its holder dies.
#include "faults/fault.h"
#include "harness/base/text.h"

namespace mixproof {
namespace {

constexpr const char* kResidualLife =
    "none: the kernel frees a file without a name when the guard dies";
constexpr std::int64_t kTestBytes = 4096;
// Blocks that others free while it is in effect stay free until the guard's next look.
constexpr double kRefusedLeast = 0.9;
// Two looks at one storage, one after the other, differ by what was written between them.
constexpr std::int64_t kSameWithin = std::int64_t{16} << 20;

// The directory, or while it is not made yet the nearest one above it, where it will be.
Result<std::string> standing(const HostView& host, std::string directory) {
  while (true) {
    const Result<FileSystem> found = host.file_system(directory);
    if (found.ok()) return directory;
    if (found.error().code != Code::kUnavailable || directory.size() <= 1) return found.error();
    const std::size_t slash = directory.rfind('/');
    directory = slash == 0 || slash == std::string::npos ? "/" : directory.substr(0, slash);
  }
}

bool same_device(const FileSystem& one, const FileSystem& two) { return one.device == two.device; }

// An overlay over a disk, or two subvolumes of a pool, have devices of their own and one storage:
// they show the same room.
bool same_room(const FileSystem& one, const FileSystem& two) {
  const std::int64_t apart = one.free_bytes - two.free_bytes;
  return one.bytes == two.bytes && apart <= kSameWithin && apart >= -kSameWithin;
}

class DiskFill final : public Fault {
 public:
  Params params() override {
    return {text("path", &path_,
                 "a directory on the file system to fill; the default is the shared storage of a "
                 "lab's nodes")};
  }

  Result<FaultPlan> plan(const HostView& host, const Target& target) override {
    if (path_.empty() || path_.front() != '/')
      return Error{Code::kInvalid, "disk_fill: path '" + path_ + "' is not absolute"};
    if (target.kept_out.empty())
      return Error{Code::kInvalid,
                   "nothing says which file systems of " + target.words + " must stay writable"};
    const FileSystem victim = TRY(host.file_system(path_));
    std::string stays;
    for (const std::string& directory : target.kept_out) {
      stays = TRY(standing(host, directory));
      const FileSystem kept = TRY(host.file_system(stays));
      if (same_device(victim, kept))
        return Error{Code::kInvalid, path_ + " is on the same file system as " + directory +
                                         ", which no fault may touch"};
      if (same_room(victim, kept))
        return Error{Code::kInvalid, path_ + " seems to be on the same storage as " + directory +
                                         ", which no fault may touch: both have the same size and "
                                         "the same room"};
    }
    FaultPlan plan;
    plan.steps.push_back({When::kInject, FillDisk{path_, victim.device}, Lease::kKernel});
    plan.touches.push_back(
        format("%lld free of %lld bytes of the file system at %s, for everyone "
               "who writes there",
               static_cast<long long>(victim.free_bytes), static_cast<long long>(victim.bytes),
               path_.c_str()));
    plan.controls.push_back(control(true, path_));
    plan.controls.push_back(control(false, stays));
    plan.residual_life = kResidualLife;
    return plan;
  }

 private:
  static Control control(bool positive, const std::string& path) {
    return {.positive = positive,
            .probe = "free_space",
            .metric = "fs.refused_share",
            .of = positive ? "target" : "others",
            .low = positive ? kRefusedLeast : 0,
            .high = positive ? 1.0 : 0,
            .params = {{"path", path}, {"write_bytes", kTestBytes}}};
  }

  std::string path_ = "/run/mixproof/shared";
};

}  // namespace

extern const FaultSpec disk_fill_fault;
const FaultSpec disk_fill_fault = {
    .name = "disk_fill",
    .summary =
        "Takes every free block of a file system, and blocks that become free meanwhile; they are "
        "free again when the guard lets go or dies.",
    .residual_life = kResidualLife,
    .hits = Hits::kNode,
    .effect = Effect::kSustained,
    .tier = 2,
    .create = []() -> std::unique_ptr<Fault> { return std::make_unique<DiskFill>(); },
};

}  // namespace mixproof
