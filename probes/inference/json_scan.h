// JsonScan: reads one JSON text (RFC 8259) and tells a handler what it meets, without building a
// document and without allocating: this runs once a token.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "probes/inference/utf8.h"

namespace mixproof::inference {

// Handler: begin_object(), end_object(), begin_array(), end_array(), key(view), string(view),
// integer(int64), scalar() for null, true, false and other numbers. Views last for the call only.
// `scratch` holds strings with escapes; it keeps its capacity from text to text.
template <typename Handler>
class JsonScan {
 public:
  JsonScan(std::string_view text, std::string& scratch, Handler& handler)
      : at_(text.data()), end_(at_ + text.size()), scratch_(scratch), handler_(handler) {}

  // False when the text is not one JSON value: broken UTF-8 and nesting beyond kMaxDepth too.
  bool run() {
    skip_space();
    if (!value(0)) return false;
    skip_space();
    return at_ == end_;
  }

 private:
  static constexpr int kMaxDepth = 512;

  void skip_space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  bool take(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  bool word(std::string_view text) {
    if (std::string_view(at_, static_cast<std::size_t>(end_ - at_)).substr(0, text.size()) != text)
      return false;
    at_ += text.size();
    handler_.scalar();
    return true;
  }

  bool value(int depth) {
    if (at_ == end_ || depth > kMaxDepth) return false;
    switch (*at_) {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"': {
        std::string_view text;
        if (!string(text)) return false;
        handler_.string(text);
        return true;
      }
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'n':
        return word("null");
      default:
        return number();
    }
  }

  bool object(int depth) {
    ++at_;
    handler_.begin_object();
    skip_space();
    if (!take('}')) {
      do {
        skip_space();
        std::string_view name;
        if (!string(name)) return false;
        handler_.key(name);
        skip_space();
        if (!take(':')) return false;
        skip_space();
        if (!value(depth + 1)) return false;
        skip_space();
      } while (take(','));
      if (!take('}')) return false;
    }
    handler_.end_object();
    return true;
  }

  bool array(int depth) {
    ++at_;
    handler_.begin_array();
    skip_space();
    if (!take(']')) {
      do {
        skip_space();
        if (!value(depth + 1)) return false;
        skip_space();
      } while (take(','));
      if (!take(']')) return false;
    }
    handler_.end_array();
    return true;
  }

  bool digits() {
    const char* begin = at_;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9') ++at_;
    return at_ != begin;
  }

  bool number() {
    const char* begin = at_;
    take('-');
    if (!take('0') && !digits()) return false;
    bool whole = true;
    if (take('.')) {
      whole = false;
      if (!digits()) return false;
    }
    if (take('e') || take('E')) {
      whole = false;
      if (!take('+')) take('-');
      if (!digits()) return false;
    }
    std::int64_t value = 0;
    if (whole && std::from_chars(begin, at_, value).ec == std::errc{})
      handler_.integer(value);
    else
      handler_.scalar();
    return true;
  }

  // A view of the input when nothing in it is escaped.
  bool string(std::string_view& out) {
    if (!take('"')) return false;
    const char* begin = at_;
    bool escaped = false;
    while (true) {
      if (at_ == end_) return false;
      const auto c = static_cast<unsigned char>(*at_);
      if (c == '"') break;
      if (c < 0x20) return false;
      if (c == '\\') {
        if (!escaped) scratch_.assign(begin, at_);
        escaped = true;
        if (!escape()) return false;
        continue;
      }
      const std::size_t size = c < 0x80 ? 1 : utf8_length(at_, end_);
      if (size == 0) return false;
      if (escaped) scratch_.append(at_, size);
      at_ += size;
    }
    out = escaped ? std::string_view(scratch_)
                  : std::string_view(begin, static_cast<std::size_t>(at_ - begin));
    ++at_;
    return true;
  }

  bool escape() {
    if (++at_ == end_) return false;
    switch (*at_++) {
      case '"':
        scratch_ += '"';
        return true;
      case '\\':
        scratch_ += '\\';
        return true;
      case '/':
        scratch_ += '/';
        return true;
      case 'b':
        scratch_ += '\b';
        return true;
      case 'f':
        scratch_ += '\f';
        return true;
      case 'n':
        scratch_ += '\n';
        return true;
      case 'r':
        scratch_ += '\r';
        return true;
      case 't':
        scratch_ += '\t';
        return true;
      case 'u':
        return code_point();
      default:
        return false;
    }
  }

  bool hex4(std::uint32_t& out) {
    if (end_ - at_ < 4) return false;
    const auto [end, error] = std::from_chars(at_, at_ + 4, out, 16);
    if (error != std::errc{} || end != at_ + 4) return false;
    at_ += 4;
    return true;
  }

  // Half a surrogate pair alone is valid JSON and no character: U+FFFD stands for it.
  bool code_point() {
    constexpr std::uint32_t kReplacement = 0xFFFD;
    std::uint32_t code = 0;
    if (!hex4(code)) return false;
    if (code >= 0xD800 && code < 0xDC00 && end_ - at_ >= 6 && at_[0] == '\\' && at_[1] == 'u') {
      const char* before = at_;
      at_ += 2;
      std::uint32_t low = 0;
      if (!hex4(low)) return false;
      if (low >= 0xDC00 && low < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      } else {
        at_ = before;
        code = kReplacement;
      }
    } else if (code >= 0xD800 && code < 0xE000) {
      code = kReplacement;
    }
    append_utf8(scratch_, code);
    return true;
  }

  const char *at_, *end_;
  std::string& scratch_;
  Handler& handler_;
};

}  // namespace mixproof::inference
