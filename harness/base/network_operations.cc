#include "harness/base/network_operations.h"

#include <nlohmann/json.hpp>

#include "harness/base/text.h"

namespace mixproof {

Json fields_of(const DropPackets& drop) {
  return {{"net_namespace", drop.net_namespace},
          {"table", drop.table},
          {"from", drop.from},
          {"share", drop.share},
          {"spared_address", drop.spared_address},
          {"spared_port", drop.spared_port}};
}

Status read_fields(const Json& json, DropPackets& drop) {
  drop = {.net_namespace = unsigned_at(json, "net_namespace"),
          .table = text_at(json, "table"),
          .from = {},
          .share = number_at(json, "share"),
          .spared_address = text_at(json, "spared_address"),
          .spared_port = static_cast<int>(integer_at(json, "spared_port"))};
  if (const Json* from = member(json, "from"); from != nullptr && from->is_array())
    for (const Json& address : *from)
      if (address.is_string()) drop.from.push_back(address.get<std::string>());
  if (drop.table.empty() || drop.from.empty() || !(drop.share > 0 && drop.share <= 1))
    return Error{Code::kCorrupt, "a drop_packets operation without table, addresses or share"};
  return ok();
}

std::string describe(const DropPackets& drop) {
  return format("drop %g %% of the packets that come in from ", drop.share * 100) +
         join(drop.from, ", ") + " (nft table inet " + drop.table + ")";
}

std::string mark_of(const DropPackets& drop) { return drop.table; }

}  // namespace mixproof
