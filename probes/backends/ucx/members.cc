#include "probes/backends/ucx/members.h"

#include <algorithm>
#include <set>

#include "harness/base/text.h"
#include "probes/backends/lanes.h"

namespace mixproof {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLook{100};       // how often a waiting rank looks at its stop token
constexpr milliseconds kStopGrace{500};  // what a stop leaves to what is under way
constexpr milliseconds kFarewell{300};   // how long who leaves waits for the others to hear why
constexpr milliseconds kStopFarewell{100};
constexpr milliseconds kLongestRollCall{1000};
constexpr int kNoteProgress = 1000;

// Tags: bit 63 = note, bits 56 to 62 its kind, bits 32 to 55 the sender, bits 0 to 31 the sequence
// number of data.
constexpr ucp_tag_t kNoteBit = 1ULL << 63U;

ucp_tag_t data_tag(int from, std::uint32_t sequence) {
  return static_cast<ucp_tag_t>(from) << 32U | sequence;
}

std::string name_ranks(const std::vector<int>& ranks) {
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(std::to_string(rank));
  return (ranks.size() == 1 ? "rank " : "ranks ") + join(names, ", ");
}

// Ranks must run the same library version and transport: others speak another wire format.
std::string header_of(const std::string& transport) {
  return format("ucx %s %s\n", ucx_version(), transport.c_str());
}

}  // namespace

Result<std::unique_ptr<Members>> Members::create(const CommunicatorOptions& options) {
  Session session = TRY(Session::create(options));
  return std::unique_ptr<Members>(new Members(options, std::move(session)));
}

Members::Members(const CommunicatorOptions& options, Session session)
    : options_(options),
      session_(std::move(session)),
      peers_(static_cast<std::size_t>(options.size)) {
  address_ = header_of(options_.transport) + session_.address();
}

Members::~Members() {
  if (!ended_) leave({Leave::kOther, -1});
}

Status Members::check_address(int rank, const std::string& address) const {
  const std::string own = header_of(options_.transport);
  if (starts_with(address, own)) return ok();
  const std::size_t end = std::min(address.find('\n'), std::size_t{60});
  if (!starts_with(address, "ucx ") || end == std::string::npos)
    return Error{Code::kInvalid, format("the address of rank %d is not one of UCX", rank)};
  return Error{Code::kInvalid, format("rank %d runs \"%s\", rank %d runs \"%s\"", rank,
                                      address.substr(0, end).c_str(), options_.rank,
                                      own.substr(0, own.size() - 1).c_str())};
}

Result<Outcome> Members::connect(std::span<const std::string> addresses, const Patience& patience) {
  if (addresses.size() != peers_.size())
    return Error{Code::kInvalid,
                 format("%zu addresses for %zu ranks", addresses.size(), peers_.size())};
  for (int rank = 0; rank < options_.size; ++rank) {
    if (rank == options_.rank) continue;
    const std::string& address = addresses[static_cast<std::size_t>(rank)];
    TRY(check_address(rank, address));
    auto endpoint = Endpoint::create(session_.worker(), address.substr(address.find('\n') + 1));
    if (!endpoint) return std::move(endpoint).error().in(format("reach rank %d", rank));
    peers_.at(static_cast<std::size_t>(rank)).endpoint = std::move(endpoint).value();
  }
  tell_all(Kind::kHello, {});
  const auto all_greeted = [this] {
    return std::all_of(peers_.begin(), peers_.end(),
                       [](const Peer& peer) { return !peer.endpoint || peer.greeted; });
  };
  const Outcome outcome = TRY(wait(all_greeted, patience, "connect"));
  if (outcome != Outcome::kDone || options_.size == 1) return outcome;
  Result<std::string> used = transport();
  if (!used) return fail(std::move(used).error(), -1);
  return outcome;
}

Result<std::string> Members::transport() const {
  std::set<std::string> used;
  for (const Peer& peer : peers_) {
    if (!peer.endpoint) continue;
    if (peer.endpoint->get() == nullptr)
      return Error{Code::kUnavailable, "the connections are closed"};
    const std::string printed = TRY(peer.endpoint->printed());
    used.merge(TRY(lane_transports(printed)));
  }
  if (used.empty()) return std::string("none");
  TRY(check_transports(used, options_.transport));
  return join(std::vector<std::string>(used.begin(), used.end()), ",");
}

Result<Outcome> Members::usable() const {
  if (ended_) return *ended_;
  for (int rank = 0; rank < options_.size; ++rank)
    if (rank != options_.rank && !peers_.at(static_cast<std::size_t>(rank)).endpoint)
      return Error{Code::kInvalid, "the communicator is not connected"};
  return Outcome::kDone;
}

Pending Members::send(int to, std::uint32_t sequence, std::span<const float> data) {
  const ucp_request_param_t param = {};
  const Peer& peer = peers_.at(static_cast<std::size_t>(to));
  return Pending(session_.worker(),
                 ucp_tag_send_nbx(peer.endpoint->get(), data.data(), data.size_bytes(),
                                  data_tag(options_.rank, sequence), &param));
}

