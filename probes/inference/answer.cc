#include "probes/inference/answer.h"

#include <array>
#include <nlohmann/json.hpp>

namespace mixproof::inference {
namespace {

using Json = nlohmann::json;

// Where in the chunk the reader is; what it does not know is kOther, with everything below it.
enum class At : std::uint8_t {
  kRoot,
  kChoices,
  kChoice,
  kDelta,
  kToolCalls,
  kToolCall,
  kFunction,
  kUsage,
  kPromptDetails,
  kError,
  kOther
};

At below(At parent, std::string_view key) {
  switch (parent) {
    case At::kRoot:
      return key == "choices" ? At::kChoices
             : key == "usage" ? At::kUsage
             : key == "error" ? At::kError
                              : At::kOther;
    case At::kChoices:
      return At::kChoice;
    case At::kChoice:
      return key == "delta" || key == "message" ? At::kDelta : At::kOther;
    case At::kDelta:
      return key == "tool_calls"      ? At::kToolCalls
             : key == "function_call" ? At::kFunction
                                      : At::kOther;
    case At::kToolCalls:
      return At::kToolCall;
    case At::kToolCall:
      return key == "function" ? At::kFunction : At::kOther;
    case At::kUsage:
      return key == "prompt_tokens_details" ? At::kPromptDetails : At::kOther;
    case At::kError:
      return At::kError;
    default:
      return At::kOther;
  }
}

// Reads one chunk without building a document: this runs once a token.
class ChunkReader {
 public:
  ChunkReader(std::string* text, std::string* message, std::string* key)
      : text_(text), message_(message), key_(key) {}

  std::uint64_t seen = 0, finished = 0;
  bool length_reached = false, error = false, object = false;
  std::int64_t completion_tokens = -1, cached_tokens = -1;

  // The interface that nlohmann's sax_parse calls.
  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(Json::number_integer_t value) { return integer(value); }
  bool number_unsigned(Json::number_unsigned_t value) {
    return integer(static_cast<std::int64_t>(value));
  }
  bool number_float(Json::number_float_t, const Json::string_t&) { return true; }
  bool binary(Json::binary_t&) { return true; }
  bool start_object(std::size_t) {
    if (depth_ == 0) object = true;
    enter();
    if (at() == At::kError) error = true;
    if (at() == At::kChoice) {
      index_ = 0;
      choice_finished_ = false;
    }
    return true;
  }
  bool end_object() {
    if (at() == At::kChoice) {
      seen |= std::uint64_t{1} << index_;
      if (choice_finished_) finished |= std::uint64_t{1} << index_;
    }
    --depth_;
    return true;
  }
  bool start_array(std::size_t) {
    enter();
    return true;
  }
  bool end_array() {
    --depth_;
    return true;
  }
  bool key(Json::string_t& name) {
    key_->assign(name);
    return true;
  }
  bool string(Json::string_t& value) {
    if (depth_ == 0) return true;
    const std::string& key = *key_;
    switch (at()) {
      case At::kDelta:
        if (key == "content" || key == "reasoning_content" || key == "reasoning") *text_ += value;
        break;
      case At::kFunction:
        if (key == "arguments") *text_ += value;
        break;
      case At::kChoice:
        if (key == "text") *text_ += value;
        if (key == "finish_reason" && !value.empty()) {
          choice_finished_ = true;
          length_reached = value == "length";
        }
        break;
      case At::kRoot:
        if (key == "error") {
          error = true;
          *message_ = value;
        }
        break;
      case At::kError:
        if (key == "message") *message_ = value;
        break;
      default:
        break;
    }
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) { return false; }

 private:
  static constexpr std::size_t kDepth = 16;

  At at() const { return depth_ == 0 || depth_ > kDepth ? At::kOther : path_[depth_ - 1]; }
  void enter() {
    const At next = depth_ == 0 ? At::kRoot : below(at(), *key_);
    if (depth_ < kDepth) path_[depth_] = next;
    ++depth_;
  }
  bool integer(std::int64_t value) {
    if (at() == At::kChoice && *key_ == "index" && value >= 0 && value < 64)
      index_ = static_cast<unsigned>(value);
    if (at() == At::kUsage && *key_ == "completion_tokens") completion_tokens = value;
    if (at() == At::kPromptDetails && *key_ == "cached_tokens") cached_tokens = value;
    return true;
  }

  std::string *text_, *message_, *key_;
  std::array<At, kDepth> path_{};
  std::size_t depth_ = 0;
  unsigned index_ = 0;
  bool choice_finished_ = false;
};

}  // namespace

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
  ChunkReader reader(&text_, &message_, &key_);
  const bool valid = Json::sax_parse(data.begin(), data.end(), &reader) && reader.object;
  if (type == "error" || (valid && reader.error)) {
    if (message_.empty()) message_ = printable(data);
    return Event::kError;
  }
  if (!valid) {
    message_ = printable(data);
    return Event::kMalformed;
  }
  choices_seen_ |= reader.seen;
  choices_finished_ |= reader.finished;
  length_reached_ = length_reached_ || reader.length_reached;
  if (reader.completion_tokens >= 0) completion_tokens_ = reader.completion_tokens;
  if (reader.cached_tokens >= 0) cached_tokens_ = reader.cached_tokens;
  return text_.empty() ? Event::kOther : Event::kToken;
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string out(text.substr(0, limit));
  for (char& c : out)
    if (c < ' ' || c > '~') c = c == '\n' || c == '\t' || c == '\r' ? ' ' : '?';
  if (text.size() > limit) out += "...";
  return out;
}

}  // namespace mixproof::inference
