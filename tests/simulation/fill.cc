// The operator of the simulated fill: the node's shared storage, held by the guard's life.
#include <nlohmann/json.hpp>

#include "tests/simulation/simulation.h"

namespace mixproof {
namespace {

class SimFill final : public HostOperator {
 public:
  explicit SimFill(SimProcess& guard) : guard_(guard) {}
  Result<std::string> preimage(const HostOperation&) override { return std::string("a file"); }
  Status apply(const HostOperation&, std::chrono::nanoseconds) override {
    if (!guard_.alive()) return Error{Code::kSystem, "the guard is dead"};
    take();
    return ok();
  }
  bool needs_tending() const override { return true; }
  void tend(const HostOperation&) override { take(); }
  Result<Json> counted(const HostOperation&) override {
    return Json{{"bytes", guard_.node().fills[guard_.pid()]}};
  }
  Status undo(const HostOperation&, const std::string&) override {
    if (!guard_.alive()) return Error{Code::kSystem, "the guard is dead"};
    if (guard_.node().undo_fails) return Error{Code::kSystem, "truncate: Input/output error"};
    if (!guard_.node().undo_lies) guard_.node().fills.erase(guard_.pid());
    return ok();
  }
  Status verify_undone(const HostOperation&) override {
    for (const SimProcess* process : guard_.simulation().living(guard_.node().name))
      if (guard_.node().fills.count(process->pid()) != 0)
        return Error{Code::kConflict, "the file is still held"};
    return ok();
  }

 private:
  void take() {
    const std::int64_t free = guard_.simulation().shared_free(guard_.node());
    if (free > 0) guard_.node().fills[guard_.pid()] += free;
  }
  SimProcess& guard_;
};

}  // namespace

std::shared_ptr<HostOperator> make_sim_fill(SimProcess& process) {
  return std::make_shared<SimFill>(process);
}

}  // namespace mixproof
