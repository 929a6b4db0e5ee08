// ServerParams: whom a load asks, how, and what answers look like: parameters, and what follows
// from them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/params.h"
#include "probes/inference/arrivals.h"
#include "probes/inference/client.h"
#include "probes/inference/request.h"

namespace mixproof::inference {

class ServerParams {
 public:
  ServerParams();
  Params params();  // bound to this

  // Checks what lies across parameters, resolves the URLs and reads the token. Errors name the URL
  // or the parameter, never the token.
  Status prepare();

  // After prepare().
  const std::vector<Endpoint>& endpoints() const { return endpoints_; }
  const RequestShape& shape() const { return shape_; }
  TlsOptions tls() const { return {.verify = tls_verify_, .ca_file = ca_file_}; }
  Reading reading() const { return {.form = form_, .secret = shape_.bearer}; }
  // What the server must send, of so many tokens asked for; 0 when it may stop when it likes.
  std::int64_t forced_tokens(std::int64_t asked) const;
  bool events_are_tokens() const { return form_.stream && form_.api != Api::kCustom; }
  bool unverified() const;    // TLS to a server whose certificate is not looked at
  Json info() const;          // for the report
  std::string names() const;  // the URLs, for messages

 private:
  std::vector<std::string> urls() const;

  std::string url_, api_ = "chat", ca_file_, token_file_, token_env_, text_at_, tokens_at_;
  std::vector<std::string> urls_;
  Json body_ = nullptr;
  bool tls_verify_ = true;
  RequestShape shape_{.model = "mixproof"};
  AnswerForm form_;
  std::vector<Endpoint> endpoints_;
};

// Which of the requests of one schedule a worker sends, and where each goes. Over any
// workers x targets consecutive requests every worker asks every target once.
struct Share {
  std::int64_t worker = 0, workers = 1, targets = 1;

  bool has(std::int64_t i) const { return i % workers == worker; }
  std::uint32_t target_of(std::int64_t i) const {
    return static_cast<std::uint32_t>((i / workers + i % workers) % targets);
  }
};

// The bytes of each request, for the endpoint that it goes to.
class Requests {
 public:
  Requests(const ServerParams& server, const Share& share);
  // Of request i of the schedule; valid until the next call.
  std::string_view write(const Schedule& schedule, std::int64_t i);
  const std::string& path(std::uint32_t target) const { return writers_[target].path(); }

 private:
  Share share_;
  std::vector<RequestWriter> writers_;
};

}  // namespace mixproof::inference
