#include "probes/checkpoint/store.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/base/json.h"
#include "harness/base/text.h"
#include "probes/checkpoint/files.h"

namespace mixproof {
namespace {

constexpr const char* kMarker = "complete";
constexpr const char* kMarkerMagic = "mixproof checkpoint 1";
constexpr std::int64_t kMarkerBytesMost = 64 << 20;

std::string folder_name(const CheckpointKey& key) {
  return format("attempt-%05lld.step-%012lld", static_cast<long long>(key.attempt),
                static_cast<long long>(key.step));
}

std::optional<CheckpointKey> key_of(const std::string& folder) {
  long long attempt = 0, step = 0;
  if (std::sscanf(folder.c_str(), "attempt-%lld.step-%lld", &attempt, &step) != 2)
    return std::nullopt;
  const CheckpointKey key{attempt, step};
  if (folder_name(key) != folder) return std::nullopt;
  return key;
}

// One line of JSON and one with its checksum, so that a marker cut at any byte is none.
std::string marker_text(std::span<const ShardFacts> shards) {
  Json list = Json::array();
  for (const ShardFacts& shard : shards)
    list.push_back({{"name", shard_name(shard.rank, shard.ranks)},
                    {"bytes", shard.payload_bytes},
                    {"crc32", shard.checksum}});
  const CheckpointKey key = shards.front().key;
  const std::string body = line_of(
      {{"magic", kMarkerMagic}, {"attempt", key.attempt}, {"step", key.step}, {"shards", list}});
  return body + "\n" + sha256_hex(body) + "\n";
}

Result<std::string> read_text(const std::string& path) {
  const UniqueFd fd = TRY(open_to_read(path));
  const std::int64_t size = TRY(size_of(fd, path));
  if (size > kMarkerBytesMost) return Error{Code::kCorrupt, path + " is too long for a marker"};
  std::string text(static_cast<std::size_t>(size), '\0');
  TRY(read_exactly(fd, path, 0, std::as_writable_bytes(std::span(text))));
  return text;
}

Result<std::vector<ShardFacts>> parse_marker(const std::string& text, const std::string& path,
                                             const CheckpointKey& key, std::int64_t ranks) {
  const Error damaged{Code::kCorrupt, path + " is damaged"};
  const std::size_t end = text.find('\n');
  if (end == std::string::npos) return damaged;
  const std::string body = text.substr(0, end);
  if (text != body + "\n" + sha256_hex(body) + "\n") return damaged;
  const Json marker = TRY(parse_json(body, path));
  const Json* list = member(marker, "shards");
  if (text_at(marker, "magic") != kMarkerMagic || list == nullptr || !list->is_array())
    return Error{Code::kCorrupt, path + " is not a completeness marker of this version"};
  if (CheckpointKey{integer_at(marker, "attempt", -1), integer_at(marker, "step", -1)} != key)
    return Error{Code::kCorrupt, path + " belongs to another checkpoint"};
  if (std::ssize(*list) != ranks)
    return Error{Code::kCorrupt, path + format(": lists %zu shards for %lld ranks", list->size(),
                                               static_cast<long long>(ranks))};
  std::vector<ShardFacts> shards;
  for (const Json& one : *list) {
    const std::int64_t rank = std::ssize(shards);
    if (text_at(one, "name") != shard_name(rank, ranks))
      return Error{Code::kCorrupt, path + ": lists \"" + text_at(one, "name") + "\""};
    shards.push_back({.key = key,
                      .rank = rank,
                      .ranks = ranks,
                      .payload_bytes = integer_at(one, "bytes", -1),
                      .checksum = static_cast<std::uint32_t>(integer_at(one, "crc32"))});
  }
  return shards;
}

}  // namespace

std::string words_of(const CheckpointKey& key) {
  return format("attempt %lld step %lld", static_cast<long long>(key.attempt),
                static_cast<long long>(key.step));
}

CheckpointStore::CheckpointStore(std::string directory, std::int64_t rank, std::int64_t ranks)
    : directory_(std::move(directory)), rank_(rank), ranks_(ranks) {}

std::string CheckpointStore::directory_of(const CheckpointKey& key) const {
  return directory_ + "/" + folder_name(key);
}

Status CheckpointStore::save(const CheckpointKey& key, std::span<const std::byte> payload,
                             const std::stop_token& stop) const {
  const std::string directory = directory_of(key);
  TRY(make_synced_directory(directory));
  TRY(write_shard(directory, {.key = key, .rank = rank_, .ranks = ranks_}, payload, stop));
  return ok();
}

Status CheckpointStore::complete(const CheckpointKey& key) const {
  std::vector<ShardFacts> shards;
  for (std::int64_t rank = 0; rank < ranks_; ++rank) {
    const std::string path = directory_of(key) + "/" + shard_name(rank, ranks_);
    const ShardFacts facts = TRY(read_shard_header(path));
    if (facts.key != key || facts.rank != rank || facts.ranks != ranks_)
      return Error{Code::kCorrupt, path + " is of another rank or checkpoint"};
    shards.push_back(facts);
  }
  const std::string text = marker_text(shards);
  const std::array<std::span<const std::byte>, 1> parts = {std::as_bytes(std::span(text))};
  return write_synced(directory_of(key) + "/" + kMarker, parts, {});
}

Status CheckpointStore::discard(const CheckpointKey& key) const {
  const std::string directory = directory_of(key);
  if (rank_ == 0) TRY(remove_file(directory + "/" + kMarker));
  TRY(remove_file(directory + "/" + shard_name(rank_, ranks_)));
  if (::rmdir(directory.c_str()) == 0 || errno == ENOTEMPTY || errno == ENOENT) return ok();
  return system_error("remove " + directory);
}

Result<std::vector<CheckpointKey>> CheckpointStore::keys() const {
  std::vector<CheckpointKey> out;
  const std::vector<std::string> names = TRY(names_in(directory_));
  for (const std::string& name : names)
    if (const std::optional<CheckpointKey> key = key_of(name)) out.push_back(*key);
  std::sort(out.rbegin(), out.rend());
  return out;
}

Result<std::vector<ShardFacts>> CheckpointStore::marked(const CheckpointKey& key) const {
  const std::string path = directory_of(key) + "/" + kMarker;
  const Result<std::string> text = read_text(path);
  if (!text && text.error().code == Code::kUnavailable)
    return Error{Code::kUnavailable, "no completeness marker"};
  if (!text) return text.error();
  return parse_marker(*text, path, key, ranks_);
}

Result<std::vector<std::byte>> CheckpointStore::load(const CheckpointKey& key) const {
  const std::vector<ShardFacts> shards = TRY(marked(key));
  return read_shard(directory_of(key), shards.at(static_cast<std::size_t>(rank_)));
}

Status CheckpointStore::verify(const CheckpointKey& key) const {
  const std::vector<ShardFacts> shards = TRY(marked(key));
  for (const ShardFacts& shard : shards) TRY(read_shard(directory_of(key), shard));
  return ok();
}

Result<std::vector<SurveyedCheckpoint>> CheckpointStore::survey() const {
  std::vector<SurveyedCheckpoint> out;
  const std::vector<CheckpointKey> all = TRY(keys());
  for (const CheckpointKey& key : all) {
    const auto payload = load(key);
    out.push_back({key, payload ? "" : words_of(key) + ": " + payload.error().message});
  }
  return out;
}

Status CheckpointStore::remove(const CheckpointKey& key) const {
  const std::string directory = directory_of(key);
  // Without its marker a half removed checkpoint is a torn one, never a valid one.
  TRY(remove_file(directory + "/" + kMarker));
  TRY(sync_directory(directory));
  const std::vector<std::string> names = TRY(names_in(directory));
  for (const std::string& name : names) TRY(remove_file(directory + "/" + name));
  if (::rmdir(directory.c_str()) != 0 && errno != ENOENT)
    return system_error("remove " + directory);
  return ok();
}

Status CheckpointStore::prune(int keep) const {
  int kept = 0;
  const std::vector<CheckpointKey> all = TRY(keys());
  for (const CheckpointKey& key : all) {
    if (kept >= keep) {
      TRY(remove(key));
      continue;
    }
    const std::string marker = directory_of(key) + "/" + kMarker;
    if (::access(marker.c_str(), F_OK) == 0) ++kept;
  }
  return ok();
}

Status CheckpointStore::clear() const { return prune(0); }

std::string usable_text(std::span<const SurveyedCheckpoint> survey) {
  std::string out;
  for (const SurveyedCheckpoint& one : survey)
    if (one.torn.empty()) out += folder_name(one.key) + "\n";
  return out;
}

std::optional<CheckpointKey> newest_of_all(std::span<const std::string> usable_texts) {
  std::optional<std::set<CheckpointKey>> common;
  for (const std::string& text : usable_texts) {
    std::set<CheckpointKey> named;
    for (const std::string& line : split(text, '\n'))
      if (const std::optional<CheckpointKey> key = key_of(line))
        if (!common || common->contains(*key)) named.insert(*key);
    common = std::move(named);
  }
  if (!common || common->empty()) return std::nullopt;
  return *common->rbegin();
}

}  // namespace mixproof
