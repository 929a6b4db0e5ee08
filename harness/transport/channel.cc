#include "harness/transport/channel.h"

#include <nlohmann/json.hpp>

#include "harness/base/text.h"

namespace mixproof {
namespace {

constexpr std::size_t kBannerLinesMax = 200;
constexpr std::size_t kBannerShown = 5;

}  // namespace

Channel::Channel(World& world, std::string peer, Events events)
    : world_(world), peer_(std::move(peer)), events_(std::move(events)) {}

Channel::~Channel() {
  for (const auto& [id, open] : open_) world_.cancel(open.timer);
}

void Channel::line(std::string_view text) {
  if (broken_) return;
  const bool looks_like_ours = !text.empty() && text.front() == '{';
  Result<Json> message =
      looks_like_ours ? parse_json(text, peer_) : Result<Json>(Error{Code::kInvalid, "banner"});
  if (!greeted_) {
    if (message.ok() && message->contains("mixproof")) {
      greeted_ = true;
      events_.on_handshake(*message);
      return;
    }
    if (banner_.size() >= kBannerLinesMax) return break_off("no handshake in the first 200 lines");
    banner_.emplace_back(text.substr(0, 300));
    return;
  }
  // Past the handshake every line is ours; anything else means that two programs share the line, or
  // that it was cut.
  if (!message.ok()) return break_off("damaged line: " + std::string(text.substr(0, 120)));
  if (const Json* re = member(*message, "re"); re != nullptr && re->is_number_integer()) {
    const auto it = open_.find(re->get<std::int64_t>());
    if (it == open_.end()) return;  // the answer to a request that had timed out
    const Open open = std::move(it->second);
    open_.erase(it);
    world_.cancel(open.timer);
    const Json* error = member(*message, "error");
    if (error != nullptr) return open.then(error_from_json(*error));
    const Json* value = member(*message, "ok");
    return open.then(value == nullptr ? Json::object() : *value);
  }
  events_.on_event(*message);
}

void Channel::ask(Json request, Time deadline, Reply then) {
  const std::int64_t id = next_++;
  const std::string what = text_at(request, "do");
  request["id"] = id;
  const TimerId timer = world_.after(deadline, [this, id, what] {
    const auto it = open_.find(id);
    if (it == open_.end()) return;
    const Reply late = std::move(it->second.then);
    open_.erase(it);
    late(Error{Code::kTimeout, peer_ + " did not answer '" + what + "' in time"});
  });
  open_.emplace(id, Open{timer, std::move(then)});
  const Status sent = child_ == nullptr ? Status(Error{Code::kPeerLost, peer_ + " is gone"})
                                        : child_->send(line_of(request));
  if (sent.ok()) return;
  // Never from within the call: the caller is not ready for its own callback.
  world_.after(Time(0), [this, id, error = sent.error()] {
    const auto it = open_.find(id);
    if (it == open_.end()) return;
    const Open open = std::move(it->second);
    open_.erase(it);
    world_.cancel(open.timer);
    open.then(error);
  });
}

void Channel::fail_all(const Error& error) {
  std::map<std::int64_t, Open> open = std::move(open_);
  open_.clear();
  for (auto& [id, one] : open) {
    world_.cancel(one.timer);
    one.then(error);
  }
}

void Channel::break_off(const std::string& why) {
  broken_ = true;
  events_.on_broken(Error{Code::kCorrupt, peer_ + ": " + why});
}

std::string Channel::banner() const {
  const std::size_t begin = banner_.size() > kBannerShown ? banner_.size() - kBannerShown : 0;
  std::string out;
  for (std::size_t i = begin; i < banner_.size(); ++i)
    out += (out.empty() ? "" : " | ") + banner_[i];
  return out;
}

}  // namespace mixproof
