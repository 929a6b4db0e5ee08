// Keeps packets of other nodes from this one: all of them (a partition) or a share (loss). They are
// dropped on arrival here, because a drop at the sender is seen by the sender, which tries again.
// Kernel-bypass traffic (RDMA) does not pass there.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "faults/fault.h"
#include "harness/base/address.h"
#include "harness/base/text.h"

namespace mixproof {
namespace {

constexpr const char* kResidualLife =
    "none where the kernel knows owners of tables (Linux 5.12): they go with the guard; elsewhere at "
    "most its lease, and an empty table until `recover`";

// A control says the wrong thing by chance once in a million looks.
constexpr double kError = 1e-6;
constexpr int kEchoesMin = 20;    // when nothing comes back, more would say no more
constexpr int kEchoesMax = 1000;  // an address, in the 0.4 s of a look

// P(exactly k of n come back), each with the chance p.
double binomial(int n, int k, double p) {
  if (p <= 0 || p >= 1) return k == (p <= 0 ? 0 : n) ? 1 : 0;
  return std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) +
                  k * std::log(p) + (n - k) * std::log1p(-p));
}

// What a look sees under the fault. An echo crosses the fault once when it is in one direction and
// twice when it is in both, and the node cannot tell which: so the least is what is left of the
// square, the most what is left of the share itself, each but for kError.
struct Echoes {
  int count;
  double low, high;
};

// As many that all of them come back under the fault with a chance of kError at most: n with
// (1 - loss)^n <= kError.
int count_for(double loss) {
  if (loss >= 1) return kEchoesMin;
  const double needed = std::ceil(std::log(kError) / std::log1p(-loss));
  return static_cast<int>(std::clamp(needed, double{kEchoesMin}, 1e6));
}

Echoes echoes_for(double loss) {
  const int n = count_for(loss);
  const double once = 1 - loss, twice = once * once;
  int low = 0, high = n;
  for (double below = binomial(n, 0, twice); low < n && below <= kError;)
    below += binomial(n, ++low, twice);
  for (double above = binomial(n, n, once); high > 0 && above <= kError;)
    above += binomial(n, --high, once);
  return {n, static_cast<double>(low) / n, static_cast<double>(high) / n};
}

Json targets_of(const std::vector<Peer>& peers) {
  Json out = Json::array();
  for (const Peer& peer : peers)
    for (const std::string& address : peer.addresses)
      out.push_back({{"name", peer.node}, {"address", address}});
  return out;
}

class NetDrop final : public Fault {
 public:
  Params params() override {
    return {number("loss", &loss_, "share of the packets of the peers that is dropped, at random",
                   {.min = 0.0001, .max = 1})};
  }

  Result<FaultPlan> plan(const HostView& host, const Target& target) override {
    if (target.from.empty()) return Error{Code::kInvalid, "nobody to cut off from " + target.words};
    if (count_for(loss_) > kEchoesMax)
      return Error{Code::kInvalid,
                   format("a loss of %g is too small for a look of %d echoes to show it", loss_,
                          kEchoesMax)};
    Peer own{.node = "the node of the fault", .addresses = TRY(host.addresses())};
    if (own.addresses.empty()) return Error{Code::kUnavailable, "this node has no address"};
    Target apart = target;
    const std::set<std::string> shared = tell_apart(own, apart);
    TRY(check_peers(own, apart));
    const std::uint64_t net_namespace = TRY(host.net_namespace());
    FaultPlan plan = plan_with(apart, own.addresses, net_namespace);
    if (!shared.empty())
      plan.touches.push_back("nothing by " +
                             join(std::vector<std::string>(shared.begin(), shared.end()), ", ") +
                             ", which more than one node has");
    return plan;
  }

