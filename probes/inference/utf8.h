// UTF-8, as RFC 3629 defines it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace mixproof::inference {

// Of the character at `at`; 0 when the bytes are none: cut short, overlong, a surrogate, beyond
// U+10FFFF.
inline std::size_t utf8_length(const char* at, const char* end) {
  const auto byte = [at](std::size_t i) { return static_cast<unsigned char>(at[i]); };
  const auto left = static_cast<std::size_t>(end - at);
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  if (left == 0) return 0;
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return left >= 2 && tail(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (left < 3 || !tail(1) || !tail(2)) return 0;
    if (first == 0xE0 && byte(1) < 0xA0) return 0;
    return first == 0xED && byte(1) > 0x9F ? 0 : 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (left < 4 || !tail(1) || !tail(2) || !tail(3)) return 0;
    if (first == 0xF0 && byte(1) < 0x90) return 0;
    return first == 0xF4 && byte(1) > 0x8F ? 0 : 4;
  }
  return 0;
}

inline void append_utf8(std::string& out, std::uint32_t code) {
  const auto add = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | (code >> 6));
    add(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    add(0xE0 | (code >> 12));
    add(0x80 | ((code >> 6) & 0x3F));
    add(0x80 | (code & 0x3F));
  } else {
    add(0xF0 | (code >> 18));
    add(0x80 | ((code >> 12) & 0x3F));
    add(0x80 | ((code >> 6) & 0x3F));
    add(0x80 | (code & 0x3F));
  }
}

}  // namespace mixproof::inference
