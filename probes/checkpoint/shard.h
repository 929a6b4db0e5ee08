// Shard: what one rank saves in one checkpoint: a header that says whose it is, and a payload under
// a checksum.
//
// Format, version 1, integers little-endian:
//    0  "MIXSHARD"          8  version u32     12  attempt u32      16  step u64
//   24  rank u32           28  ranks u32       32  payload bytes u64
//   40  crc32 of the payload u32               44  crc32 of bytes 0 to 43 u32
//   48  payload
// crc32 is that of zlib (ISO 3309). The file ends with its payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "harness/base/result.h"

namespace mixproof {

// Of one checkpoint. A later attempt is newer whatever its step: it began from what it could read.
struct CheckpointKey {
  std::int64_t attempt = 0, step = 0;
  friend auto operator<=>(const CheckpointKey&, const CheckpointKey&) = default;
};

struct ShardFacts {
  CheckpointKey key;
  std::int64_t rank = 0, ranks = 1, payload_bytes = 0;
  std::uint32_t checksum = 0;
  friend bool operator==(const ShardFacts&, const ShardFacts&) = default;
};

inline constexpr std::int64_t kShardHeaderBytes = 48;

std::string shard_name(std::int64_t rank, std::int64_t ranks);  // "shard-00001-of-00002"

// Writes the shard into `directory` under a temporary name, syncs it, gives it its name and syncs
// the directory: when this succeeds, the shard outlives a crash. On failure (also when stopped:
// kRefused) nothing of it is left. `checksum` and `payload_bytes` of `facts` are filled in.
Result<ShardFacts> write_shard(const std::string& directory, ShardFacts facts,
                               std::span<const std::byte> payload, const std::stop_token& stop);

// The header alone, checked against itself and the size of the file. kUnavailable when there is no
// such file, kCorrupt when it is torn or damaged.
Result<ShardFacts> read_shard_header(const std::string& path);

// The payload. kCorrupt unless the shard is the one that `expected` describes, byte for byte.
Result<std::vector<std::byte>> read_shard(const std::string& directory, const ShardFacts& expected);

}  // namespace mixproof
