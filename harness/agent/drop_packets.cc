#include "harness/agent/drop_packets.h"

namespace mixproof {
namespace {

class DropPacketsOperator final : public HostOperator {
 public:
  Result<std::string> preimage(const HostOperation&) override { return nothing(); }
  Status apply(const HostOperation&, std::chrono::nanoseconds) override { return nothing(); }
  Status undo(const HostOperation&, const std::string&) override { return nothing(); }
  Status verify_undone(const HostOperation&) override { return nothing(); }

 private:
  static Error nothing() { return {Code::kUnavailable, "not built"}; }
};

}  // namespace

std::unique_ptr<HostOperator> make_drop_packets(const HostView&) {
  return std::make_unique<DropPacketsOperator>();
}

}  // namespace mixproof
