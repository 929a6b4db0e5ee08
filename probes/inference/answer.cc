#include "probes/inference/answer.h"

#include <algorithm>

#include "probes/inference/chunk_reader.h"
#include "probes/inference/json_scan.h"

namespace mixproof::inference {
namespace {

constexpr std::size_t kKeptMessage = 4096;
constexpr std::size_t kLeastSecret = 4;  // a shorter beginning of a secret tells nothing

}  // namespace

Result<JsonPath> parse_json_pointer(std::string_view text) {
  const Error wrong{Code::kInvalid,
                    "\"" + std::string(text) + "\" is no JSON pointer like /choices/0/text"};
  JsonPath out;
  if (text.empty()) return out;
  if (text.front() != '/') return wrong;
  for (const char c : text) {
    const bool tilde = !out.empty() && !out.back().empty() && out.back().back() == '~';
    if (tilde) {
      if (c != '0' && c != '1') return wrong;
      // "~0" stands for a tilde: marked as \1 until the end, so that "~01" is "~1".
      out.back().back() = c == '0' ? '\1' : '/';
    } else if (c == '/') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  for (std::string& segment : out) {
    if (!segment.empty() && segment.back() == '~') return wrong;
    std::replace(segment.begin(), segment.end(), '\1', '~');
  }
  return out;
}

void Answer::reset() {
  text_.clear();
  message_.clear();
  choices_seen_ = choices_finished_ = 0;
  done_ = length_reached_ = false;
  completion_tokens_ = -1;
  cached_tokens_ = 0;
}

Answer::Event Answer::take(std::string_view type, std::string_view data) {
  if (done_) return Event::kOther;
  if (data == "[DONE]") {
    done_ = true;
    return Event::kDone;
  }
  text_.clear();
  ChunkReader reader(form_, &text_, &message_, &key_);
  const bool valid = JsonScan(data, scratch_, reader).run() && reader.object;
  if (type == "error" || (valid && reader.error)) {
    if (message_.empty()) message_ = data.substr(0, kKeptMessage);
    return Event::kError;
  }
  if (!valid) {
    message_ = data.substr(0, kKeptMessage);
    return Event::kMalformed;
  }
  choices_seen_ |= reader.seen;
  choices_finished_ |= reader.finished;
  length_reached_ = length_reached_ || reader.length_reached;
  if (reader.completion_tokens >= 0) completion_tokens_ = reader.completion_tokens;
  if (reader.cached_tokens >= 0) cached_tokens_ = reader.cached_tokens;
  const Api api = form_ == nullptr ? Api::kChat : form_->api;
  const bool token = api == Api::kEmbeddings                      ? reader.vectors > 0
                     : api == Api::kCustom && form_->text.empty() ? true
                                                                  : !text_.empty();
  return token ? Event::kToken : Event::kOther;
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string out(text.substr(0, limit));
  for (char& c : out)
    if (c < ' ' || c > '~') c = c == '\n' || c == '\t' || c == '\r' ? ' ' : '?';
  if (text.size() > limit) out += "...";
  return out;
}

std::string without_secret(std::string_view text, std::string_view secret) {
  constexpr std::string_view kMask = "***";
  std::string out(text);
  if (secret.empty()) return out;
  for (std::size_t at = out.find(secret); at != std::string::npos;
       at = out.find(secret, at + kMask.size()))
    out.replace(at, secret.size(), kMask);
  for (std::size_t size = std::min(secret.size() - 1, out.size()); size >= kLeastSecret; --size)
    if (std::string_view(out).substr(out.size() - size) == secret.substr(0, size)) {
      out.replace(out.size() - size, size, kMask);
      break;
    }
  return out;
}

}  // namespace mixproof::inference
