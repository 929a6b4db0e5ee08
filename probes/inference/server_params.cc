#include "probes/inference/server_params.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "probes/inference/token.h"

namespace mixproof::inference {

ServerParams::ServerParams() { body_ = Json::object(); }

Params ServerParams::params() {
  const Params custom = {
      required(text("path", &shape_.path, "of the endpoint, behind the path of the URL")),
      required(any("body", &body_,
                   "the request: in its texts {prompt}, {salt}, {model} and {answer_tokens} are "
                   "filled in; a text that is {answer_tokens} alone becomes the number")),
      text("text_at", &text_at_,
           "JSON pointer to the text in an event, or in a whole answer; empty: every event is "
           "taken for one with text"),
      text("tokens_at", &tokens_at_, "JSON pointer to the server's count of tokens")};
  return {
      text("url", &url_, "base URL of the server; filled in from the load's target"),
      texts("urls", &urls_,
            "base URLs of several servers, instead of one: requests go round them in turn"),
      text("model", &shape_.model, "name of the model to ask for"),
      one_of("api", &api_,
             "what is asked: chat completions, completions, embeddings, or an endpoint of any "
             "other server that takes and answers JSON",
             {{"chat", {}}, {"completions", {}}, {"embeddings", {}}, {"custom", custom}}),
      flag("stream", &shape_.stream,
           "answers come as server-sent events; false: whole, and the first token is there when "
           "the body is. Embeddings are always whole"),
      flag("ignore_eos", &shape_.ignore_eos,
           "ask the server to send exactly answer_tokens; fewer are then SHORT"),
      text("token_file", &token_file_,
           "file on the load's node whose first line is the bearer token; the token is never "
           "recorded"),
      text("token_env", &token_env_,
           "environment variable of the load's node (of the agent there) that holds the bearer "
           "token"),
      flag("tls_verify", &tls_verify_,
           "whether the certificate of an https server must be valid and name the host"),
      text("ca_file", &ca_file_,
           "PEM file on the load's node with the authorities to trust, instead of the system's"),
  };
}

std::vector<std::string> ServerParams::urls() const {
  return urls_.empty() ? std::vector<std::string>{url_} : urls_;
}

Status ServerParams::prepare() {
  if (!urls_.empty() && !url_.empty() && url_ != urls_.front())
    return Error{Code::kInvalid, "url and urls exclude each other"};
  shape_.api = api_ == "completions"  ? Api::kCompletions
               : api_ == "embeddings" ? Api::kEmbeddings
               : api_ == "custom"     ? Api::kCustom
                                      : Api::kChat;
  if (shape_.api == Api::kEmbeddings) shape_.stream = false;
  if (shape_.api == Api::kCustom) shape_.body = line_of(body_);
  form_ = {.api = shape_.api, .stream = shape_.stream, .text = {}, .tokens = {}};
  form_.text = TRY(parse_json_pointer(text_at_));
  form_.tokens = TRY(parse_json_pointer(tokens_at_));
  shape_.bearer = TRY(read_token(token_file_, token_env_));
  endpoints_.clear();
  for (const std::string& url : urls()) {
    Endpoint endpoint = TRY(resolve_endpoint(url));
    endpoints_.push_back(std::move(endpoint));
  }
  return ok();
}

std::int64_t ServerParams::forced_tokens(std::int64_t asked) const {
  const bool asks = shape_.api == Api::kChat || shape_.api == Api::kCompletions;
  return asks && shape_.ignore_eos ? asked : 0;
}

bool ServerParams::unverified() const {
  return !tls_verify_ && std::any_of(endpoints_.begin(), endpoints_.end(),
                                     [](const Endpoint& endpoint) { return endpoint.tls; });
}

std::string ServerParams::names() const { return join(urls(), ", "); }

Json ServerParams::info() const {
  Json out = {{"url", urls().front()},
              {"model", shape_.model},
              {"api", api_},
              {"stream", shape_.stream},
              {"authorization", shape_.bearer.empty() ? "none" : "bearer"}};
  if (urls().size() > 1) out["urls"] = urls();
  const bool tls = std::any_of(endpoints_.begin(), endpoints_.end(),
                               [](const Endpoint& endpoint) { return endpoint.tls; });
  if (tls) out["tls"] = {{"verify", tls_verify_}, {"ca", ca_file_.empty() ? "system" : ca_file_}};
  return out;
}

Requests::Requests(const ServerParams& server, const Share& share) : share_(share) {
  for (const Endpoint& endpoint : server.endpoints())
    writers_.emplace_back(endpoint, server.shape());
}

std::string_view Requests::write(const Schedule& schedule, std::int64_t i) {
  const Arrival& arrival = schedule.arrivals[static_cast<std::size_t>(i)];
  return writers_[share_.target_of(i)].write(prompt_text(schedule, arrival), arrival.answer_tokens);
}

}  // namespace mixproof::inference
