#include "probes/inference/null_answers.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/base/json.h"
#include "harness/base/text.h"
#include "probes/inference/clock.h"

namespace mixproof::inference {
namespace {

constexpr std::int64_t kMaxTokens = 1'000'000;
constexpr std::array<std::pair<std::string_view, Manner>, 19> kManners = {{
    {"cut", Manner::kCut},
    {"error", Manner::kError},
    {"stall", Manner::kStall},
    {"stall_first", Manner::kStallFirst},
    {"freeze", Manner::kFreeze},
    {"http503", Manner::kHttp503},
    {"close", Manner::kClose},
    {"drop_reused", Manner::kDropReused},
    {"empty", Manner::kEmpty},
    {"html", Manner::kHtml},
    {"short", Manner::kShort},
    {"no_done", Manner::kNoDone},
    {"no_finish", Manner::kNoFinish},
    {"unfinished", Manner::kUnfinished},
    {"until_eof", Manner::kUntilEof},
    {"garbage", Manner::kGarbage},
    {"no_usage", Manner::kNoUsage},
    {"miscount", Manner::kMiscount},
    {"at_once", Manner::kAtOnce},
}};

}  // namespace

Result<NullRequest> parse_null_request(std::string_view body) {
  const Json json = TRY(parse_json(body, "request"));
  NullRequest request;
  request.model = text_at(json, "model", "mixproof");
  // The newer name, which some clients send instead, wins where both are there.
  const std::int64_t asked =
      integer_at(json, "max_completion_tokens", integer_at(json, "max_tokens", 16));
  request.tokens = std::clamp<std::int64_t>(asked, 0, kMaxTokens);
  const std::size_t colon = request.model.find(':');
  const std::string name = request.model.substr(0, colon);
  for (const auto& [known, manner] : kManners)
    if (name == known) request.manner = manner;
  if (colon != std::string::npos)
    request.pause_ns =
        std::clamp(std::atoll(request.model.c_str() + colon + 1), 0LL, 60'000LL) * kMillisecond;
  return request;
}

void NullAnswer::start(const NullRequest& request) {
  request_ = request;
  const bool fewer = request.manner == Manner::kShort || request.manner == Manner::kCut ||
                     request.manner == Manner::kError || request.manner == Manner::kGarbage;
  tokens_ = request.manner == Manner::kEmpty ? 0 : fewer ? request.tokens / 2 : request.tokens;
  const Json head = {{"created", 0},
                     {"id", "null"},
                     {"model", request.model},
                     {"object", "chat.completion.chunk"}};
  prefix_ = line_of(head);
  prefix_.back() = ',';
}

bool NullAnswer::is_stream() const {
  return request_.manner != Manner::kHttp503 && request_.manner != Manner::kHtml;
}

bool NullAnswer::ends_connection() const {
  return request_.manner == Manner::kCut || request_.manner == Manner::kUntilEof;
}

std::string NullAnswer::framed(std::string_view data) const {
  const std::string event = "data: " + std::string(data) + "\n\n";
  if (request_.manner == Manner::kUntilEof) return event;
  return format("%zx\r\n", event.size()) + event + "\r\n";
}

std::string NullAnswer::event(std::string_view delta, std::string_view finish_reason) const {
  std::string json = prefix_;
  json += R"("choices":[{"index":0,"delta":{)";
  json += delta;
  json += R"(},"finish_reason":)";
  json += finish_reason;
  json += "}]}";
  return framed(json);
}

std::string NullAnswer::begin() {
  if (request_.manner == Manner::kHttp503)
    return plain_response(503, "Service Unavailable", "application/json",
                          R"({"error":{"message":"loading model","code":503}})",
                          "Retry-After: 1\r\n");
  if (request_.manner == Manner::kHtml)
    return plain_response(200, "OK", "text/html", "<html><body>Please log in</body></html>");
  std::string head =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n";
  head += request_.manner == Manner::kUntilEof ? "Connection: close\r\n\r\n"
                                               : "Transfer-Encoding: chunked\r\n\r\n";
  return head + event(R"("role":"assistant","content":null)", "null");
}

std::string NullAnswer::token(std::int64_t at_ns) {
  return event(format(R"("content":" %lld")", static_cast<long long>(at_ns)), "null");
}

std::string NullAnswer::end() {
  const Manner manner = request_.manner;
  if (manner == Manner::kCut)
    return "ff\r\ndata: {\"choi";  // a chunk that announces more than it holds
  std::string out;
  if (manner == Manner::kError)
    out += framed(R"({"error":{"message":"out of memory","code":500}})");
  if (manner == Manner::kGarbage) out += framed("{not json");
  const bool finishes = manner != Manner::kNoFinish && manner != Manner::kUnfinished;
  if (finishes) out += event("", manner == Manner::kShort ? R"("stop")" : R"("length")");
  if (manner != Manner::kNoUsage) {
    const auto sent = static_cast<long long>(tokens_ + (manner == Manner::kMiscount ? 1 : 0));
    out += framed(prefix_ + R"("choices":[],"usage":)" +
                  format(R"({"completion_tokens":%lld,"prompt_tokens":1,"total_tokens":%lld}})",
                         sent, sent + 1));
  }
  if (manner != Manner::kNoDone && manner != Manner::kUnfinished) out += framed("[DONE]");
  if (manner != Manner::kUntilEof) out += "0\r\n\r\n";
  return out;
}

std::string plain_response(int status, std::string_view reason, std::string_view type,
                           std::string_view body, std::string_view fields) {
  std::string out = format("HTTP/1.1 %d ", status);
  out += reason;
  out += "\r\nContent-Type: ";
  out += type;
  out += format("\r\nContent-Length: %zu\r\n", body.size());
  out += fields;
  out += "\r\n";
  out += body;
  return out;
}

}  // namespace mixproof::inference
