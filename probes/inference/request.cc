#include "probes/inference/request.h"

#include <netdb.h>

#include <array>
#include <charconv>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/base/check.h"
#include "harness/base/json.h"
#include "harness/base/text.h"

namespace mixproof::inference {
namespace {

struct UrlParts {
  std::string host, port, path;
  bool bracketed = false;
};

Result<UrlParts> split_url(const std::string& url) {
  const auto wrong = [&](const std::string& why) {
    return Error{Code::kInvalid, "url \"" + url + "\": " + why};
  };
  if (url.empty()) return Error{Code::kInvalid, "no url: the load has no target"};
  if (starts_with(url, "https://"))
    return wrong("https is not supported; terminate TLS in a proxy beside the client");
  constexpr std::string_view kScheme = "http://";
  if (!starts_with(url, kScheme)) return wrong("must begin with http://");
  const std::string rest = url.substr(kScheme.size());
  const std::size_t slash = rest.find('/');
  std::string authority = rest.substr(0, slash);
  UrlParts parts;
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
  parts.port = authority.empty() ? "80" : authority.substr(1);
  const bool digits = !parts.port.empty() && parts.port.size() <= 5 &&
                      parts.port.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || std::stoi(parts.port) < 1 || std::stoi(parts.port) > 65535)
    return wrong("has no valid port");
  return parts;
}

std::string api_path(std::string base) {
  while (!base.empty() && base.back() == '/') base.pop_back();
  constexpr std::string_view kVersion = "/v1";
  if (base.size() >= kVersion.size() && base.substr(base.size() - kVersion.size()) == kVersion)
    base.resize(base.size() - kVersion.size());
  return base + "/v1/chat/completions";
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
  endpoint.path = api_path(parts.path);
  CHECK(found->ai_addrlen <= sizeof(endpoint.address));
  std::memcpy(&endpoint.address, found->ai_addr, found->ai_addrlen);
  endpoint.address_size = found->ai_addrlen;
  return endpoint;
}

RequestWriter::RequestWriter(const Endpoint& endpoint, const RequestShape& shape) {
  head_ =
      "POST " + endpoint.path + " HTTP/1.1\r\nHost: " + endpoint.host +
      "\r\nUser-Agent: mixproof\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n"
      "Accept-Encoding: identity\r\nContent-Length: ";
  Json rest = {{"model", shape.model},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}},
               {"temperature", 0},
               {"cache_prompt", false}};
  if (shape.ignore_eos) rest["ignore_eos"] = true;
  body_begin_ = R"({"messages":[{"role":"user","content":")";
  body_end_ = "," + line_of(rest).substr(1);
}

std::string_view RequestWriter::write(std::string_view prompt, std::int64_t answer_tokens) {
  constexpr std::string_view kBetween = R"("}],"max_tokens":)";
  std::array<char, 20> digits{};
  const std::string_view tokens(
      digits.data(),
      static_cast<std::size_t>(std::to_chars(digits.begin(), digits.end(), answer_tokens).ptr -
                               digits.begin()));
  request_ = head_;
  request_ += std::to_string(body_begin_.size() + prompt.size() + kBetween.size() + tokens.size() +
                             body_end_.size());
  request_ += "\r\n\r\n";
  request_ += body_begin_;
  request_ += prompt;
  request_ += kBetween;
  request_ += tokens;
  request_ += body_end_;
  return request_;
}

}  // namespace mixproof::inference
