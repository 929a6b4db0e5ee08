#include "harness/cli/hands.h"

#include <sys/mman.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "harness/base/build.h"

namespace mixproof {
namespace {

constexpr Time kLeaveDeadline = std::chrono::seconds(12);

}  // namespace

Hands::Hands(RealWorld& world, std::vector<NodeAddress> nodes,
             std::function<void(const Json&)> on_row)
    : world_(world),
      nodes_(std::move(nodes)),
      probes_(
          world,
          [this](const std::string& node, Json request, Time deadline, Channel::Reply then) {
            AgentLink* found = link(node);
            if (found != nullptr) return found->ask(std::move(request), deadline, std::move(then));
            world_.after(Time(0), [node, then = std::move(then)] {
              then(Error{Code::kPeerLost, node + " is lost"});
            });
          },
          std::move(on_row)),
      run_("by-hand-" + std::to_string(world.now(Clock::kUtc).count() / 1'000'000) + "-" +
           std::to_string(::getpid())) {}

Hands::~Hands() = default;

Status Hands::connect() {
  world_.listen({.on_line = {}, .on_end = {}, .on_signal = [this](int) {
                   interrupted_ = true;
                   if (on_interrupt) on_interrupt();
                 }});
  for (const NodeAddress& node : nodes_) {
    const std::string name = node.name;
    links_[name] =
        new_link(name, {.on_ready = [this] { ++ready_; },
                        .on_event = [this, name](const Json& event) { on_event(name, event); },
                        .on_lost =
                            [this, name](const Error& error) {
                              if (!lost_) lost_ = error;
                              probes_.node_lost(name);
                              if (on_lost) on_lost(name);
                            },
                        .on_clock = [] {}});
    links_[name]->connect();
  }
  world_.run_until(
      [this] { return ready_ == static_cast<int>(nodes_.size()) || lost_ || interrupted_; });
  // Nothing was done yet, so that a node that is away is a reason to try later.
  const bool away = lost_ && (lost_->code == Code::kPeerLost || lost_->code == Code::kTimeout);
  if (away) return Error{Code::kRefused, lost_->message};
  if (lost_) return *lost_;
  if (interrupted_) return Error{Code::kRefused, "interrupted"};
  return ok();
}

std::unique_ptr<AgentLink> Hands::new_link(const std::string& node, AgentLink::Events events) {
  // In memory: a command by hand has no directory, and its stderr is for people.
  UniqueFd& file = logs_[node];
  if (!file) file = UniqueFd(::memfd_create("log", MFD_CLOEXEC));
  const std::string log = file ? "/proc/self/fd/" + std::to_string(file.get()) : "";
  for (const NodeAddress& address : nodes_)
    if (address.name == node)
      return std::make_unique<AgentLink>(
          world_, address, LinkOptions{.build = build_digest(), .run = run_, .log = log},
          std::move(events));
  return nullptr;
}

Status Hands::run_until(const std::function<bool()>& done) {
  world_.run_until([&] { return done() || lost_.has_value(); });
  if (!done() && lost_) return *lost_;
  return ok();
}

void Hands::leave() {
  int left = static_cast<int>(links_.size());
  for (const auto& [name, link] : links_) link->leave(kLeaveDeadline, [&left] { --left; });
  world_.run_until([&left] { return left == 0; });
}

AgentLink* Hands::link(const std::string& node) {
  const auto it = links_.find(node);
  return it == links_.end() || !it->second->alive() ? nullptr : it->second.get();
}

void Hands::on_event(const std::string& node, const Json& event) {
  const std::string kind = text_at(event, "event"), what = text_at(event, "what");
  if (kind == "fault" && on_fault) return on_fault(node, event);
  if (probes_.has(what)) probes_.on_event(what, kind, event);
}

}  // namespace mixproof