Pending Members::receive(int from, std::uint32_t sequence, std::span<float> data) {
  // Always a request, also when it is finished at once: UCX 1.13.1 tells the length only of
  // requests.
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  return Pending(session_.worker(),
                 ucp_tag_recv_nbx(session_.worker(), data.data(), data.size_bytes(),
                                  data_tag(from, sequence), ~ucp_tag_t{0}, &param));
}

void Members::tell(int to, Kind kind, const Note& note) {
  const Peer& peer = peers_.at(static_cast<std::size_t>(to));
  if (!peer.endpoint || peer.endpoint->get() == nullptr || peer.endpoint->lost() != UCS_OK) return;
  std::erase_if(telling_, [](const Pending& pending) { return pending.finished(); });
  const Note& kept = notes_.emplace_back(note);
  const ucp_request_param_t param = {};
  const ucp_tag_t tag = kNoteBit | static_cast<ucp_tag_t>(kind) << 56U | data_tag(options_.rank, 0);
  telling_.emplace_back(session_.worker(),
                        ucp_tag_send_nbx(peer.endpoint->get(), &kept, sizeof kept, tag, &param));
}

void Members::tell_all(Kind kind, const Note& note) {
  for (int rank = 0; rank < options_.size; ++rank) tell(rank, kind, note);
}

Status Members::hear() {
  for (;;) {
    ucp_tag_recv_info_t info = {};
    const ucp_tag_message_h message =
        ucp_tag_probe_nb(session_.worker(), kNoteBit, kNoteBit, 1, &info);
    if (message == nullptr) return ok();
    // As long as the worker: a receive that UCX cannot cancel may still write into it.
    Note& note = notes_.emplace_back();
    const ucp_request_param_t param = {};
    const Pending pending(session_.worker(), ucp_tag_msg_recv_nbx(session_.worker(), &note,
                                                                  sizeof note, message, &param));
    for (int i = 0; i < kNoteProgress && !pending.finished(); ++i)
      ucp_worker_progress(session_.worker());
    const std::size_t from = info.sender_tag >> 32U & 0xffffffU;
    if (pending.status() != UCS_OK || info.length != sizeof note || from >= peers_.size())
      return ucx_error(Code::kCorrupt,
                       format("a note of %zu bytes from rank %zu", info.length, from),
                       pending.status());
    Peer& peer = peers_.at(from);
    switch (static_cast<Kind>(info.sender_tag >> 56U & 0x7fU)) {
      case Kind::kHello:
        peer.greeted = true;
        break;
      case Kind::kRollCall:
        tell(static_cast<int>(from), Kind::kHere, {});
        break;
      case Kind::kHere:
        peer.here = true;
        break;
      case Kind::kBye:
        peer.bye = note;
        break;
    }
  }
}

Result<Outcome> Members::wait(const std::function<bool()>& done, const Patience& patience,
                              const std::string& doing) {
  if (ended_) return *ended_;
  const auto start = Clock::now();
  const auto total = std::chrono::duration_cast<milliseconds>(patience.deadline - start);
  const milliseconds grace = std::clamp(total / 4, kLook, kLongestRollCall);
  RollCall roll{patience.deadline - grace, patience.deadline, grace};
  std::optional<Clock::time_point> stop_limit;
  for (;;) {
    session_.progress();
    Status heard = hear();
    if (!heard) return fail(std::move(heard).error(), -1);
    if (done()) return Outcome::kDone;
    if (std::optional<Result<Outcome>> end = trouble(doing)) return *end;

    const auto now = Clock::now();
    if (total < -kLongestRollCall)  // one of many waits of a call whose time is up
      return fail(
          {Code::kTimeout, doing + ": not finished in time, although every rank takes part"}, -1);
    if (patience.stop.stop_requested() && !stop_limit) stop_limit = now + kStopGrace;
    if (stop_limit && now >= *stop_limit) return stop();
    if (now >= roll.due && !roll.called) {
      for (Peer& peer : peers_) peer.here = false;
      tell_all(Kind::kRollCall, {});
      roll.called = true;
      roll.limit =
          std::max(roll.limit, now + roll.grace);  // late when this rank itself stood still
    } else if (now >= roll.limit) {
      return give_up(doing, std::chrono::duration<double>(now - start).count());
    }
    auto until = std::min(now + kLook, roll.called ? roll.limit : roll.due);
    if (stop_limit) until = std::min(until, *stop_limit);
    const auto left = std::chrono::ceil<milliseconds>(until - now);
    Status slept = session_.sleep(std::max(left, milliseconds{0}));
    if (!slept) return fail(std::move(slept).error(), -1);
  }
}

