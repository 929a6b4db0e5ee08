// Channel: one JSON object a line with an agent: a handshake, requests with replies and deadlines,
// and events.
//
//   agent:      any banner of the transport (motd, module loads), kept for errors
//   agent:      {"mixproof": "agent", "build": "<digest>", ...}            handshake
//   controller: {"id": 7, "do": "ping"}        agent: {"re": 7, "ok": {...}} or {"re": 7, "error":
//   {"code", "message"}} agent:      {"event": "row", ...}          at any time after the handshake
//
// Not thread-safe; callbacks come from the World's loop.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/json.h"
#include "harness/base/world.h"

namespace mixproof {

class Channel {
 public:
  using Reply = std::function<void(Result<Json>)>;

  struct Events {
    std::function<void(const Json&)> on_handshake;  // once
    std::function<void(const Json&)> on_event;
    std::function<void(Error)> on_broken;  // once: the peer does not speak the protocol
  };

  Channel(World& world, std::string peer, Events events);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  void attach(Child* child) { child_ = child; }  // where requests go; null: nowhere
  void line(std::string_view text);              // from the peer

  // `then` is called exactly once: with the reply, with the peer's error, or with kTimeout or
  // kPeerLost.
  void ask(Json request, Time deadline, Reply then);
  void fail_all(const Error& error);  // every open request

  bool greeted() const { return greeted_; }
  std::string banner() const;  // what came before the handshake, for an error message

 private:
  struct Open {
    TimerId timer;
    Reply then;
  };
  void break_off(const std::string& why);

  World& world_;
  std::string peer_;
  Events events_;
  Child* child_ = nullptr;
  std::map<std::int64_t, Open> open_;
  std::int64_t next_ = 1;
  std::vector<std::string> banner_;
  bool greeted_ = false, broken_ = false;
};

}  // namespace mixproof
