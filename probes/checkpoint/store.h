// CheckpointStore: the checkpoints of one training on a storage that all its ranks share.
//
//   <directory>/attempt-00000.step-000000000050/shard-00000-of-00002
//                                               shard-00001-of-00002
//                                               complete
//
// `complete` is the completeness marker. It is written last, after every rank's shard is on disk,
// and lists the shards with their sizes and checksums under a checksum of its own. A checkpoint is
// valid when its marker is whole and every shard is the one that the marker lists; anything else
// is torn. So shards of different attempts or steps never form a checkpoint together.
//
// The ranks share files and nothing else here: that all shards are there before complete() is for
// the caller to see to (a barrier). Safe for one process a rank; not for several threads of a rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "harness/base/result.h"
#include "probes/checkpoint/shard.h"

namespace mixproof {

std::string words_of(const CheckpointKey& key);  // "attempt 1 step 50"

// What a rank found out about one checkpoint: the marker and its own shard.
struct SurveyedCheckpoint {
  CheckpointKey key;
  std::string torn;  // why it cannot be used; empty when this rank can
};

class CheckpointStore {
 public:
  CheckpointStore(std::string directory, std::int64_t rank, std::int64_t ranks);

  const std::string& directory() const { return directory_; }
  std::string directory_of(const CheckpointKey& key) const;

  // This rank's part of a checkpoint, durable when it returns. Removes its own file on failure.
  Status save(const CheckpointKey& key, std::span<const std::byte> payload,
              const std::stop_token& stop) const;

  // The marker; by one rank, when save() has succeeded on all. Reads every shard's header first:
  // kCorrupt or kUnavailable when one is not what it should be.
  Status complete(const CheckpointKey& key) const;

  // Removes this rank's part of a checkpoint that failed, and the directory with the last part.
  Status discard(const CheckpointKey& key) const;

  // All checkpoints, the newest first. One whose marker or own shard cannot be read is torn, with
  // the reason: nothing that it finds is an error but a directory that cannot be listed.
  Result<std::vector<SurveyedCheckpoint>> survey() const;

  // This rank's payload of a checkpoint. kCorrupt or kUnavailable when it is torn.
  Result<std::vector<std::byte>> load(const CheckpointKey& key) const;

  // kCorrupt or kUnavailable unless the whole checkpoint is valid, with all its payloads.
  Status verify(const CheckpointKey& key) const;

  // Keeps the newest `keep` checkpoints that have a marker and what is newer than the oldest of
  // those; removes the others, each marker before its shards. By one rank.
  Status prune(int keep) const;

  // Removes every checkpoint here. By one rank, while no other writes.
  Status clear() const;

 private:
  Result<std::vector<CheckpointKey>> keys() const;  // newest first
  Result<std::vector<ShardFacts>> marked(const CheckpointKey& key) const;
  Status remove(const CheckpointKey& key) const;

  std::string directory_;
  std::int64_t rank_, ranks_;
};

// What ranks tell each other to agree: the usable ones of a survey as text, and the newest that all
// ranks named. Nothing when there is none.
std::string usable_text(std::span<const SurveyedCheckpoint> survey);
std::optional<CheckpointKey> newest_of_all(std::span<const std::string> usable_texts);

}  // namespace mixproof
