// Beast 1.74 asserts that the last chunk has five bytes; one that comes in parts and is the only
// one has fewer, and is read rightly all the same. A server must not be able to end this process.
#define BOOST_DISABLE_ASSERTS

#include "probes/inference/http.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cctype>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace mixproof::inference {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using beast::error_code;
using beast::string_view;

constexpr std::uint32_t kMaxHeadBytes = 64 * 1024;

std::string text_of(string_view view) { return {view.data(), view.size()}; }

std::string media_type(string_view value) {
  std::string out;
  for (const char c : value.substr(0, value.find(';')))
    if (c != ' ' && c != '\t')
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool is_interim(int status) { return status >= 100 && status < 200 && status != 101; }

class Parser final : public http::basic_parser<false> {
 public:
  Parser() {
    eager(true);
    header_limit(kMaxHeadBytes);
    // No limit: the body is handed on piece by piece, never held. (boost::none refuses every
    // Content-Length in 1.74.)
    body_limit(std::numeric_limits<std::uint64_t>::max());
  }

  std::string* body = nullptr;
  int status = 0;
  std::string reason, content_type, content_encoding, retry_after;

 private:
  void on_request_impl(http::verb, string_view, string_view, int, error_code&) override {}
  void on_response_impl(int code, string_view text, int, error_code&) override {
    status = code;
    reason = text_of(text);
  }
  void on_field_impl(http::field field, string_view, string_view value, error_code&) override {
    if (is_header_done()) return;  // a trailer
    if (field == http::field::content_type) content_type = media_type(value);
    if (field == http::field::content_encoding) content_encoding = media_type(value);
    if (field == http::field::retry_after) retry_after = text_of(value);
  }
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(string_view piece, error_code&) override { return take(piece); }
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, string_view piece, error_code&) override {
    return take(piece);
  }
  void on_finish_impl(error_code&) override {}

  std::size_t take(string_view piece) {
    body->append(piece.data(), piece.size());
    return piece.size();
  }
};

}  // namespace

struct HttpResponse::State {
  std::optional<Parser> parser{std::in_place};
  // Bytes of a head that is not complete; later those the parser wants to see again with more
  // behind them. (Beast takes parts of a head too, but what it then says of a broken one depends on
  // where they were cut.)
  std::string left;
  bool head_passed = false;
  std::string error;
  bool surplus = false;
};

HttpResponse::HttpResponse() : state_(std::make_unique<State>()) {}
HttpResponse::~HttpResponse() = default;
HttpResponse::HttpResponse(HttpResponse&&) noexcept = default;
HttpResponse& HttpResponse::operator=(HttpResponse&&) noexcept = default;

void HttpResponse::reset() {
  state_->parser.emplace();
  state_->left.clear();
  state_->head_passed = false;
  state_->error.clear();
  state_->surplus = false;
}

bool HttpResponse::feed(std::string_view bytes, std::string& body) {
  State& state = *state_;
  state.parser->body = &body;
  if (state.head_passed) return feed_body(bytes);
  state.left.append(bytes);
  constexpr std::string_view kBegin = "HTTP/1.", kEnd = "\r\n\r\n";
  const std::size_t compared = std::min(state.left.size(), kBegin.size());
  const std::size_t end = state.left.find(kEnd);
  const std::size_t size = end == std::string::npos ? state.left.size() : end + kEnd.size();
  if (state.left.compare(0, compared, kBegin, 0, compared) != 0) {
    state.error = "no status line";
    return false;
  }
  if (size > kMaxHeadBytes) {
    state.error = "a head larger than " + std::to_string(kMaxHeadBytes) + " bytes";
    return false;
  }
  if (end == std::string::npos) return true;
  const std::string rest = state.left.substr(size);
  state.left.resize(size);
  state.head_passed = true;
  const std::string head = std::exchange(state.left, std::string());
  return feed_body(head) && (rest.empty() || feed(rest, body));
}

// The head as a whole, and what follows as it comes.
bool HttpResponse::feed_body(std::string_view bytes) {
  State& state = *state_;
  Parser& parser = *state.parser;
  const bool joined = !state.left.empty();
  if (joined) state.left.append(bytes);
  std::string_view rest = joined ? std::string_view(state.left) : bytes;
  while (!rest.empty() && !parser.is_done()) {
    error_code error;
    const std::size_t used = parser.put(boost::asio::const_buffer(rest.data(), rest.size()), error);
    rest.remove_prefix(used);
    if (error == http::error::need_more) break;
    if (error) {
      state.error = error.message();
      return false;
    }
    if (used == 0) break;
  }
  if (parser.is_done() && is_interim(parser.status)) {
    reset();
    return true;
  }
  if (parser.is_done()) {
    state.surplus = state.surplus || !rest.empty();
    rest = {};
  }
  if (joined) {
    state.left.erase(0, state.left.size() - rest.size());
  } else {
    state.left.assign(rest);
  }
  return true;
}

bool HttpResponse::end_of_connection() {
  Parser& parser = *state_->parser;
  if (parser.is_done()) return true;
  if (!parser.got_some()) return false;
  error_code error;
  parser.put_eof(error);
  return !error;
}

bool HttpResponse::head_done() const {
  return state_->parser->is_header_done() && !is_interim(state_->parser->status);
}
bool HttpResponse::framed() const { return head_done() && !state_->parser->need_eof(); }
bool HttpResponse::done() const { return state_->parser->is_done(); }
bool HttpResponse::reusable() const {
  return done() && state_->parser->keep_alive() && !state_->surplus;
}
int HttpResponse::status() const { return head_done() ? state_->parser->status : 0; }
const std::string& HttpResponse::reason() const { return state_->parser->reason; }
const std::string& HttpResponse::content_type() const { return state_->parser->content_type; }
const std::string& HttpResponse::content_encoding() const {
  return state_->parser->content_encoding;
}
const std::string& HttpResponse::retry_after() const { return state_->parser->retry_after; }
const std::string& HttpResponse::error() const { return state_->error; }

}  // namespace mixproof::inference
