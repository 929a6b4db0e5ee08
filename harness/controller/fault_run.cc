#include "harness/controller/fault_run.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "suites/fault_parts.h"

namespace mixproof {
namespace {

constexpr Time kAnswer = std::chrono::seconds(5);
constexpr Time kAskAgain = std::chrono::seconds(1);
constexpr Time kMargin = std::chrono::seconds(3);
constexpr Time kLookAgain = std::chrono::milliseconds(300);
constexpr double kWindowMax_s = 0.4, kOneShotWindow_s = 0.1;

Time from_s(double seconds) { return Time(static_cast<std::int64_t>(seconds * 1e9)); }

std::string last_word(const std::string& metric) { return metric.substr(metric.rfind('.') + 1); }

}  // namespace

FaultRun::FaultRun(World& world, FaultHost host, FaultOrder order,
                   std::function<void()> on_finished)
    : world_(world),
      host_(std::move(host)),
      order_(std::move(order)),
      on_finished_(std::move(on_finished)) {}

FaultRun::~FaultRun() {
  for (const TimerId timer : {renew_timer_, wait_timer_, end_timer_}) world_.cancel(timer);
}

std::string FaultRun::doing() const {
  if (awaits_ready_) return "waiting until " + order_.entry.target + " is ready again";
  return "reverting " + fault_words(order_.entry) +
         (order_.entry.parts.size() > 1 ? ", " + order_.node : "");
}

void FaultRun::state(const std::string& name, Time at, const std::string& detail, Json evidence) {
  AgentLink* link = host_.link(order_.node);
  const std::int64_t uncertainty = link == nullptr ? 0 : link->clock().uncertainty.count();
  host_.record({{"row", "fault"},
                {"fault", id()},
                {"kind", order_.entry.fault},
                {"target", order_.entry.target},
                {"state", name},
                {"node", order_.node},
                {"at", at.count()},
                {"uncertainty_ns", uncertainty},
                {"detail", detail},
                {"evidence", std::move(evidence)}});
}

Json FaultRun::request(const std::string& order) const {
  const auto peers = [this](const std::vector<std::string>& nodes) {
    Json out = Json::array();
    for (const std::string& node : nodes)
      out.push_back({{"node", node}, {"addresses", addresses_.at(node)}});
    return out;
  };
  return {
      {"do", order},
      {"fault_id", id()},
      {"fault", order_.entry.fault},
      {"params", order_.entry.params},
      {"target", order_.entry.target},
      {"what", order_.target.tasks},
      {"pids", order_.target.pids},
      {"from", peers(order_.from)},
      {"others", peers(order_.others)},
      {"lease_ms", std::chrono::duration_cast<std::chrono::milliseconds>(order_.lease).count()}};
}

// The plan is made anew on the node right before the controls: processes may have changed since the
// run began.
void FaultRun::look_before() {
  if (finished_) return;
  if (order_.from.empty() && order_.others.empty()) return make_plan();
  ask_addresses();
}

// Those of the other nodes, as they are now: a fault that knew only some would cut only some.
void FaultRun::ask_addresses() {
  auto left = std::make_shared<std::size_t>(order_.from.size() + order_.others.size());
  for (const auto* nodes : {&order_.from, &order_.others})
    for (const std::string& node : *nodes) {
      AgentLink* link = host_.link(node);
      if (link == nullptr) return conclude("refused", node + " is lost");
      link->ask({{"do", "addresses"}}, kAnswer, [this, node, left](const Result<Json>& reply) {
        if (finished_ || begun_) return;
        if (!reply.ok()) return conclude("refused", node + ": " + reply.error().message);
        const Json* addresses = member(*reply, "addresses");
        addresses_[node] = addresses == nullptr ? Json::array() : *addresses;
        if (--*left == 0) make_plan();
      });
    }
}

void FaultRun::make_plan() {
  AgentLink* link = host_.link(order_.node);
  if (link == nullptr) return;  // inject() says so
  link->ask(request("plan_fault"), kAnswer, [this](const Result<Json>& reply) {
    if (finished_ || begun_) return;
    if (!reply.ok()) return conclude("refused", reply.error().message);
    plan_ = *reply;
    state("planned", world_.now(Clock::kMonotonic), "", {{"plan", plan_}});
    look("before", [] {});
  });
}

void FaultRun::inject() {
  if (finished_ || begun_ || reverting_) return;
  AgentLink* link = host_.link(order_.node);
  if (link == nullptr) return conclude("refused", "its node is lost");
  if (plan_.is_null()) return conclude("refused", "its plan was not ready in time");
  begun_ = true;
  begun_at_ = world_.now(Clock::kMonotonic);
  link->ask(request("inject"), kAnswer, [this](const Result<Json>& reply) {
    if (finished_) return;
    if (reply.ok()) return compare_with_plan(*reply);
    if (!injected_ && reply.error().code != Code::kTimeout && reply.error().code != Code::kPeerLost)
      return conclude("refused", reply.error().message);
    // Otherwise unknown: the node's journal will tell (node_lost, or the give-up time below).
  });
  give_up_at_ = world_.now(Clock::kMonotonic) + order_.lease +
                from_s(number_at(plan_, "undo_budget_s", 5)) + kMargin;
  renew_timer_ = world_.after(order_.renew_every, [this] { renew(); });
  end_at(order_.latest_end);
}

// The node plans again right before it injects. Controls that name processes or addresses must have
// looked at the same ones before.
void FaultRun::compare_with_plan(const Json& injected) {
  const auto looked_at = [](const Json& plan) {
    Json out = Json::array();
    if (const Json* controls = member(plan, "controls"); controls != nullptr)
      for (const Json& control : *controls)
        if (const Json* params = member(control, "params")) out.push_back(*params);
    return out;
  };
  const Json* plan = member(injected, "plan");
  if (plan == nullptr || looked_at(*plan) != looked_at(plan_))
    replanned_ = order_.entry.target + " was replaced between plan and injection";
}

// The planned length counts from the moment the fault took hold, so that a slow node shortens
// nothing.
void FaultRun::end_at(Time when) {
  world_.cancel(end_timer_);
  end_timer_ = world_.at(Clock::kMonotonic, std::min(when, order_.latest_end),
                         [this] { revert("planned end"); });
}

void FaultRun::renew() {
  if (finished_ || reverting_ || lost_) return;
  AgentLink* link = host_.link(order_.node);
  if (link == nullptr) return;
  link->ask(request("renew"), kAnswer, [](const Result<Json>&) {});
  give_up_at_ = world_.now(Clock::kMonotonic) + order_.lease +
                from_s(number_at(plan_, "undo_budget_s", 5)) + kMargin;
  renew_timer_ = world_.after(order_.renew_every, [this] { renew(); });
}

void FaultRun::revert(const std::string& why) {
  if (finished_ || reverting_) return;
  reverting_ = true;
  world_.cancel(renew_timer_);
  world_.cancel(end_timer_);
  if (!begun_) return conclude("not_injected", why);
  if (lost_) return;  // a new agent is being asked already
  wait_timer_ = world_.at(
      Clock::kMonotonic, std::max(give_up_at_, world_.now(Clock::kMonotonic) + kMargin), [this] {
        if (!finished_ && !lost_)
          node_lost();  // silent past its lease: ask the node through a fresh agent
      });
  AgentLink* link = host_.link(order_.node);
  if (link == nullptr) return;
  link->ask({{"do", "revert"}, {"fault_id", id()}, {"why", why}}, kAnswer,
            [](const Result<Json>&) {});
}

void FaultRun::on_event(const Json& event) {
  if (finished_) return;
  AgentLink* link = host_.link(order_.node);
  const Time at = link == nullptr ? world_.now(Clock::kMonotonic)
                                  : link->to_controller(integer_at(event, "at_ns"));
  const std::string name = text_at(event, "state"), detail = text_at(event, "detail");
  if (name == "refused") return conclude("refused", detail);
  if (name == "clean" || name == "dirty") {
    world_.cancel(wait_timer_);
    world_.cancel(renew_timer_);
    reverting_ = true;
    if (name == "dirty") return conclude("dirty", detail);
    undone_at_ = at;
    if (one_shot()) return after_one_shot();
    if (!judged_ && injected_) judge_effect();
    both_over_by_ = world_.now(Clock::kMonotonic) + order_.lease +
                    from_s(number_at(plan_, "undo_budget_s", 5)) + kMargin;
    look("after", [this] { judge_clean(); });
    return;
  }
  if (name == "injecting") took_hold_at_ = at;
  if (name == "injected" || name == "reverting" || name == "guard_lost") {
    Json told = Json::object();
    if (event.contains("counted")) told["counted"] = event.at("counted");
    if (name == "injected" && took_hold_at_ != Time(0)) told["began_at"] = took_hold_at_.count();
    state(name, at, detail, std::move(told));
  }
  if (name == "injected") {
    injected_ = true;
    if (!reverting_ && !one_shot()) end_at(at + from_s(order_.entry.for_s));
    look("during", [this] {
      judge_effect();
      if (one_shot()) revert("it is over at once");
      if (one_shot() && undone_at_ != Time(0)) after_one_shot();
    });
  }
}

// What a one-shot fault did outlasts its guard, so that its proof is waited for.
void FaultRun::after_one_shot() {
  if (injected_ && !judged_) return;
  wait_until_ready();
}

// Runs every control once. Values are kept by control and name; what cannot be looked at is
// trouble, never a value.
void FaultRun::look(const std::string& moment, std::function<void()> then) {
  const Json* controls = member(plan_, "controls");
  auto left = std::make_shared<int>(1);
  const auto one_done = [this, left, then = std::move(then)] {
    if (--*left == 0 && !finished_) then();
  };
  const double window_s =
      one_shot() ? kOneShotWindow_s : std::min(kWindowMax_s, order_.entry.for_s / 3);
  const auto tasks = host_.tasks_by_node();
  for (std::size_t i = 0; controls != nullptr && i < controls->size(); ++i) {
    const Json& control = (*controls)[i];
    const bool positive = flag_at(control, "positive");
    const std::string field = last_word(text_at(control, "metric"));
    const std::string key = std::to_string(i);
    std::map<std::string, ProbeTargets> places;
    const Json* of_probe = member(control, "params");
    const bool by_itself = of_probe != nullptr && of_probe->is_object();
    if (by_itself) {
      const std::string at = text_at(control, "at");
      places[at.empty() ? order_.node : at] = {};
    } else if (text_at(control, "of") == "target") {
      places[order_.node] = order_.target;
    } else {
      for (const auto& [node, names] : tasks) places[node].tasks = names;
    }
    for (auto& place : places) {
      const std::string& node = place.first;
      ProbeTargets& targets = place.second;
      if (text_at(control, "of") != "target")
        for (const auto* mine : {&order_.target.tasks, &order_.kin})
          std::erase_if(targets.tasks, [mine](const std::string& name) {
            return std::find(mine->begin(), mine->end(), name) != mine->end();
          });
      if (targets.empty() && !by_itself) continue;
      ++*left;
      Json params = by_itself ? *of_probe : Json::object();
      params.update({{"window_s", window_s},
                     {"moment", moment},
                     {"control", positive ? "positive" : "negative"},
                     {"fault", id()}});
      host_.run_probe(
          node, text_at(control, "probe"), std::move(params), targets,
          [this, moment, key, field, node, one_done](const Result<std::vector<Json>>& rows) {
            Look& seen = looks_[moment];
            const std::size_t before = seen.values[key].size();
            if (!rows.ok()) seen.trouble = rows.error().message;
            if (rows.ok())
              for (const Json& row : *rows)
                if (const Json* value = member(row, field); value != nullptr && value->is_number())
                  seen.values[key].push_back(value->get<double>());
            if (rows.ok() && seen.values[key].size() == before)
              seen.trouble = "nothing was seen on " + node;
            one_done();
          });
    }
  }
  one_done();
}

Json FaultRun::evidence() const {
  Json out = Json::object();
  for (const auto& [moment, look] : looks_) {
    Json values = Json::object();
    for (const auto& [key, numbers] : look.values) values["control_" + key] = numbers;
    out[moment] = {{"values", values}, {"trouble", look.trouble}};
  }
  if (undone_at_ != Time(0)) out["undone_at"] = undone_at_.count();
  return out;
}

// Effective: every positive control outside its range before and inside during, every negative one
// inside both times. Anything that was not seen counts against it.
void FaultRun::judge_effect() {
  if (judged_ || finished_) return;
  judged_ = true;
  std::vector<std::string> reasons;
  if (!replanned_.empty()) reasons.push_back(replanned_);
  const Json* controls = member(plan_, "controls");
  for (std::size_t i = 0; controls != nullptr && i < controls->size(); ++i) {
    const Json& control = (*controls)[i];
    const double low = number_at(control, "low"), high = number_at(control, "high");
    const bool positive = flag_at(control, "positive");
    const std::string name = text_at(control, "metric") + " of " + text_at(control, "of");
    if (order_.by_hand && !positive) continue;
    for (const char* moment : {"before", "during"}) {
      const std::vector<double>& values = looks_[moment].values[std::to_string(i)];
      const bool wanted_inside = !positive || std::string_view(moment) == "during";
      if (values.empty() && (positive || std::string_view(moment) == "during"))
        reasons.push_back(
            name + " was not seen " + moment + " the fault" +
            (looks_[moment].trouble.empty() ? "" : " (" + looks_[moment].trouble + ")"));
      for (const double value : values)
        if ((value >= low && value <= high) != wanted_inside)
          reasons.push_back(format("%s was %.3g %s the fault, %s %.3g to %.3g", name.c_str(), value,
                                   moment, wanted_inside ? "not within" : "already within", low,
                                   high));
    }
  }
  // One node that was not seen is enough: what it hides may be collateral.
  for (const char* moment : {"before", "during"})
    if (const std::string& trouble = looks_[moment].trouble; reasons.empty() && !trouble.empty())
      reasons.push_back(std::string("a control was not seen ") + moment + " the fault (" + trouble +
                        ")");
  state(reasons.empty() ? "effective" : "not_effective", world_.now(Clock::kMonotonic),
        join(reasons, "; "), evidence());
}

bool FaultRun::one_shot() const { return text_at(plan_, "effect") == "one_shot"; }

// The old process is gone, so whoever answers there is a new one. Where its node is lost meanwhile,
// so is the service, and only the journals can settle the fault.
void FaultRun::wait_until_ready() {
  if (lost_ || finished_) return;
  if (order_.ready_url.empty()) return conclude("clean", "");
  awaits_ready_ = true;
  host_.run_probe(
      order_.node, "http_ready", {{"url", order_.ready_url}, {"deadline_s", order_.ready_s}}, {},
      [this](const Result<std::vector<Json>>& rows) {
        if (finished_ || lost_) return;
        if (rows.ok()) return conclude("clean", order_.entry.target + " is ready again");
        if (host_.link(order_.node) == nullptr) return;  // node_lost() follows
        conclude("dirty", order_.entry.target + " did not come back: " + rows.error().message);
      });
}

// Clean: the guard proved its undo; the positive controls must agree, unless the target is gone
// altogether.
void FaultRun::judge_clean() {
  std::vector<std::string> reasons;
  const Json* controls = member(plan_, "controls");
  for (std::size_t i = 0; controls != nullptr && i < controls->size(); ++i) {
    const Json& control = (*controls)[i];
    if (!flag_at(control, "positive")) continue;
    const double low = number_at(control, "low"), high = number_at(control, "high");
    const std::vector<double>& before = looks_["before"].values[std::to_string(i)];
    const bool was_inside_before = std::any_of(
        before.begin(), before.end(), [&](double value) { return value >= low && value <= high; });
    for (const double value : looks_["after"].values[std::to_string(i)])
      if (value >= low && value <= high && !was_inside_before)
        reasons.push_back(format("%s of %s is still %.3g", text_at(control, "metric").c_str(),
                                 text_at(control, "of").c_str(), value));
  }
  // A fault on both sides ends on one of them first: this one is blamed only when the other side's
  // lease is over too.
  if (!reasons.empty() && !order_.from.empty() && world_.now(Clock::kMonotonic) < both_over_by_) {
    world_.cancel(wait_timer_);
    wait_timer_ = world_.after(kLookAgain, [this] {
      looks_.erase("after");
      look("after", [this] { judge_clean(); });
    });
    return;
  }
  // What the controls could not see after the fault, the guard's own proof stands for; the reader
  // is told.
  if (reasons.empty()) return conclude("clean", looks_["after"].trouble);
  conclude("dirty", join(reasons, "; "));
}

void FaultRun::conclude(const std::string& name, const std::string& detail) {
  if (finished_) return;
  state(name, world_.now(Clock::kMonotonic), detail, evidence());
  finish();
}

void FaultRun::finish() {
  finished_ = true;
  for (const TimerId timer : {renew_timer_, wait_timer_, end_timer_}) world_.cancel(timer);
  if (probe_link_) probe_link_->leave(kAnswer, [] {});
  on_finished_();
}

// The agent is gone or silent; the guard reverts at the end of its lease. A new agent's journals
// say what became of it.
void FaultRun::node_lost() {
  if (finished_ || lost_) return;
  if (!begun_) return conclude("not_injected", "its node is lost");
  lost_ = true;
  world_.cancel(renew_timer_);
  world_.cancel(wait_timer_);
  give_up_at_ = std::max(give_up_at_, world_.now(Clock::kMonotonic) + kMargin) + kAnswer;
  ask_new_agent();
}

void FaultRun::ask_new_agent() {
  if (finished_) return;
  if (world_.now(Clock::kMonotonic) > give_up_at_)
    return conclude("dirty",
                    "its node is lost, and nothing there answers that the fault has ended");
  const auto again = [this] { wait_timer_ = world_.after(kAskAgain, [this] { ask_new_agent(); }); };
  probe_link_ = host_.new_link(order_.node, {.on_ready =
                                                 [this, again] {
                                                   if (!read_journals()) again();
                                                 },
                                             .on_event = [](const Json&) {},
                                             .on_lost = [again](const Error&) { again(); },
                                             .on_clock = [] {}});
  probe_link_->connect();
}

// What the new agent found when it started, after recovering what no guard holds. False when that
// settles nothing yet.
bool FaultRun::read_journals() {
  const Json* recovered = member(probe_link_->handshake(), "faults");
  const Json* faults = recovered == nullptr ? nullptr : member(*recovered, "faults");
  if (faults == nullptr) return false;  // it could not look
  const Json* found = nullptr;
  std::string unreadable;
  for (const Json& fault : *faults) {
    if (text_at(fault, "fault") == id() && text_at(fault, "run") == order_.run) found = &fault;
    if (text_at(fault, "fault").empty()) unreadable = text_at(fault, "reason");  // may be ours
  }
  if (found != nullptr && text_at(*found, "state") == "dirty" && !flag_at(*found, "guarded")) {
    conclude("dirty", text_at(*found, "reason"));
  } else if (found != nullptr && flag_at(*found, "resolved")) {
    const bool began = text_at(*found, "state") == "clean";
    conclude(began ? "clean" : "not_injected", "proved by a new agent on " + order_.node);
  } else if (found == nullptr && !unreadable.empty()) {
    conclude("dirty", "a journal cannot be read: " + unreadable);
  } else if (found == nullptr && !injected_ &&
             world_.now(Clock::kMonotonic) > begun_at_ + kMargin) {
    // A guard journals before it acts, so after a while no journal means no injection.
    conclude("not_injected", "no journal of it on " + order_.node);
  }
  return finished_;
}

}  // namespace mixproof
