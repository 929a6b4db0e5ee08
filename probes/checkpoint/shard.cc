#include "probes/checkpoint/shard.h"

#include <zlib.h>

#include <array>
#include <bit>
#include <cstring>

#include "harness/base/text.h"
#include "probes/checkpoint/files.h"

namespace mixproof {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::string_view kMagic = "MIXSHARD";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderCrcAt = 44;

using Header = std::array<std::byte, static_cast<std::size_t>(kShardHeaderBytes)>;

std::uint32_t crc_of(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

template <typename T>
void put(Header& header, std::size_t at, std::int64_t value) {
  const T number = static_cast<T>(value);
  std::memcpy(header.data() + at, &number, sizeof number);
}

template <typename T>
std::int64_t get(const Header& header, std::size_t at) {
  T number = 0;
  std::memcpy(&number, header.data() + at, sizeof number);
  return static_cast<std::int64_t>(number);
}

Header encode(const ShardFacts& facts) {
  Header header = {};
  std::memcpy(header.data(), kMagic.data(), kMagic.size());
  put<std::uint32_t>(header, 8, kVersion);
  put<std::uint32_t>(header, 12, facts.key.attempt);
  put<std::uint64_t>(header, 16, facts.key.step);
  put<std::uint32_t>(header, 24, facts.rank);
  put<std::uint32_t>(header, 28, facts.ranks);
  put<std::uint64_t>(header, 32, facts.payload_bytes);
  put<std::uint32_t>(header, 40, facts.checksum);
  put<std::uint32_t>(header, kHeaderCrcAt, crc_of(std::span(header).first(kHeaderCrcAt)));
  return header;
}

Result<ShardFacts> decode(const Header& header, const std::string& path) {
  if (std::memcmp(header.data(), kMagic.data(), kMagic.size()) != 0)
    return Error{Code::kCorrupt, path + " is not a shard"};
  if (get<std::uint32_t>(header, kHeaderCrcAt) != crc_of(std::span(header).first(kHeaderCrcAt)))
    return Error{Code::kCorrupt, path + ": its header is damaged"};
  if (get<std::uint32_t>(header, 8) != kVersion)
    return Error{Code::kCorrupt, path + ": is of another version"};
  return ShardFacts{
      .key = {get<std::uint32_t>(header, 12), get<std::uint64_t>(header, 16)},
      .rank = get<std::uint32_t>(header, 24),
      .ranks = get<std::uint32_t>(header, 28),
      .payload_bytes = get<std::uint64_t>(header, 32),
      .checksum = static_cast<std::uint32_t>(get<std::uint32_t>(header, 40)),
  };
}

Result<ShardFacts> header_of(const UniqueFd& fd, const std::string& path) {
  const std::int64_t size = TRY(size_of(fd, path));
  Header header;
  TRY(read_exactly(fd, path, 0, header));
  const ShardFacts facts = TRY(decode(header, path));
  if (size != kShardHeaderBytes + facts.payload_bytes)
    return Error{Code::kCorrupt,
                 path + format(": is %lld bytes long, should be %lld", static_cast<long long>(size),
                               static_cast<long long>(kShardHeaderBytes + facts.payload_bytes))};
  return facts;
}

std::string words_of(const ShardFacts& facts) {
  return format("rank %lld of %lld at attempt %lld step %lld, %lld bytes with crc32 %08x",
                static_cast<long long>(facts.rank), static_cast<long long>(facts.ranks),
                static_cast<long long>(facts.key.attempt), static_cast<long long>(facts.key.step),
                static_cast<long long>(facts.payload_bytes), facts.checksum);
}

}  // namespace

std::string shard_name(std::int64_t rank, std::int64_t ranks) {
  return format("shard-%05lld-of-%05lld", static_cast<long long>(rank),
                static_cast<long long>(ranks));
}

Result<ShardFacts> write_shard(const std::string& directory, ShardFacts facts,
                               std::span<const std::byte> payload, const std::stop_token& stop) {
  facts.payload_bytes = static_cast<std::int64_t>(payload.size());
  facts.checksum = crc_of(payload);
  const Header header = encode(facts);
  const std::array<std::span<const std::byte>, 2> parts = {std::span<const std::byte>(header),
                                                           payload};
  TRY(write_synced(directory + "/" + shard_name(facts.rank, facts.ranks), parts, stop));
  return facts;
}

Result<ShardFacts> read_shard_header(const std::string& path) {
  const UniqueFd fd = TRY(open_to_read(path));
  return header_of(fd, path);
}

Result<std::vector<std::byte>> read_shard(const std::string& directory,
                                          const ShardFacts& expected) {
  const std::string path = directory + "/" + shard_name(expected.rank, expected.ranks);
  const UniqueFd fd = TRY(open_to_read(path));
  const ShardFacts facts = TRY(header_of(fd, path));
  if (facts != expected)
    return Error{Code::kCorrupt,
                 path + ": is of " + words_of(facts) + ", not of " + words_of(expected)};
  std::vector<std::byte> payload(static_cast<std::size_t>(facts.payload_bytes));
  TRY(read_exactly(fd, path, kShardHeaderBytes, payload));
  if (crc_of(payload) != facts.checksum)
    return Error{Code::kCorrupt, path + ": its payload is damaged"};
  return payload;
}

}  // namespace mixproof
