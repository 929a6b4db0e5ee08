#include "probes/inference/sse.h"

namespace mixproof::inference {
namespace {

// Of the first CR or LF. (string_view::find_first_of calls memchr once a byte.)
std::size_t line_end(std::string_view bytes) {
  const std::size_t lf = bytes.find('\n');
  const std::size_t cr = bytes.substr(0, lf).find('\r');
  return cr != std::string_view::npos ? cr : lf;
}

}  // namespace

void SseParser::reset() {
  line_.clear();
  data_.clear();
  type_.clear();
  has_data_ = skip_lf_ = false;
  first_line_ = true;
}

bool SseParser::feed(std::string_view bytes, SseHandler& handler) {
  while (!bytes.empty()) {
    if (skip_lf_) {
      skip_lf_ = false;
      if (bytes.front() == '\n') {
        bytes.remove_prefix(1);
        continue;
      }
    }
    const std::size_t end = line_end(bytes);
    if (end == std::string_view::npos) {
      line_.append(bytes);
      return line_.size() <= kMaxEventBytes;
    }
    const std::string_view piece = bytes.substr(0, end);
    skip_lf_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (line_.empty()) {
      line(piece, handler);
    } else {
      line_.append(piece);
      line(line_, handler);
      line_.clear();
    }
    if (data_.size() > kMaxEventBytes) return false;
  }
  return true;
}

void SseParser::line(std::string_view text, SseHandler& handler) {
  if (first_line_) {
    first_line_ = false;
    if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  }
  if (text.empty()) {  // the end of an event; one without data is no event
    if (has_data_) handler.event(type_, data_);
    data_.clear();
    type_.clear();
    has_data_ = false;
    return;
  }
  const std::size_t colon = text.find(':');
  if (colon == 0) {
    handler.comment();
    return;
  }
  const std::string_view field = text.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  if (field == "data") {
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  } else if (field == "event") {
    type_ = value;
  }
}

}  // namespace mixproof::inference