 private:
  FaultPlan plan_with(const Target& target, const std::vector<std::string>& own,
                      std::uint64_t net_namespace) const {
    DropPackets drop;
    drop.net_namespace = net_namespace;
    drop.table = target.mark;
    drop.share = loss_;
    FaultPlan plan;
    for (const Peer& peer : target.from) {
      drop.from.insert(drop.from.end(), peer.addresses.begin(), peer.addresses.end());
      plan.touches.push_back("packets from " + peer.node + " (" + join(peer.addresses, ", ") + ")");
    }
    spare_controller(target, drop, plan);
    plan.steps.push_back({When::kInject, drop, Lease::kKernel});
    add_controls(target, own, plan);
    plan.residual_life = kResidualLife;
    return plan;
  }

  // Only where the fault would cut it.
  static void spare_controller(const Target& target, DropPackets& drop, FaultPlan& plan) {
    const std::string controller = canonical_address(target.controller_address);
    if (target.controller_port <= 0 ||
        std::find(drop.from.begin(), drop.from.end(), controller) == drop.from.end())
      return;
    drop.spared_address = controller;
    drop.spared_port = target.controller_port;
    plan.touches.push_back(format("all but TCP from %s to port %d, how this node is reached",
                                  controller.c_str(), drop.spared_port));
  }

  // Leaves out, and returns, addresses that more than one node has, as each has one for its own
  // containers: they say nothing about whose packets those are.
  static std::set<std::string> tell_apart(Peer& own, Target& target) {
    std::vector<Peer*> nodes = {&own};
    for (std::vector<Peer>* side : {&target.from, &target.others})
      for (Peer& peer : *side) nodes.push_back(&peer);
    std::map<std::string, int> holders;
    for (const Peer* node : nodes)
      for (const std::string& address : node->addresses) ++holders[address];
    std::set<std::string> shared;
    for (const auto& [address, count] : holders)
      if (count > 1) shared.insert(address);
    for (Peer* node : nodes)
      std::erase_if(node->addresses,
                    [&shared](const std::string& address) { return shared.count(address) != 0; });
    return shared;
  }

  static Status check_peers(const Peer& own, const Target& target) {
    if (own.addresses.empty())
      return Error{Code::kInvalid, "every address of this node is also another node's"};
    for (const Peer& peer : target.from) {
      if (peer.addresses.empty())
        return Error{Code::kInvalid,
                     peer.node + " has no address of its own to know its packets by"};
      for (const std::string& address : peer.addresses)
        if (canonical_address(address) != address)
          return Error{Code::kInvalid,
                       "'" + address + "' of " + peer.node + " is no address of a node"};
    }
    return ok();
  }

  // From both ends: packets that a peer sends of itself may come from an address that its answers
  // do not have (source NAT), and only an echo of its own shows that they get through.
  void add_controls(const Target& target, const std::vector<std::string>& own,
                    FaultPlan& plan) const {
    const Echoes echoes = echoes_for(loss_);
    const double high = loss_ >= 1 ? 0 : echoes.high;
    const auto control = [&](bool positive, const std::string& of, Json targets) {
      return Control{.positive = positive,
                     .probe = "reachability",
                     .metric = "net.reachable",
                     .of = of,
                     .low = positive ? echoes.low : 1 - loss_ / 2,
                     .high = positive ? high : 1,
                     .params = {{"targets", std::move(targets)}, {"count", echoes.count}}};
    };
    plan.controls.push_back(control(true, "target", targets_of(target.from)));
    for (const Peer& peer : target.from) {
      plan.controls.push_back(
          control(true, "target", targets_of({{"the node of the fault", own}})));
      plan.controls.back().at = peer.node;
    }
    // Nearer to untouched than to cut: a busy network may lose an echo, and what is cut by mistake
    // loses the share that the target does.
    if (!target.others.empty())
      plan.controls.push_back(control(false, "others", targets_of(target.others)));
  }

  double loss_ = 1;
};

}  // namespace

extern const FaultSpec net_drop_fault;
const FaultSpec net_drop_fault = {
    .name = "net_drop",
    .summary =
        "Drops packets that arrive at a node from other nodes: all (a partition) or a share.",
    .residual_life = kResidualLife,
    .hits = Hits::kPeers,
    .effect = Effect::kSustained,
    .tier = 2,
    .create = []() -> std::unique_ptr<Fault> { return std::make_unique<NetDrop>(); },
};

}  // namespace mixproof
