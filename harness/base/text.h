// Small helpers for text that people read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mixproof {

std::string join(std::span<const std::string> parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);  // keeps empty parts
bool starts_with(std::string_view text, std::string_view prefix);
// Every `from` becomes `to`; what `to` holds is not looked at again. `from` must not be empty.
std::string replace_all(std::string text, std::string_view from, std::string_view to);

// The candidate with the smallest edit distance, when it is close enough to be a misspelling; else
// empty.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

std::string sha256_hex(std::string_view bytes);

// "2026-11-30T14:10:40Z" of nanoseconds since the epoch, UTC.
std::string utc_text(std::int64_t ns_since_epoch);

}  // namespace mixproof
