#include "suites/offered.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

namespace mixproof {
namespace {

constexpr double kForever = 1e12;

struct Stretch {
  double begin_s, end_s, rate_per_s;
};

double overlap_s(const Stretch& stretch, double from_s, double until_s) {
  return std::max(0.0, std::min(stretch.end_s, until_s) - std::max(stretch.begin_s, from_s));
}

double sum_over(const std::vector<Stretch>& stretches, double from_s, double until_s) {
  double sum = 0;
  for (const Stretch& one : stretches) sum += one.rate_per_s * overlap_s(one, from_s, until_s);
  return sum;
}

// Stretches of one round, which repeats.
double sum_of_rounds(const std::vector<Stretch>& round, double period_s, double from_s,
                     double until_s) {
  double whole = 0;
  for (const Stretch& one : round) whole += one.rate_per_s * (one.end_s - one.begin_s);
  const auto up_to = [&](double at_s) {
    const double rounds = std::floor(at_s / period_s);
    return rounds * whole + sum_over(round, 0, at_s - rounds * period_s);
  };
  return up_to(until_s) - up_to(from_s);
}

std::vector<Stretch> steps_of(const Json& params) {
  std::vector<Stretch> out;
  const Json* steps = member(params, "steps");
  double begin_s = 0;
  if (steps != nullptr && steps->is_array())
    for (const Json& step : *steps) {
      out.push_back({begin_s, begin_s + number_at(step, "for_s"), number_at(step, "rate_per_s")});
      begin_s = out.back().end_s;
    }
  return out;
}

std::vector<Stretch> square_of(const Json& params) {
  std::vector<Stretch> out;
  const Json* factors = member(params, "factors");
  if (factors == nullptr || !factors->is_array() || factors->empty()) return out;
  const double each_s = number_at(params, "period_s") / static_cast<double>(factors->size());
  for (std::size_t i = 0; i < factors->size(); ++i)
    if ((*factors)[i].is_number()) {
      const auto at = static_cast<double>(i);
      out.push_back({at * each_s, (at + 1) * each_s,
                     number_at(params, "rate_per_s") * (*factors)[i].get<double>()});
    }
  return out;
}

// From the begin of a burst.
std::vector<Stretch> bursts_of(const Json& params) {
  const double length_s = number_at(params, "length_s"), period_s = number_at(params, "period_s");
  return {{0, length_s, number_at(params, "burst_per_s")},
          {length_s, period_s, number_at(params, "rate_per_s")}};
}

// Requests of a ramp up to a time.
double ramp_until(const Json& params, double phase_s, double at_s) {
  const double from = number_at(params, "from_per_s"), to = number_at(params, "to_per_s");
  const double asked_s = number_at(params, "over_s");
  const double over_s = asked_s > 0 ? asked_s : phase_s;
  if (!(over_s > 0)) return 0;
  const double inside_s = std::min(at_s, over_s), share = inside_s / over_s;
  const double beyond = to * (at_s - inside_s);
  if (text_at(params, "form") != "exponential" || from == to)
    return inside_s * (from + 0.5 * share * (to - from)) + beyond;
  const double growth = std::log(to / from);
  return from * over_s / growth * std::expm1(growth * share) + beyond;
}

bool is_flat(const std::string& kind) {
  return kind == "poisson" || kind == "constant" || kind == "gamma";
}

// {kind: parameters}, or null.
const Json* params_of(const Json& arrivals) {
  return arrivals.is_object() && arrivals.size() == 1 ? &arrivals.begin().value() : nullptr;
}

double mean_of_round(const std::vector<Stretch>& round) {
  double sum = 0, length_s = 0;
  for (const Stretch& one : round) {
    sum += one.rate_per_s * (one.end_s - one.begin_s);
    length_s += one.end_s - one.begin_s;
  }
  return length_s > 0 ? sum / length_s : 0;
}

double peak_of(const std::vector<Stretch>& stretches) {
  double peak = 0;
  for (const Stretch& one : stretches) peak = std::max(peak, one.rate_per_s);
  return peak;
}

}  // namespace

std::optional<double> expected_requests(const Json& arrivals, const OfferedWindow& window) {
  const Json* params = params_of(arrivals);
  if (params == nullptr || !(window.until_s > window.from_s)) return std::nullopt;
  const std::string& kind = arrivals.begin().key();
  const double from_s = window.from_s, until_s = window.until_s;
  if (is_flat(kind)) return number_at(*params, "rate_per_s") * (until_s - from_s);
  if (kind == "steps") {
    std::vector<Stretch> steps = steps_of(*params);
    if (steps.empty()) return std::nullopt;
    steps.back().end_s = kForever;
    return sum_over(steps, from_s, until_s);
  }
  if (kind == "ramp")
    return ramp_until(*params, window.phase_s, until_s) -
           ramp_until(*params, window.phase_s, from_s);
  const double period_s = number_at(*params, "period_s");
  if (!(period_s > 0)) return std::nullopt;
  if (kind == "square") return sum_of_rounds(square_of(*params), period_s, from_s, until_s);
  if (kind != "bursts") return std::nullopt;
  const double shift_s = window.phase_in_load_s - number_at(*params, "offset_s") + period_s;
  return sum_of_rounds(bursts_of(*params), period_s, from_s + shift_s, until_s + shift_s);
}

double count_dispersion(const Json& arrivals) {
  const Json* params = params_of(arrivals);
  if (params == nullptr) return 1;
  const std::string& kind = arrivals.begin().key();
  const bool is_gamma = (is_flat(kind) ? kind : text_at(*params, "process")) == "gamma";
  const double cv = number_at(*params, "cv", 1);
  return is_gamma ? cv * cv : 1;
}

OfferedRate offered_rate(const LoadPlan& load) {
  const Json* arrivals = member(load.params, "arrivals");
  const Json* params = arrivals == nullptr ? nullptr : params_of(*arrivals);
  if (params == nullptr) return {};
  const std::string& kind = arrivals->begin().key();
  if (is_flat(kind)) return {number_at(*params, "rate_per_s"), number_at(*params, "rate_per_s")};
  if (kind == "trace") return {0, number_at(*params, "peak_per_s")};
  if (kind == "ramp") {
    const double asked_s = number_at(*params, "over_s"), over_s = asked_s > 0 ? asked_s : 1;
    return {ramp_until(*params, over_s, over_s) / over_s,
            std::max(number_at(*params, "from_per_s"), number_at(*params, "to_per_s"))};
  }
  const std::vector<Stretch> round = kind == "steps"    ? steps_of(*params)
                                     : kind == "square" ? square_of(*params)
                                                        : bursts_of(*params);
  return {mean_of_round(round), peak_of(round)};
}

OfferedWindow window_of_phase(const Plan& plan, const std::string& load, const PhasePlan& phase) {
  OfferedWindow out{
      .phase_s = phase.length_s(), .from_s = phase.settle_s, .until_s = phase.length_s()};
  double load_begin_s = phase.begin_s;
  for (auto one = plan.phases.rbegin(); one != plan.phases.rend(); ++one) {
    if (one->begin_s > phase.begin_s) continue;
    if (std::find(one->run.begin(), one->run.end(), load) == one->run.end()) break;
    load_begin_s = one->begin_s;
  }
  out.phase_in_load_s = phase.begin_s - load_begin_s;
  return out;
}

}  // namespace mixproof
