// ChunkReader: what one chunk of a stream, or a whole body, says; a handler of JsonScan.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "probes/inference/answer.h"

namespace mixproof::inference {

// Follows the open containers of a JSON text and knows whether the next value is the one that a
// path names.
class PathMatch {
 public:
  explicit PathMatch(const JsonPath* path) : path_(path) {}

  // Of a value below `depth` open containers, at `place` (key or index) of the innermost one.
  bool is_target(std::size_t depth, std::string_view place) const {
    return fits(depth, place) && path_->size() == depth;
  }
  void enter(std::size_t depth, std::string_view place) {
    if (fits(depth, place)) matched_ = depth;
  }
  void leave(std::size_t depth) {  // `depth` containers are left open
    if (matched_ >= depth && depth > 0) matched_ = depth - 1;
  }

 private:
  bool fits(std::size_t depth, std::string_view place) const {
    return path_ != nullptr && depth > 0 && depth <= path_->size() && matched_ == depth - 1 &&
           (*path_)[depth - 1] == place;
  }
  const JsonPath* path_;
  std::size_t matched_ = 0;  // segments that the open containers cover
};

class ChunkReader {
 public:
  // `form` may be null: a chat stream.
  ChunkReader(const AnswerForm* form, std::string* text, std::string* message, std::string* key)
      : custom_(form != nullptr && form->api == Api::kCustom),
        text_path_(custom_ ? &form->text : nullptr),
        tokens_path_(custom_ ? &form->tokens : nullptr),
        text_(text),
        message_(message),
        key_(key) {}

  std::uint64_t seen = 0, finished = 0;
  std::int64_t vectors = 0;  // embeddings with content
  bool length_reached = false, error = false, object = false;
  std::int64_t completion_tokens = -1, cached_tokens = -1;

  void scalar() { element(); }
  void begin_object() {
    if (depth_ == 0) object = true;
    enter(false);
    if (at() == At::kError) error = true;
    if (at() == At::kChoice) {
      index_ = 0;
      choice_finished_ = false;
    }
  }
  void end_object() {
    if (at() == At::kChoice) {
      seen |= std::uint64_t{1} << index_;
      if (choice_finished_) finished |= std::uint64_t{1} << index_;
    }
    leave();
  }
  void begin_array() { enter(true); }
  void end_array() { leave(); }
  void key(std::string_view name) { key_->assign(name); }

  void string(std::string_view value) {
    element();
    if (depth_ == 0) return;
    if (custom_ && text_path_.is_target(depth_, place())) text_->append(value);
    const std::string& name = *key_;
    switch (at()) {
      case At::kDelta:
        if (name == "content" || name == "reasoning_content" || name == "reasoning")
          text_->append(value);
        break;
      case At::kFunction:
        if (name == "arguments") text_->append(value);
        break;
      case At::kChoice:
        if (name == "text") text_->append(value);
        if (name == "finish_reason" && !value.empty()) {
          choice_finished_ = true;
          length_reached = value == "length";
        }
        break;
      case At::kRoot:
        if (name == "error") {
          error = true;
          message_->assign(value);
        }
        break;
      case At::kError:
        if (name == "message") message_->assign(value);
        break;
      case At::kDataItem:
        if (name == "embedding" && !value.empty()) ++vectors;  // base64
        break;
      default:
        break;
    }
  }

  void integer(std::int64_t value) {
    element();
    if (depth_ == 0) return;
    if (custom_ && value >= 0 && tokens_path_.is_target(depth_, place())) completion_tokens = value;
    if (at() == At::kChoice && *key_ == "index" && value >= 0 && value < 64)
      index_ = static_cast<unsigned>(value);
    if (at() == At::kUsage && *key_ == "completion_tokens") completion_tokens = value;
    if (at() == At::kPromptDetails && *key_ == "cached_tokens") cached_tokens = value;
  }

 private:
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
    kData,
    kDataItem,
    kVector,
    kOther
  };
  static constexpr std::size_t kDepth = 16;

  At below(At parent, std::string_view name) const {
    switch (parent) {
      case At::kRoot:
        if (name == "error") return At::kError;
        if (custom_) return At::kOther;
        return name == "choices" ? At::kChoices
               : name == "usage" ? At::kUsage
               : name == "data"  ? At::kData
                                 : At::kOther;
      case At::kChoices:
        return At::kChoice;
      case At::kChoice:
        return name == "delta" || name == "message" ? At::kDelta : At::kOther;
      case At::kDelta:
        return name == "tool_calls"      ? At::kToolCalls
               : name == "function_call" ? At::kFunction
                                         : At::kOther;
      case At::kToolCalls:
        return At::kToolCall;
      case At::kToolCall:
        return name == "function" ? At::kFunction : At::kOther;
      case At::kUsage:
        return name == "prompt_tokens_details" ? At::kPromptDetails : At::kOther;
      case At::kError:
        return At::kError;
      case At::kData:
        return At::kDataItem;
      case At::kDataItem:
        return name == "embedding" ? At::kVector : At::kOther;
      default:
        return At::kOther;
    }
  }

  At at() const { return depth_ == 0 || depth_ > kDepth ? At::kOther : path_[depth_ - 1]; }

  void enter(bool array) {
    element();
    const std::string_view where = depth_ == 0 ? std::string_view() : place();
    text_path_.enter(depth_, where);
    tokens_path_.enter(depth_, where);
    const At next = depth_ == 0 ? At::kRoot : below(at(), *key_);
    if (depth_ < kDepth) {
      path_[depth_] = next;
      elements_[depth_] = array ? 0 : -1;
    }
    ++depth_;
  }
  void leave() {
    if (at() == At::kVector && elements_[depth_ - 1] > 0) ++vectors;
    --depth_;
    text_path_.leave(depth_);
    tokens_path_.leave(depth_);
  }
  // A value begins: it is one more of the array that holds it.
  void element() {
    if (depth_ > 0 && depth_ <= kDepth && elements_[depth_ - 1] >= 0) ++elements_[depth_ - 1];
  }
  // Key or index of the value that is being read; nothing below kDepth has a name.
  std::string_view place() {
    if (depth_ > kDepth) return {};
    const std::int64_t count = elements_[depth_ - 1];
    if (count < 0) return *key_;
    const auto end = std::to_chars(digits_.begin(), digits_.end(), count - 1).ptr;
    return {digits_.data(), static_cast<std::size_t>(end - digits_.begin())};
  }

  bool custom_;
  PathMatch text_path_, tokens_path_;
  std::string *text_, *message_, *key_;
  std::array<At, kDepth> path_{};
  std::array<std::int64_t, kDepth> elements_{};  // of the array that is open; -1: an object
  std::array<char, 20> digits_{};
  std::size_t depth_ = 0;
  unsigned index_ = 0;
  bool choice_finished_ = false;
};

}  // namespace mixproof::inference