// Whether another rank's end makes it pointless to wait on.
std::optional<Result<Outcome>> Members::trouble(const std::string& doing) {
  for (int rank = 0; rank < options_.size; ++rank) {
    const Peer& peer = peers_.at(static_cast<std::size_t>(rank));
    // A rank that is finished waits in close() for the others, so what they need of it is still
    // under way.
    if (peer.bye && peer.bye->why != Leave::kFinished) return after_leave(rank, *peer.bye);
  }
  for (int rank = 0; rank < options_.size; ++rank) {
    const Peer& peer = peers_.at(static_cast<std::size_t>(rank));
    if (!peer.endpoint || peer.endpoint->lost() == UCS_OK) continue;
    const std::string what = peer.bye ? "closed its communicator" : "is gone";
    return fail(
        ucx_error(Code::kPeerLost, format("%s: rank %d %s", doing.c_str(), rank, what.c_str()),
                  peer.endpoint->lost()),
        rank);
  }
  return std::nullopt;
}

Result<Outcome> Members::after_leave(int rank, const Note& note) {
  if (note.why == Leave::kStopped) return stop();
  const bool timeout = note.why == Leave::kTimeout;
  if (!timeout && note.why != Leave::kPeerLost)
    return fail({Code::kPeerLost, format("rank %d failed and left the group", rank)}, rank);
  const std::string what = timeout ? "did not answer" : "is gone";
  const std::string who = note.accused == options_.rank ? format("rank %d (this one)", note.accused)
                          : note.accused < 0            ? "no single rank"
                                                        : format("rank %d", note.accused);
  return fail(
      {timeout ? Code::kTimeout : Code::kPeerLost,
       format("%s %s, as rank %d found, which left the group", who.c_str(), what.c_str(), rank)},
      note.accused);
}

Error Members::give_up(const std::string& doing, double waited_s) {
  std::vector<int> absent;
  for (int rank = 0; rank < options_.size; ++rank) {
    const Peer& peer = peers_.at(static_cast<std::size_t>(rank));
    if (peer.endpoint && !peer.here) absent.push_back(rank);
  }
  if (absent.empty())
    return fail(
        {Code::kTimeout, format("%s: not finished within %.1f s, although every rank answers",
                                doing.c_str(), waited_s)},
        -1);
  return fail({Code::kTimeout, format("%s: %s did not answer within %.1f s", doing.c_str(),
                                      name_ranks(absent).c_str(), waited_s)},
              absent.front());
}

Error Members::fail(Error error, int accused) {
  const Leave why = error.code == Code::kTimeout    ? Leave::kTimeout
                    : error.code == Code::kPeerLost ? Leave::kPeerLost
                                                    : Leave::kOther;
  ended_ = Result<Outcome>(error);
  leave({why, accused});
  return error;
}

Outcome Members::stop() {
  ended_ = Result<Outcome>(Outcome::kStopped);
  leave({Leave::kStopped, -1});
  return Outcome::kStopped;
}

// Connections stay open until the others have taken leave too: a rank that sends into a closed one
// loses what it has not read yet, and would name this rank instead of the cause.
void Members::leave(const Note& note) {
  tell_all(Kind::kBye, note);
  const auto end = Clock::now() + (note.why == Leave::kStopped ? kStopFarewell : kFarewell);
  const auto heard_by_all = [&] {
    for (int rank = 0; rank < options_.size; ++rank) {
      const Peer& peer = peers_.at(static_cast<std::size_t>(rank));
      if (peer.endpoint && !peer.bye && peer.endpoint->lost() == UCS_OK && rank != note.accused)
        return false;
    }
    return std::all_of(telling_.begin(), telling_.end(),
                       [](const Pending& pending) { return pending.finished(); });
  };
  session_.progress();
  while (hear() && !heard_by_all() && Clock::now() < end) {
    if (!session_.sleep(milliseconds{10})) break;
    session_.progress();
  }
  for (Peer& peer : peers_)
    if (peer.endpoint) peer.endpoint->close();
}

Status Members::close(const Patience& patience) {
  if (ended_) {
    if (!*ended_) return ended_->error();
    return ok();
  }
  tell_all(Kind::kBye, {Leave::kFinished, -1});
  std::optional<Clock::time_point> stop_limit;
  for (;;) {
    session_.progress();
    TRY(hear());
    std::vector<int> staying;
    for (int rank = 0; rank < options_.size; ++rank) {
      const Peer& peer = peers_.at(static_cast<std::size_t>(rank));
      if (peer.endpoint && !peer.bye && peer.endpoint->lost() == UCS_OK) staying.push_back(rank);
    }
    const auto now = Clock::now();
    if (patience.stop.stop_requested() && !stop_limit) stop_limit = now + kStopGrace;
    if (staying.empty() || (stop_limit && now >= *stop_limit)) break;
    if (now >= patience.deadline)
      return fail({Code::kTimeout, "close: " + name_ranks(staying) + " did not take leave"},
                  staying.front());
    TRY(session_.sleep(std::clamp(std::chrono::ceil<milliseconds>(patience.deadline - now),
                                  milliseconds{0}, kLook)));
  }
  ended_ = Result<Outcome>(Error{Code::kInvalid, "the communicator is closed"});
  for (Peer& peer : peers_)
    if (peer.endpoint) peer.endpoint->close();
  return ok();
}

}  // namespace mixproof
