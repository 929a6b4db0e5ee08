#include "probes/inference/request.h"

#include <netdb.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/base/check.h"
#include "harness/base/json.h"
#include "harness/base/text.h"

namespace mixproof::inference {
namespace {

struct UrlParts {
  std::string host, port, path;
  bool tls = false, bracketed = false;
};

Result<UrlParts> split_url(const std::string& url) {
  const auto wrong = [&](const std::string& why) {
    return Error{Code::kInvalid, "url \"" + url + "\": " + why};
  };
  if (url.empty()) return Error{Code::kInvalid, "no url: the load has no target"};
  constexpr std::string_view kPlain = "http://", kTls = "https://";
  UrlParts parts;
  parts.tls = starts_with(url, kTls);
  if (!parts.tls && !starts_with(url, kPlain)) return wrong("must begin with http:// or https://");
  const std::string rest = url.substr(parts.tls ? kTls.size() : kPlain.size());
  const std::size_t slash = rest.find('/');
  std::string authority = rest.substr(0, slash);
  if (authority.find('@') != std::string::npos)
    return Error{Code::kInvalid,
                 "url: must not hold a user or password; use token_file or token_env"};
  parts.path = slash == std::string::npos ? "" : rest.substr(slash);
  if (parts.path.find_first_of("?# ") != std::string::npos)
    return wrong("must be a base URL, without query or fragment");
  if (!authority.empty() && authority.front() == '[') {
    const std::size_t close = authority.find(']');
    if (close == std::string::npos) return wrong("the bracket of the address is not closed");
    parts.bracketed = true;
    parts.host = authority.substr(1, close - 1);
    authority.erase(0, close + 1);
  } else {
    parts.host = authority.substr(0, authority.find(':'));
    authority.erase(0, parts.host.size());
  }
  if (parts.host.empty()) return wrong("has no host");
  if (!authority.empty() && authority.front() != ':') return wrong("has text behind the address");
  parts.port = !authority.empty() ? authority.substr(1) : parts.tls ? "443" : "80";
  const bool digits = !parts.port.empty() && parts.port.size() <= 5 &&
                      parts.port.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || std::stoi(parts.port) < 1 || std::stoi(parts.port) > 65535)
    return wrong("has no valid port");
  return parts;
}

std::string base_path(std::string base) {
  while (!base.empty() && base.back() == '/') base.pop_back();
  constexpr std::string_view kVersion = "/v1";
  if (base.size() >= kVersion.size() && base.substr(base.size() - kVersion.size()) == kVersion)
    base.resize(base.size() - kVersion.size());
  return base;
}

std::string path_of(const RequestShape& shape) {
  switch (shape.api) {
    case Api::kChat:
      return "/v1/chat/completions";
    case Api::kCompletions:
      return "/v1/completions";
    case Api::kEmbeddings:
      return "/v1/embeddings";
    case Api::kCustom:
      break;
  }
  return (starts_with(shape.path, "/") ? "" : "/") + shape.path;
}

std::string body_of(const RequestShape& shape) {
  if (shape.api == Api::kCustom) return shape.body;
  if (shape.api == Api::kEmbeddings) return line_of({{"model", "{model}"}, {"input", "{prompt}"}});
  Json body = {{"model", "{model}"},
               {"max_tokens", "{answer_tokens}"},
               {"stream", shape.stream},
               {"temperature", 0},
               {"cache_prompt", false}};
  if (shape.stream) body["stream_options"] = {{"include_usage", true}};
  if (shape.ignore_eos) body["ignore_eos"] = true;
  if (shape.api == Api::kChat)
    body["messages"] = Json::array({{{"role", "user"}, {"content", "{prompt}"}}});
  else
    body["prompt"] = "{prompt}";
  return line_of(body);
}

}  // namespace

Result<Endpoint> resolve_endpoint(const std::string& url) {
  const UrlParts parts = TRY(split_url(url));
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(parts.host.c_str(), parts.port.c_str(), &hints, &found);
  if (failure != 0)
    return Error{Code::kUnavailable, "url \"" + url + "\": cannot resolve " + parts.host + ": " +
                                         gai_strerror(failure)};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  Endpoint endpoint;
  endpoint.url = url;
  endpoint.host = (parts.bracketed ? "[" + parts.host + "]" : parts.host) + ":" + parts.port;
  endpoint.name = parts.host;
  endpoint.base_path = base_path(parts.path);
  endpoint.tls = parts.tls;
  CHECK(found->ai_addrlen <= sizeof(endpoint.address));
  std::memcpy(&endpoint.address, found->ai_addr, found->ai_addrlen);
  endpoint.address_size = found->ai_addrlen;
  return endpoint;
}

RequestWriter::RequestWriter(const Endpoint& endpoint, const RequestShape& shape)
    : path_(endpoint.base_path + path_of(shape)) {
  head_ =
      "POST " + path_ + " HTTP/1.1\r\nHost: " + endpoint.host +
      "\r\nUser-Agent: mixproof\r\nContent-Type: application/json\r\nAccept: " +
      (shape.stream && shape.api != Api::kEmbeddings ? "text/event-stream" : "application/json") +
      "\r\nAccept-Encoding: identity\r\n";
  if (!shape.bearer.empty()) head_ += "Authorization: Bearer " + shape.bearer + "\r\n";
  head_ += "Content-Length: ";
  take_apart(body_of(shape), shape.model);
}

// The body's text between what is filled in. What looks like a name in braces and is none of ours
// stays as it is.
void RequestWriter::take_apart(std::string_view body, const std::string& model) {
  const std::string quoted = line_of(Json(model));
  const std::string escaped = quoted.substr(1, quoted.size() - 2);
  const auto text = [this]() -> std::string& {
    if (body_.empty() || body_.back().part != Part::kText) body_.push_back({Part::kText, ""});
    return body_.back().text;
  };
  constexpr std::pair<std::string_view, Part> kNames[] = {{"\"{answer_tokens}\"", Part::kTokens},
                                                          {"{answer_tokens}", Part::kTokens},
                                                          {"{prompt}", Part::kPrompt},
                                                          {"{salt}", Part::kSalt},
                                                          {"{model}", Part::kText}};
  while (!body.empty()) {
    const auto found = std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& name) {
      return body.substr(0, name.first.size()) == name.first;
    });
    if (found == std::end(kNames)) {
      text() += body.front();
      body.remove_prefix(1);
      continue;
    }
    body.remove_prefix(found->first.size());
    if (found->second == Part::kText)
      text() += escaped;
    else
      body_.push_back({found->second, ""});
  }
}

std::string_view RequestWriter::write(std::string_view prompt, std::int64_t answer_tokens) {
  std::array<char, 20> digits{}, size_digits{};
  const auto written = [](std::array<char, 20>& out, auto value) {
    const auto end = std::to_chars(out.data(), out.data() + out.size(), value).ptr;
    return std::string_view(out.data(), static_cast<std::size_t>(end - out.data()));
  };
  const std::string_view tokens = written(digits, answer_tokens);
  const auto text_of = [&](const Piece& piece) -> std::string_view {
    switch (piece.part) {
      case Part::kText:
        return piece.text;
      case Part::kPrompt:
        return prompt;
      case Part::kSalt:
        return prompt.substr(0, prompt.find(' '));
      case Part::kTokens:
        return tokens;
    }
    return {};
  };
  std::size_t size = 0;
  for (const Piece& piece : body_) size += text_of(piece).size();
  request_ = head_;
  request_ += written(size_digits, size);
  request_ += "\r\n\r\n";
  for (const Piece& piece : body_) request_ += text_of(piece);
  return request_;
}

}  // namespace mixproof::inference
