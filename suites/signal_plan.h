// What a plan says about signals (series read from elsewhere while the run goes on) and about
// aborts (conditions that end it early).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mixproof {

// The load that samples them. It is no load of a suite: it runs through the whole run, outside the
// workloads' cgroups.
inline constexpr const char* kSignalsProbe = "signals";

struct SignalPlan {
  std::string name;
  std::string on;                // role; its first node collects
  std::string page, prometheus;  // one of them: a service or an http URL
  std::string path = "/metrics";
  std::string series;                         // of a page
  std::map<std::string, std::string> labels;  // of a page: those that a series must carry
  std::string query;                          // of a Prometheus
  std::string combine = "sum";                // sum | max | min, over series and instances
  std::string as = "value";                   // value | rate | increase
  double every_s = 1, timeout_s = 1;
  // Where it is read, by name: the instances of the service, or one entry, the URL's host. Derived.
  std::vector<std::string> instances;

  bool is_counter() const { return as != "value"; }
};

struct AbortPlan {
  std::string id, why;
  std::vector<std::string> phases;  // in which it is watched; empty: in all
  // Of a signal: how long it must lie outside of the bound, and how long it may say nothing
  // (0: without bound).
  std::string signal;
  std::optional<double> at_most, at_least;
  double for_s = 0, no_data_s = 0;
  // Of a load: the least share of good requests among those that ended in the last over_s, once
  // there are least_requests of them.
  std::string load;
  double good_share_at_least = 0, over_s = 10;
  int least_requests = 20;

  std::string check_id() const { return "abort/" + id; }
  bool watches(const std::string& phase) const {
    for (const std::string& one : phases)
      if (one == phase) return true;
    return phases.empty();
  }
};

}  // namespace mixproof
