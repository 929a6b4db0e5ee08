#include "harness/agent/fill_disk.h"

namespace mixproof {
namespace {

class FillDiskOperator final : public HostOperator {
 public:
  Result<std::string> preimage(const HostOperation&) override { return nothing(); }
  Status apply(const HostOperation&, std::chrono::nanoseconds) override { return nothing(); }
  Status undo(const HostOperation&, const std::string&) override { return nothing(); }
  Status verify_undone(const HostOperation&) override { return nothing(); }

 private:
  static Error nothing() { return {Code::kUnavailable, "not built"}; }
};

}  // namespace

std::unique_ptr<HostOperator> make_fill_disk(const HostView&) {
  return std::make_unique<FillDiskOperator>();
}

}  // namespace mixproof
