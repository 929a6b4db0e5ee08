// Sends ICMP echoes to addresses of other nodes and counts what comes back. The control of faults
// between nodes.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "harness/base/address.h"
#include "harness/base/text.h"
#include "harness/base/unique_fd.h"
#include "probes/probe.h"

namespace mixproof {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr int kBufferBytes =
    4 << 20;  // answers that came while we were not scheduled must not get lost
constexpr nanoseconds kRetry{1'000'000};

nanoseconds now() { return steady_clock::now().time_since_epoch(); }
nanoseconds seconds_of(double seconds) {
  return nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
}

// What makes an echo ours, wherever its answer says that it comes from: an answer from another
// address is an answer.
struct Payload {
  std::uint64_t cookie = 0;
  std::uint32_t index = 0, zero = 0;
};
struct Packet {
  std::uint8_t type = 0, code = 0;
  std::uint16_t checksum = 0, id = 0, sequence = 0;
  Payload payload;
};
static_assert(sizeof(Packet) == 24);

std::uint16_t checksum_of(const Packet& packet) {
  std::array<std::uint16_t, sizeof(Packet) / 2> words{};
  std::memcpy(words.data(), &packet, sizeof packet);
  std::uint32_t sum = 0;
  for (const std::uint16_t word : words) sum += word;
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

// One for each family. A ping socket where the node allows those, else a raw one.
class EchoSocket {
 public:
  // kUnavailable says what would allow it; an empty one where the node has no such family.
  static Result<EchoSocket> open(int family) {
    const int protocol = family == AF_INET ? int{IPPROTO_ICMP} : int{IPPROTO_ICMPV6};
    EchoSocket out;
    out.family_ = family;
    for (const int type : {SOCK_DGRAM, SOCK_RAW}) {
      out.raw_ = type == SOCK_RAW;
      out.fd_ = UniqueFd(::socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
      if (out.fd_.get() >= 0 || errno == EAFNOSUPPORT) break;
    }
    if (out.fd_.get() < 0 && errno != EAFNOSUPPORT)
      return Error{Code::kUnavailable,
                   std::string("no echo may be sent here: neither ping sockets "
                               "(net.ipv4.ping_group_range) nor raw ones (CAP_NET_RAW): ") +
                       std::strerror(errno)};
    out.prepare();
    return out;
  }

  int fd() const { return fd_.get(); }

  // errno, or 0.
  int send(const sockaddr_in6& to, Packet packet) const {
    packet.type = family_ == AF_INET ? std::uint8_t{ICMP_ECHO} : std::uint8_t{ICMP6_ECHO_REQUEST};
    if (family_ == AF_INET) packet.checksum = checksum_of(packet);
    const socklen_t length = family_ == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    const ssize_t sent =
        ::sendto(fd(), &packet, sizeof packet, 0, reinterpret_cast<const sockaddr*>(&to), length);
    return sent < 0 ? errno : 0;
  }

  // The next answer that has arrived; false when there is none.
  bool receive(Payload& payload) const {
    std::array<unsigned char, 512> bytes{};
    while (true) {
      const ssize_t got = ::recv(fd(), bytes.data(), bytes.size(), 0);
      if (got < 0) return false;
      std::size_t begin = 0;
      if (raw_ && family_ == AF_INET)
        begin = std::size_t{bytes[0] & 0x0fU} * 4;  // behind its IP header
      if (static_cast<std::size_t>(got) < begin + sizeof(Packet)) continue;
      Packet packet;
      std::memcpy(&packet, bytes.data() + begin, sizeof packet);
      if (packet.type != (family_ == AF_INET ? ICMP_ECHOREPLY : ICMP6_ECHO_REPLY)) continue;
      payload = packet.payload;
      return true;
    }
  }

 private:
  void prepare() const {
    if (fd() < 0) return;
    // As large as we may: by force where that is allowed.
    if (::setsockopt(fd(), SOL_SOCKET, SO_RCVBUFFORCE, &kBufferBytes, sizeof kBufferBytes) != 0)
      ::setsockopt(fd(), SOL_SOCKET, SO_RCVBUF, &kBufferBytes, sizeof kBufferBytes);
  }

  UniqueFd fd_;
  int family_ = AF_INET;
  bool raw_ = false;
};

// An address over one interface.
struct Place {
  std::string name, address;
  bool ipv6 = false;
  sockaddr_in6 to{};  // holds a sockaddr_in for IPv4
  int sent = 0, answered = 0;
  std::vector<double> rtts_s;
  double share() const { return sent == 0 ? 0 : static_cast<double>(answered) / sent; }
};

// Up, and not loopback.
std::set<unsigned> interfaces() {
  std::set<unsigned> out;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return out;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, ::freeifaddrs);
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next)
    if ((one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0)
      out.insert(::if_nametoindex(one->ifa_name));
  return out;
}

class Reachability final : public Probe {
 public:
  Params params() override {
    return {
        required(list_of("targets",
                         "who is asked; a name with several addresses counts as reachable over "
                         "the best of them",
                         [this](std::size_t index) {
                           if (targets_.size() <= index) targets_.resize(index + 1);
                           Target& one = targets_[index];
                           return Params{required(text("name", &one.name, "name in the rows")),
                                         required(text("address", &one.address, "numeric"))};
                         })),
        integer("count", &count_, "echoes to each address", {.min = 1, .max = 1000}),
        number("window_s", &window_s_, "over how long they are spread", {.min = 0.05, .max = 60}),
        number("deadline_s", &deadline_s_, "how long to wait for the last answers",
               {.min = 0.05, .max = 10}),
        choice("moment", &moment_, "goes into the rows", {"before", "during", "after", "now"}),
        choice("control", &control_, "goes into the rows", {"positive", "negative", "none"}),
        text("fault", &fault_, "goes into the rows")};
  }

  Cost cost() override {
    constexpr double kFrameBytes = 66;
    return {.network_bytes_per_s = kFrameBytes * static_cast<double>(count_) *
                                   static_cast<double>(targets_.size()) / window_s_};
  }

  Status prepare(ProbeContext&) override {
    if (targets_.empty()) return Error{Code::kInvalid, "nobody to ask"};
    for (const Target& target : targets_) TRY(add_places(target));
    ipv4_ = TRY(EchoSocket::open(AF_INET));
    ipv6_ = TRY(EchoSocket::open(AF_INET6));
    std::random_device random;
    cookie_ = std::uint64_t{random()} << 32 | random();
    return ok();
  }

  Status run(ProbeContext& context) override {
    const nanoseconds begin = now();
    const std::size_t all = places_.size() * static_cast<std::size_t>(count_);
    sent_at_.assign(all, nanoseconds(0));
    answered_.assign(all, false);
    std::size_t next = 0;
    nanoseconds end = begin;
    while (!context.stop.stop_requested()) {
      collect();
      const nanoseconds due =
          next < all
              ? begin + seconds_of(window_s_ * static_cast<double>(next) / static_cast<double>(all))
              : end;
      if (next == all && (waiting_ == 0 || now() >= end)) break;
      if (now() < due) {
        wait(due);
        continue;
      }
      const bool gone = TRY(send(next));
      if (!gone) wait(now() + kRetry);
      if (gone) ++next;
      end = now() + seconds_of(deadline_s_);
    }
    collect();  // what has arrived by now but was not read yet
    emit(context, begin);
    return ok();
  }

  Status check(ProbeContext&) override {
    std::map<std::string, int> sent;
    for (const Place& place : places_) sent[place.name] += place.sent;
    for (const auto& [name, echoes] : sent)
      if (echoes == 0)
        return Error{Code::kUnavailable, "there is no way to any address of " + name};
    return ok();
  }

 private:
  struct Target {
    std::string name, address;
  };

  // A link-local address is tried over every interface, since the interface is not part of it.
  Status add_places(const Target& target) {
    Place place{.name = target.name, .address = target.address};
    auto* ipv4 = reinterpret_cast<sockaddr_in*>(&place.to);
    if (::inet_pton(AF_INET, target.address.c_str(), &ipv4->sin_addr) == 1) {
      ipv4->sin_family = AF_INET;
      places_.push_back(place);
      return ok();
    }
    place.to = {};
    place.to.sin6_family = AF_INET6;
    place.ipv6 = true;
    if (::inet_pton(AF_INET6, target.address.c_str(), &place.to.sin6_addr) != 1)
      return Error{Code::kInvalid,
                   "'" + target.address + "' of " + target.name + " is no numeric address"};
    if (!is_link_local_ipv6(target.address)) {
      places_.push_back(place);
      return ok();
    }
    const std::set<unsigned> over = interfaces();
    if (over.empty()) places_.push_back(place);  // there is no way to it, which check() tells
    for (const unsigned interface : over) {
      place.to.sin6_scope_id = interface;
      places_.push_back(place);
    }
    return ok();
  }

  // Whether the echo is out of our hands: sent, or there is no way to that address. False: the
  // queue is full just now.
  Result<bool> send(std::size_t index) {
    Place& place = places_[index % places_.size()];
    const EchoSocket& socket = place.ipv6 ? ipv6_ : ipv4_;
    if (socket.fd() < 0) return true;
    Packet packet;
    packet.id = static_cast<std::uint16_t>(cookie_);
    packet.sequence = htons(static_cast<std::uint16_t>(index));
    packet.payload = {cookie_, static_cast<std::uint32_t>(index)};
    sent_at_[index] = now();
    const int error = socket.send(place.to, packet);
    if (error == EAGAIN || error == ENOBUFS) return false;
    for (const int no_way : {ENETUNREACH, EHOSTUNREACH, ENETDOWN, EADDRNOTAVAIL, ENODEV, EINVAL})
      if (error == no_way) return true;
    if (error != 0) return system_error("send an echo to " + place.address, error);
    ++place.sent;
    ++waiting_;
    return true;
  }

  void collect() {
    for (const EchoSocket* socket : {&ipv4_, &ipv6_}) {
      Payload payload;
      while (socket->fd() >= 0 && socket->receive(payload)) {
        if (payload.cookie != cookie_ || payload.index >= answered_.size() ||
            answered_[payload.index])
          continue;
        answered_[payload.index] = true;
        --waiting_;
        Place& place = places_[payload.index % places_.size()];
        ++place.answered;
        place.rtts_s.push_back(static_cast<double>((now() - sent_at_[payload.index]).count()) *
                               1e-9);
      }
    }
  }

  void wait(nanoseconds until) const {
    std::array<pollfd, 2> fds = {pollfd{ipv4_.fd(), POLLIN, 0}, pollfd{ipv6_.fd(), POLLIN, 0}};
    const nanoseconds left = std::clamp(until - now(), nanoseconds(0), nanoseconds(100'000'000));
    const std::timespec timeout{0, left.count()};
    ::ppoll(fds.data(), fds.size(), &timeout, nullptr);
  }

  // One row a name, of its best address: a node that answers over one of them is reachable.
  void emit(ProbeContext& context, nanoseconds begin) {
    const std::int64_t end = now().count();
    std::vector<std::string> names;
    for (const Place& place : places_)
      if (std::find(names.begin(), names.end(), place.name) == names.end())
        names.push_back(place.name);
    for (const std::string& name : names) {
      Json addresses = Json::array();
      Place* best = nullptr;
      for (Place& place : places_) {
        if (place.name != name) continue;
        addresses.push_back(
            {{"address", place.address}, {"sent", place.sent}, {"answered", place.answered}});
        if (best == nullptr || place.share() > best->share()) best = &place;
      }
      Json row = {{"row", "reachability"},
                  {"of", name},
                  {"begin", begin.count()},
                  {"end", end},
                  {"sent", best->sent},
                  {"answered", best->answered},
                  {"reachable", best->share()},
                  {"addresses", std::move(addresses)},
                  {"moment", moment_},
                  {"control", control_},
                  {"fault", fault_}};
      std::vector<double>& rtts = best->rtts_s;
      if (!rtts.empty()) {
        const auto middle = rtts.begin() + static_cast<std::ptrdiff_t>(rtts.size() / 2);
        std::nth_element(rtts.begin(), middle, rtts.end());
        row["rtt_p50_s"] = *middle;
      }
      context.rows.row(row);
    }
  }

  std::vector<Target> targets_;
  std::vector<Place> places_;
  EchoSocket ipv4_, ipv6_;
  std::uint64_t cookie_ = 0;
  std::vector<nanoseconds> sent_at_;
  std::vector<bool> answered_;
  int waiting_ = 0;
  std::int64_t count_ = 20;
  double window_s_ = 0.4, deadline_s_ = 0.3;
  std::string moment_ = "now", control_ = "none", fault_;
};

constexpr MetricSpec kMetrics[] = {
    {"net.reachable", "1", Better::kHigher,
     "share of echoes to a node that were answered, over its best address"},
};

}  // namespace

extern const ProbeSpec reachability_probe;
const ProbeSpec reachability_probe = {
    .name = "reachability",
    .summary = "Whether other nodes answer: fresh ICMP echoes to their addresses.",
    .load = false,
    .generator = true,
    .ranks = false,
    .metrics = kMetrics,
    .create = []() -> std::unique_ptr<Probe> { return std::make_unique<Reachability>(); },
};

}  // namespace mixproof
