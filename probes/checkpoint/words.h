// Words: bytes that follow from a key and their place, so that any part of them can be checked
// alone. They neither compress nor repeat, as parameters and training data do not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "harness/base/random.h"

namespace mixproof {

// The n-th draw of a SplitMix64 generator, which counts, so that it is reached directly.
inline std::uint64_t keyed_word(std::uint64_t key, std::uint64_t n) {
  return Random(key + n * 0x9e3779b97f4a7c15ULL).next();
}

// Words from the `first` on; `bytes` need not be a multiple of 8.
inline void fill_words(std::uint64_t key, std::uint64_t first, std::span<std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof first, ++first) {
    const std::uint64_t word = keyed_word(key, first);
    std::memcpy(bytes.data() + at, &word, std::min(sizeof word, bytes.size() - at));
  }
}

// Where the first wrong word begins; nothing when all are right.
inline std::optional<std::size_t> wrong_word(std::uint64_t key, std::uint64_t first,
                                             std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof first, ++first) {
    const std::uint64_t word = keyed_word(key, first);
    if (std::memcmp(bytes.data() + at, &word, std::min(sizeof word, bytes.size() - at)) != 0)
      return at;
  }
  return std::nullopt;
}

}  // namespace mixproof
