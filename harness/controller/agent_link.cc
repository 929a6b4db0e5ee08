#include "harness/controller/agent_link.h"

#include <sys/wait.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"

namespace mixproof {
namespace {

constexpr int kFirstPings = 8;
constexpr std::size_t kLogLinesShown = 5, kLogLineShown = 300;
// An old estimate ages: clocks of two machines drift apart by up to 50 ppm (common crystal
// tolerance).
constexpr double kDriftPerSecond = 50e-6;

std::string exit_words(int wait_status) {
  if (WIFSIGNALED(wait_status))
    return "was killed by signal " + std::to_string(WTERMSIG(wait_status));
  return "ended with status " + std::to_string(WEXITSTATUS(wait_status));
}

}  // namespace

AgentLink::AgentLink(World& world, NodeAddress node, LinkOptions options, Events events)
    : world_(world),
      node_(std::move(node)),
      options_(std::move(options)),
      events_(std::move(events)),
      channel_(world, "agent " + node_.name,
               {.on_handshake = [this](const Json& handshake) { greet(handshake); },
                .on_event = [this](const Json& event) { events_.on_event(event); },
                .on_broken = [this](const Error& error) { lose(error); }}) {}

AgentLink::~AgentLink() {
  for (const TimerId timer : {connect_timer_, ping_timer_, leave_timer_}) world_.cancel(timer);
}

void AgentLink::connect() {
  ChildSpec spec;
  spec.argv = agent_command(node_);
  spec.log = options_.log;
  if (!options_.log.empty()) {
    const Result<std::string> log = world_.files().read(options_.log);
    log_before_ = log.ok() ? log->size() : 0;
  }
  Result<std::unique_ptr<Child>> child =
      world_.spawn(spec, {.on_line = [this](std::string_view line) { channel_.line(line); },
                          .on_exit = [this](int status) { exited(status); }});
  if (!child.ok()) {
    world_.after(Time(0), [this, error = child.error()] { lose(error); });
    return;
  }
  child_ = std::move(*child);
  channel_.attach(child_.get());
  connect_timer_ = world_.after(options_.connect_deadline, [this] {
    lose({Code::kTimeout, "no agent answered on " + node_.name + said()});
  });
}

void AgentLink::greet(const Json& handshake) {
  handshake_ = handshake;
  const std::string build = text_at(handshake, "build");
  if (build != options_.build)
    return lose({Code::kInvalid, "the agent on " + node_.name + " is of another build (" + build +
                                     ", ours is " + options_.build +
                                     "): install the same mixproof there"});
  const Json hello = {
      {"do", "hello"}, {"run", options_.run}, {"node", node_.name}, {"cgroup", node_.cgroup}};
  channel_.ask(hello, options_.silence_deadline, [this](const Result<Json>& reply) {
    if (!reply.ok()) return lose(reply.error());
    ping(kFirstPings);
  });
}

void AgentLink::ping(int left) {
  const Time asked = world_.now(Clock::kMonotonic);
  channel_.ask({{"do", "ping"}}, options_.silence_deadline,
               [this, asked, left](const Result<Json>& reply) {
                 if (over_) return;
                 if (!reply.ok()) return lose(reply.error());
                 take_pong(asked, *reply);
                 if (left > 1) return ping(left - 1);
                 if (!ready_) {
                   ready_ = true;
                   world_.cancel(connect_timer_);
                   events_.on_ready();
                 }
                 ping_timer_ = world_.after(options_.ping_every, [this] { ping(1); });
               });
}

void AgentLink::take_pong(Time asked, const Json& pong) {
  const Time answered = world_.now(Clock::kMonotonic);
  const Time half = (answered - asked) / 2;
  const Time offset = asked + half - Time(integer_at(pong, "mono_ns"));
  const Time aged = Time(static_cast<std::int64_t>(
      kDriftPerSecond * static_cast<double>(options_.ping_every.count())));
  if (clock_.known) clock_.uncertainty += aged;
  if (clock_.known && half >= clock_.uncertainty) return;
  clock_ = {offset, half, true};
  events_.on_clock();
}

void AgentLink::lose(const Error& error) {
  if (over_) return;
  over_ = true;
  world_.cancel(connect_timer_);
  world_.cancel(ping_timer_);
  world_.cancel(leave_timer_);
  // It may only be cut off: closing its input tells a living agent to revert and leave.
  if (child_) child_->close_input();
  channel_.attach(nullptr);
  channel_.fail_all({Code::kPeerLost, error.message});
  const auto left = std::move(left_);
  left_ = nullptr;
  if (leaving_) {
    if (left) left();
    return;
  }
  events_.on_lost(error);
}

void AgentLink::exited(int wait_status) {
  const std::string words = said();
  const Code code = channel_.greeted() ? Code::kPeerLost : why_no_agent(wait_status, words);
  lose({code, "the agent on " + node_.name + " " + exit_words(wait_status) + words});
}

// The last that came from the node and its transport, as words for an error: what stood before the
// handshake, and what the log has.
std::string AgentLink::said() const {
  std::string text = channel_.greeted() ? "" : channel_.banner();
  const Result<std::string> log =
      options_.log.empty() ? Result<std::string>("") : world_.files().read(options_.log);
  if (log.ok() && log->size() > log_before_) {
    std::vector<std::string> lines;
    for (std::string& line : split(std::string_view(*log).substr(log_before_), '\n')) {
      while (!line.empty() && line.back() == '\r') line.pop_back();  // ssh ends its lines so
      if (!line.empty()) lines.push_back(line.substr(0, kLogLineShown));
    }
    if (lines.size() > kLogLinesShown)
      lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kLogLinesShown));
    text += (text.empty() || lines.empty() ? "" : " | ") + join(lines, " | ");
  }
  return text.empty() ? "" : " (it said: " + text + ")";
}

void AgentLink::leave(Time deadline, std::function<void()> then) {
  if (over_) {
    // Lost, but what started it may still be there (a frozen agent holds its launcher): it must not
    // outlast the run.
    if (child_) child_->kill(SIGKILL);
    return then();
  }
  leaving_ = true;
  left_ = std::move(then);
  world_.cancel(ping_timer_);
  channel_.ask({{"do", "bye"}}, deadline, [](const Result<Json>&) {});
  leave_timer_ = world_.after(deadline, [this] {
    if (child_) child_->kill(SIGKILL);
    lose({Code::kTimeout, "the agent did not leave in time"});
  });
}

}  // namespace mixproof
