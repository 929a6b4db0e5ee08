#include "harness/agent/drop_rules.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <sstream>

#include "harness/base/address.h"
#include "harness/base/text.h"

namespace mixproof {
namespace {

constexpr int kParts = 10000;  // a share is expressed in parts of this
constexpr std::size_t kAddressesMax = 1024, kTableMax = 64;
constexpr std::int64_t kTickMaxMs = 10;  // timeouts are rounded to ticks of 1 to 10 ms

int parts_of(double share) { return static_cast<int>(std::lround(share * kParts)); }

// Once each, by family.
struct Families {
  std::vector<std::string> ipv4, ipv6;
};

Families families_of(const DropPackets& drop) {
  std::set<std::string> all;
  for (const std::string& address : drop.from) all.insert(canonical_address(address));
  Families out;
  for (const std::string& address : all)
    (is_ipv6(address) ? out.ipv6 : out.ipv4).push_back(address);
  return out;
}

std::string elements_text(const std::vector<std::string>& addresses, std::int64_t lease_ms) {
  std::vector<std::string> out;
  for (const std::string& address : addresses)
    out.push_back(format("%s timeout %lldms", address.c_str(), static_cast<long long>(lease_ms)));
  return join(out, ", ");
}

void add_set(std::string& out, const char* name, const char* type,
             const std::vector<std::string>& addresses, std::int64_t lease_ms) {
  if (addresses.empty()) return;
  out += std::string("\tset ") + name + " {\n\t\ttype " + type + "; flags timeout;\n" +
         "\t\telements = { " + elements_text(addresses, lease_ms) + " }\n\t}\n";
}

void add_rule(std::string& out, const char* match, const std::vector<std::string>& addresses,
              double share) {
  if (addresses.empty()) return;
  out += std::string("\t\t") + match;
  if (parts_of(share) < kParts)
    out += format(" numgen random mod %d < %d", kParts, parts_of(share));
  out += " counter name \"dropped\" drop\n";
}

std::string trimmed(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(" \t"), end = line.find_last_not_of(" \t");
  return begin == std::string::npos ? "" : line.substr(begin, end - begin + 1);
}

// "10.77.0.3 timeout 15s expires 14s996ms"
Result<DropElement> read_element(const std::string& text) {
  std::istringstream words(text);
  DropElement element;
  words >> element.address;
  for (std::string key, value; words >> key;) {
    if (key != "timeout" && key != "expires") continue;
    words >> value;
    const std::int64_t ms = TRY(read_time_ms(value));
    (key == "timeout" ? element.timeout_ms : element.left_ms) = ms;
  }
  element.address = canonical_address(element.address);
  if (element.address.empty()) return Error{Code::kCorrupt, "nft listed '" + text + "'"};
  return element;
}

Status read_elements(const std::string& text, DropTable& table) {
  for (const std::string& one : split(text, ',')) {
    const DropElement element = TRY(read_element(trimmed(one)));
    table.elements.push_back(element);
  }
  return ok();
}

Status read_line(const std::string& line, DropTable& table) {
  if (starts_with(line, "flags ") && line.find("owner") != std::string::npos) table.owned = true;
  if (line.ends_with("counter name \"dropped\" drop")) ++table.drop_rules;
  if (!starts_with(line, "packets ")) return ok();
  std::istringstream words(line);
  std::string key;
  if (!(words >> key >> table.packets >> key >> table.bytes) || key != "bytes")
    return Error{Code::kCorrupt, "nft listed '" + line + "'"};
  return ok();
}

}  // namespace

Status check_table_name(const std::string& table) {
  if (starts_with(table, kMarkPrefix) && table.size() <= kTableMax &&
      table.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos)
    return ok();
  return Error{Code::kInvalid, "'" + table + "' is no table name of ours"};
}

Status check_drop(const DropPackets& drop) {
  const auto bad = [](const std::string& why) { return Error{Code::kInvalid, why}; };
  TRY(check_table_name(drop.table));
  if (drop.from.empty() || drop.from.size() > kAddressesMax)
    return bad(format("%zu addresses, must be 1 to %zu", drop.from.size(), kAddressesMax));
  for (const std::string& address : drop.from)
    if (canonical_address(address).empty())
      return bad("'" + address + "' is no address that packets come from");
  if (!(drop.share > 0 && drop.share <= 1) || parts_of(drop.share) < 1)
    return bad(format("a share of %g", drop.share));
  if (drop.spared_port == 0 && drop.spared_address.empty()) return ok();
  if (drop.spared_port < 1 || drop.spared_port > 65535 ||
      canonical_address(drop.spared_address).empty())
    return bad(
        format("'%s' port %d cannot be spared", drop.spared_address.c_str(), drop.spared_port));
  return ok();
}

std::string drop_text(const DropPackets& drop, std::int64_t lease_ms, bool owned) {
  const Families from = families_of(drop);
  const std::string flags = owned ? " { flags owner; }" : "";
  // "create" with more than flags in it makes an empty table and says nothing (1.0.6); hence twice.
  std::string out = "create table inet " + drop.table + flags + "\n" + "table inet " + drop.table +
                    " {\n" + (owned ? "\tflags owner;\n" : "");
  add_set(out, "from4", "ipv4_addr", from.ipv4, lease_ms);
  add_set(out, "from6", "ipv6_addr", from.ipv6, lease_ms);
  out += "\tcounter dropped { }\n\tchain arriving {\n";
  out += "\t\ttype filter hook prerouting priority -300; policy accept;\n";
  if (drop.spared_port != 0) {
    const std::string address = canonical_address(drop.spared_address);
    out += format("\t\t%s saddr %s tcp dport %d accept\n", is_ipv6(address) ? "ip6" : "ip",
                  address.c_str(), drop.spared_port);
  }
  if (!from.ipv6.empty()) out += "\t\ticmpv6 type { 133, 134, 135, 136 } accept\n";
  add_rule(out, "ip saddr @from4", from.ipv4, drop.share);
  add_rule(out, "ip6 saddr @from6", from.ipv6, drop.share);
  return out + "\t}\n}\n";
}

std::string renewal_text(const DropPackets& drop, std::int64_t lease_ms) {
  const Families from = families_of(drop);
  std::string out;
  const auto add = [&](const char* set, const std::vector<std::string>& addresses) {
    if (addresses.empty()) return;
    const std::string place = "element inet " + drop.table + " " + set + " { ";
    out += "delete " + place + join(addresses, ", ") + " }\n";
    out += "add " + place + elements_text(addresses, lease_ms) + " }\n";
  };
  add("from4", from.ipv4);
  add("from6", from.ipv6);
  return out;
}

Result<DropTable> read_table(const std::string& listing) {
  DropTable table;
  std::string elements;
  bool in_elements = false;
  std::istringstream lines(listing);
  for (std::string raw; std::getline(lines, raw);) {
    std::string line = trimmed(raw);
    if (starts_with(line, "elements = {")) {
      in_elements = true;
      line = line.substr(line.find('{') + 1);
    }
    if (!in_elements) {
      TRY(read_line(line, table));
      continue;
    }
    const std::size_t end = line.find('}');
    elements += " " + line.substr(0, end);
    if (end == std::string::npos) continue;
    TRY(read_elements(elements, table));
    elements.clear();
    in_elements = false;
  }
  if (in_elements) return Error{Code::kCorrupt, "nft listed a set without its end"};
  return table;
}

Status check_table(const DropTable& table, const DropPackets& drop, std::int64_t lease_ms) {
  const Families from = families_of(drop);
  const auto wrong = [](const std::string& why) {
    return Error{Code::kSystem, "nft took the rules, and the kernel has others: " + why};
  };
  const int rules = (from.ipv4.empty() ? 0 : 1) + (from.ipv6.empty() ? 0 : 1);
  if (table.drop_rules != rules) return wrong(format("%d of %d rules", table.drop_rules, rules));
  std::set<std::string> wanted(from.ipv4.begin(), from.ipv4.end());
  wanted.insert(from.ipv6.begin(), from.ipv6.end());
  for (const DropElement& element : table.elements) {
    if (wanted.erase(element.address) == 0) return wrong(element.address + " too");
    if (element.timeout_ms <= 0 || std::abs(element.timeout_ms - lease_ms) > kTickMaxMs)
      return wrong(format("%s for %lld ms, not %lld", element.address.c_str(),
                          static_cast<long long>(element.timeout_ms),
                          static_cast<long long>(lease_ms)));
  }
  if (!wanted.empty()) return wrong("nothing of " + *wanted.begin());
  return ok();
}

std::vector<std::string> read_tables(const std::string& listing) {
  constexpr std::string_view kBegin = "table inet ";
  std::vector<std::string> out;
  for (const std::string& line : split(listing, '\n'))
    if (starts_with(line, kBegin)) out.push_back(line.substr(kBegin.size()));
  return out;
}

Result<std::int64_t> read_time_ms(const std::string& text) {
  constexpr std::pair<std::string_view, std::int64_t> kUnits[] = {
      {"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};
  std::int64_t sum = 0;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::int64_t value = 0;
    const auto [after, error] = std::from_chars(at, end, value);
    const std::string_view rest(after, static_cast<std::size_t>(end - after));
    const std::string_view unit = rest.substr(0, rest.find_first_of("0123456789"));
    const auto* const known = std::find_if(std::begin(kUnits), std::end(kUnits),
                                           [unit](const auto& one) { return one.first == unit; });
    if (error != std::errc() || value < 0 || known == std::end(kUnits)) break;
    sum += value * known->second;
    at = after + unit.size();
  }
  if (text.empty() || at != end) return Error{Code::kCorrupt, "nft listed the time '" + text + "'"};
  return sum;
}

}  // namespace mixproof
