#include "harness/agent/drop_packets.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/agent/drop_rules.h"
#include "harness/agent/nft.h"
#include "harness/base/text.h"

namespace mixproof {
namespace {

constexpr std::int64_t kGrainMs = 10;  // of a lease: whole ticks of every kernel

std::int64_t whole_ms(std::chrono::nanoseconds lease) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(lease).count();
  return ms / kGrainMs * kGrainMs;
}

class DropPacketsOperator final : public HostOperator {
 public:
  explicit DropPacketsOperator(const HostView& host) : host_(host) {}

  Result<std::string> preimage(const HostOperation& operation) override {
    const DropPackets drop = TRY(ours(operation));
    const std::vector<std::string> names = TRY(tables());
    if (std::find(names.begin(), names.end(), drop.table) != names.end())
      return Error{Code::kConflict, "nft table " + drop.table + " is there already"};
    return "no nft table " + drop.table;
  }

  Status apply(const HostOperation& operation, std::chrono::nanoseconds lease) override {
    const DropPackets drop = TRY(ours(operation));
    const std::int64_t lease_ms = whole_ms(lease);
    if (lease_ms <= 0) return Error{Code::kTimeout, "its lease is over"};
    Nft* nft = TRY(connected());
    const Result<std::string> owned = nft->run(drop_text(drop, lease_ms, true));
    // Before Linux 5.12 tables have no owner; the timer ends the fault by itself all the same.
    if (!owned.ok()) TRY(nft->run(drop_text(drop, lease_ms, false)));
    return verify_lease(drop, lease_ms);
  }

  Status renew(const HostOperation& operation, std::chrono::nanoseconds lease) override {
    const DropPackets drop = TRY(ours(operation));
    const std::int64_t lease_ms = whole_ms(lease);
    if (lease_ms <= 0) return Error{Code::kTimeout, "no lease"};
    Nft* nft = TRY(connected());
    const Result<std::string> renewed = nft->run(renewal_text(drop, lease_ms));
    if (!renewed.ok() && renewed.error().code == Code::kUnavailable)
      return Error{Code::kUnavailable, "its addresses have expired in the kernel"};
    if (!renewed.ok()) return renewed.error();
    return verify_lease(drop, lease_ms);
  }

  Result<Json> counted(const HostOperation& operation) override {
    const DropPackets drop = TRY(ours(operation));
    const DropTable table = TRY(read(drop.table));
    return Json{{"packets", table.packets}, {"bytes", table.bytes}};
  }

  Status undo(const HostOperation& operation, const std::string&) override {
    const DropPackets drop = TRY(here(operation));
    Nft* nft = TRY(connected());
    const Result<std::string> deleted = nft->run("delete table inet " + drop.table + "\n");
    if (deleted.ok() || deleted.error().code == Code::kUnavailable) return ok();
    return Error(deleted.error()).in("delete table " + drop.table);
  }

  // A table without addresses drops nothing, and is left all the same.
  Status verify_undone(const HostOperation& operation) override {
    const DropPackets drop = TRY(here(operation));
    const std::vector<std::string> names = TRY(tables());
    if (std::find(names.begin(), names.end(), drop.table) == names.end()) return ok();
    return Error{Code::kConflict, "nft table " + drop.table + " is still there"};
  }

  Result<std::vector<HostOperation>> strays() override {
    std::vector<HostOperation> out;
    const std::vector<std::string> names = TRY(tables());
    const std::uint64_t net_namespace = TRY(host_.net_namespace());
    for (const std::string& name : names) {
      if (!starts_with(name, kMarkPrefix)) continue;
      const Result<DropTable> table = read(name);
      if (!table.ok() && table.error().code == Code::kUnavailable) continue;  // gone meanwhile
      if (!table.ok()) return table.error();
      // One with an owner is held by a living process, and goes with it.
      if (!table->owned) out.push_back(DropPackets{.net_namespace = net_namespace, .table = name});
    }
    return out;
  }

 private:
  // The socket is in the namespace of its first use, and the process never leaves its own.
  Result<Nft*> connected() {
    if (!nft_) nft_ = TRY(Nft::open());
    return nft_.get();
  }

  // In this namespace; what it was planned for in another one is nothing of ours here.
  Result<DropPackets> here(const HostOperation& operation) const {
    const auto& drop = std::get<DropPackets>(operation);
    const std::uint64_t net_namespace = TRY(host_.net_namespace());
    if (drop.net_namespace != net_namespace)
      return Error{Code::kConflict,
                   format("table %s belongs to network namespace %llu, this is %llu",
                          drop.table.c_str(), static_cast<unsigned long long>(drop.net_namespace),
                          static_cast<unsigned long long>(net_namespace))};
    TRY(check_table_name(drop.table));
    return drop;
  }

  Result<DropPackets> ours(const HostOperation& operation) const {
    const DropPackets drop = TRY(here(operation));
    TRY(check_drop(drop));
    return drop;
  }

  Result<std::vector<std::string>> tables() {
    Nft* nft = TRY(connected());
    const Result<std::string> listing = nft->run("list tables inet\n");
    if (!listing.ok() && listing.error().code == Code::kConflict)
      return Error{Code::kUnavailable, "packet filters may not be used here (CAP_NET_ADMIN): " +
                                           listing.error().message};
    if (!listing.ok() && listing.error().code == Code::kInvalid)
      return Error{Code::kUnavailable, "this kernel has no nf_tables: " + listing.error().message};
    if (!listing.ok()) return listing.error();
    return read_tables(*listing);
  }

  Result<DropTable> read(const std::string& table) {
    Nft* nft = TRY(connected());
    const std::string listing = TRY(nft->run("list table inet " + table + "\n"));
    return read_table(listing);
  }

  Status verify_lease(const DropPackets& drop, std::int64_t lease_ms) {
    const DropTable table = TRY(read(drop.table));
    return check_table(table, drop, lease_ms);
  }

  const HostView& host_;
  std::unique_ptr<Nft> nft_;
};

}  // namespace

std::unique_ptr<HostOperator> make_drop_packets(const HostView& host) {
  return std::make_unique<DropPacketsOperator>(host);
}

}  // namespace mixproof
