// AgentLink: the controller's end of one agent: started through a transport, greeted, its clock
// followed, its silence noticed. Used from the World's loop only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "harness/base/world.h"
#include "harness/transport/channel.h"
#include "harness/transport/launcher.h"

namespace mixproof {

// controller time = node time + offset, both CLOCK_MONOTONIC; true within +- uncertainty (half the
// round trip).
struct ClockEstimate {
  Time offset{0}, uncertainty{0};
  bool known = false;
};

struct LinkOptions {
  std::string build;  // an agent of another build is refused
  std::string run;    // id
  std::string log;    // file for what the transport and the agent write to stderr
  Time connect_deadline = std::chrono::seconds(20);
  Time silence_deadline =
      std::chrono::seconds(5);  // after this long without an answer the node is lost
  Time ping_every = std::chrono::seconds(1);
};

class AgentLink {
 public:
  struct Events {
    std::function<void()> on_ready;  // greeted, clock known
    std::function<void(const Json&)> on_event;
    std::function<void(const Error&)> on_lost;  // once; also when it never became ready
    std::function<void()> on_clock;             // a better estimate
  };

  AgentLink(World& world, NodeAddress node, LinkOptions options, Events events);
  ~AgentLink();

  void connect();
  void ask(Json request, Time deadline, Channel::Reply then) {
    channel_.ask(std::move(request), deadline, std::move(then));
  }
  // Expected from now on: ends without on_lost. `then` when it is gone, or has been killed after
  // the deadline.
  void leave(Time deadline, std::function<void()> then);

  const NodeAddress& node() const { return node_; }
  bool alive() const { return ready_ && !over_; }
  const ClockEstimate& clock() const { return clock_; }
  Time to_controller(std::int64_t node_ns) const { return Time(node_ns) + clock_.offset; }
  std::int64_t to_node(Time controller) const { return (controller - clock_.offset).count(); }
  const Json& handshake() const { return handshake_; }

 private:
  void greet(const Json& handshake);
  void ping(int left);
  void take_pong(Time asked, const Json& pong);
  void lose(const Error& error);
  void exited(int wait_status);
  std::string said() const;

  World& world_;
  NodeAddress node_;
  LinkOptions options_;
  Events events_;
  Channel channel_;
  std::unique_ptr<Child> child_;
  ClockEstimate clock_;
  Json handshake_;
  std::size_t log_before_ = 0;  // bytes that others had written to the log
  TimerId connect_timer_ = 0, ping_timer_ = 0, leave_timer_ = 0;
  std::function<void()> left_;
  bool ready_ = false, over_ = false, leaving_ = false;
};

}  // namespace mixproof
